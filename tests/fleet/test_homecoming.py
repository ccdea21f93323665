"""Whether a home was one: what its node found, against what it was believed to hold."""

from __future__ import annotations

import pytest

from roost.core.events import Finished, Started, Usage
from roost.core.ids import RequestId, TenantId
from roost.core.request import Message
from roost.fleet.affinity import chain, extend
from roost.fleet.effects import Dispatch, Placement
from roost.fleet.homecoming import found, lost_tokens
from tests.fleet.kit import MODEL, Fleet, of


@pytest.mark.parametrize(
    ("placement", "home_tokens", "cached_tokens", "label", "lost"),
    [
        ("warm", 1000, 1010, "warm", 0),
        ("warm", 1000, 990, "warm", 0),
        ("warm", 1000, 500, "warm", 0),
        ("warm", 1000, 499, "lost", 501),
        ("warm", 1000, 0, "lost", 1000),
        ("warm", 0, 1, "warm", 0),
        ("warm", 0, 0, "lost", 0),
        ("cold", 0, 0, "cold", 0),
        ("moved", 0, 0, "moved", 0),
        ("lost", 0, 300, "lost", 0),
    ],
)
def test_less_than_half_is_a_loss(
    placement: Placement, home_tokens: int, cached_tokens: int, label: str, lost: int
) -> None:
    """A seam that is written anew is none; a system prompt that others share saves nobody."""
    assert found(placement, home_tokens, cached_tokens) == label
    assert lost_tokens(placement, home_tokens, cached_tokens) == lost


def _second_turn(cached_tokens: int) -> tuple[Dispatch, str, int]:
    """Run two turns; the second finds so many tokens cached. What was believed, and told."""
    fleet = Fleet()
    fleet.join("a")
    messages = (Message("system", "Be kind."), Message("user", "Hello"))
    hashes = chain(TenantId("t"), MODEL, messages)
    fleet.ask("t1", chain=hashes)
    fleet.machine.on_started(RequestId("t1"), 1, Started(400, 0, 0), fleet.now)
    fleet.token("t1")
    ended = Finished("stop", Usage(400, 0, 5000))
    fleet.machine.on_finished(RequestId("t1"), 1, ended, "Hi!", fleet.now)
    fleet.free("t1")
    more = extend(hashes[-1], "assistant", "Hi!")
    (second,) = of(fleet.ask("t2", chain=(*hashes, more, extend(more, "user", "And?"))), Dispatch)
    fleet.machine.on_started(RequestId("t2"), 1, Started(450, cached_tokens, 0), fleet.now)
    receipt = fleet.machine.receipt(RequestId("t2"), fleet.now)
    assert receipt is not None
    (attempt,) = receipt.attempts
    return second, attempt.placement, attempt.lost_tokens


def test_what_was_prompt_is_believed_and_what_was_thought_is_not() -> None:
    """A long answer of which little comes back does not make a loss of a home that kept it."""
    second, placement, lost = _second_turn(398)
    assert (second.placement, second.home_tokens) == ("warm", 400)
    assert (placement, lost) == ("warm", 0)


def test_a_receipt_tells_the_loss() -> None:
    """With only the system prompt left the receipt says so, and what that cost."""
    second, placement, lost = _second_turn(30)
    assert second.placement == "warm"
    assert (placement, lost) == ("lost", 370)
