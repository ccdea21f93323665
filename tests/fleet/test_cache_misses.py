"""Why a past was computed again, of each turn and as a habit of a model's clients."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.compacted import Compacted
from roost.core.events import Started
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.fleet.effects import Dispatch, Placement
from roost.fleet.watching.cache_misses import MODELS_MAX, TURNS_MIN, CacheMisses, Habit, miss_of

M = ModelId("m")
TURN = Terms(RequestId("r"), TenantId("ann"), chain=(b"1", b"2", b"3", b"4"))
FIRST = msgspec.structs.replace(TURN, chain=(b"1", b"2"))


def sent(placement: Placement = "warm", why: str = "", home_tokens: int = 0) -> Dispatch:
    """A dispatch to a node that is believed to hold so many tokens."""
    return Dispatch(
        TURN.request_id, 1, NodeId("n"), placement, why, 0.0, None, home_tokens=home_tokens
    )


def began(cached: int, prompt: int = 1000) -> Started:
    """A start at which so many tokens of the prompt were there."""
    return Started(prompt, cached, 0)


@pytest.mark.parametrize(
    ("dispatch", "cached", "text"),
    [
        (sent("warm", home_tokens=900), 890, None),
        (sent("warm", home_tokens=900), 450, None),
        (sent("warm", home_tokens=900), 212, "diverged at token 212"),
        (sent("warm", home_tokens=900), 0, "its place had gone to others"),
        (sent("moved", "home_full", 900), 0, "its node could not be used: home_full"),
        (sent("lost", "runtime_gone", 900), 20, "what was kept is gone: runtime_gone"),
        (sent("cold"), 212, "diverged at token 212"),
        (sent("cold"), 0, "nothing of it was known here"),
        (sent("cold"), 600, None),
        # Fewer tokens than anybody would miss.
        (sent("warm", home_tokens=60), 0, None),
    ],
)
def test_a_turn_is_judged(dispatch: Dispatch, cached: int, text: str | None) -> None:
    """By what there was of what should have been there."""
    miss = miss_of(TURN, dispatch, began(cached))
    assert (None if miss is None else miss.text) == text


def test_what_has_no_past_misses_none() -> None:
    """A first message, one that says that it begins, and a past that was made shorter."""
    assert miss_of(FIRST, sent("cold"), began(0)) is None
    fresh = msgspec.structs.replace(TURN, fresh=True)
    assert miss_of(fresh, sent("cold"), began(0)) is None
    shorter = msgspec.structs.replace(TURN, compacted=Compacted("proactive", 900))
    assert miss_of(shorter, sent("warm", home_tokens=900), began(0)) is None
    assert miss_of(FIRST, sent("warm", home_tokens=900), began(0)) is not None


def test_a_habit_needs_turns_and_most_of_them() -> None:
    """Sixteen at least, of which more than half computed their past again; and mostly why."""
    misses = CacheMisses()
    good, bad = began(890), began(212)
    for _ in range(TURNS_MIN - 1):
        assert misses.on_started(M, TURN, sent("warm", home_tokens=900), bad) is not None
    assert list(misses.habits()) == []
    misses.on_started(M, TURN, sent("warm", home_tokens=900), began(0))
    assert list(misses.habits()) == [Habit(M, 16, 16, "diverged at token 212")]
    for _ in range(16):
        assert misses.on_started(M, TURN, sent("warm", home_tokens=900), good) is None
    assert list(misses.habits()) == []


def test_what_goes_on_with_an_answer_is_no_turn() -> None:
    """Nor is a first message; neither makes a habit better or worse."""
    misses = CacheMisses()
    going_on = msgspec.structs.replace(sent("warm", home_tokens=900), resumes_at=7)
    for _ in range(40):
        assert misses.on_started(M, TURN, going_on, began(0)) is None
        assert misses.on_started(M, FIRST, sent("cold"), began(0)) is None
    assert list(misses.habits()) == []


def test_models_are_bounded() -> None:
    """Whatever names are asked for."""
    misses = CacheMisses()
    for number in range(3 * MODELS_MAX):
        for _ in range(TURNS_MIN):
            misses.on_started(ModelId(f"m{number}"), TURN, sent("cold"), began(0))
    assert len(list(misses.habits())) == MODELS_MAX
