"""The life that runtimes with tokens have in common: checked, prepared, seated, and counted out."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import Prepared, SlotUse
from roost.backends.generating import Generating
from roost.core.ids import ModelId
from roost.core.model import Capabilities, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, JsonAny, TextPrompt
from roost.errors import RoostError

TEXT = GenerateRequest(ModelId("m"), TextPrompt("x"))
replace = msgspec.structs.replace


def generating() -> Generating:
    """Make one of two slots with 8 tokens each, of 100 that there are."""
    key = RuntimeKey("fake", ModelId("m"), "sha256:0", RuntimeOptions(8, 2, 8))
    return Generating(key, 8, 100, Capabilities(), lambda: False)


@pytest.mark.parametrize(
    ("prepared", "slot", "reason"),
    [
        (Prepared(TEXT, (1,), 8), 0, "bad_request"),
        (Prepared(TEXT, (1,), 0), 0, "bad_request"),
        (Prepared(TEXT, (), 1), 0, "bad_request"),
        (Prepared(TEXT, (100,), 1), 0, "bad_request"),
        (Prepared(replace(TEXT, max_tokens=-1), (1,), 1), 0, "bad_request"),
        (Prepared(TEXT, (1,), 1), 2, "bad_request"),
        (Prepared(TEXT, (1,), 1), -1, "bad_request"),
        (Prepared(replace(TEXT, constraint=JsonAny()), (1,), 1), 0, "unsupported"),
    ],
)
def test_what_runs_is_checked_again(prepared: Prepared, slot: int, reason: str) -> None:
    """Nothing prepared elsewhere is trusted: limit, tokens, numbers, slot, and what is claimed."""
    with pytest.raises(RoostError) as caught:
        generating().check_run(prepared, SlotUse(slot, reuse=False))
    assert caught.value.failure.reason == reason


def test_what_fits_runs() -> None:
    """A prompt and an answer that fill the slot exactly are fine."""
    generating().check_run(Prepared(TEXT, (1, 99), 6), SlotUse(1, reuse=True))


def test_a_slot_has_one_answer_until_that_was_left() -> None:
    """A second one is a defect of the caller; one whose leaving fails has left all the same."""
    runtime = generating()
    with pytest.raises(ConnectionError), runtime.seat(1):
        _sit_twice(runtime, 0)
    assert runtime.taken == set()


def _sit_twice(runtime: Generating, slot: int) -> None:
    with runtime.seat(slot):
        with pytest.raises(RoostError) as caught, runtime.seat(slot):
            pass
        assert caught.value.failure.reason == "internal"
        assert runtime.taken == {slot, 1}, "whoever was refused frees nothing"
        raise ConnectionError
