"""What is learned of nodes and models, and when it is enough to rely on."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.fleet import pace
from roost.fleet.pace import Mean, Pace, TokenRate
from roost.fleet.settings import FleetSettings

A, M = NodeId("a"), ModelId("m")


def terms(**changes: int) -> Terms:
    """A request with these lengths."""
    return Terms(RequestId("r"), TenantId("t"), **changes)  # type: ignore[arg-type]


def test_mean_follows_change() -> None:
    """The first values count alike; later on the newest fifth of them does."""
    mean = Mean()
    for value in (1.0, 2.0, 3.0):
        mean.note(value)
    assert mean.value == pytest.approx(2.0)
    for _ in range(40):
        mean.note(10.0)
    assert mean.value == pytest.approx(10.0, abs=0.01)


def test_unsure_before_three_and_after_a_while() -> None:
    """Fewer than three observations, or old ones, are no knowledge."""
    known = Pace(FleetSettings(pace_least=3, pace_ttl_s=60.0))
    for n in range(3):
        assert known.sure(A, M, 10.0) is None
        known.note_prefill(A, M, 100, 1.0, 10.0 + n)
        known.note_decode(A, M, 10, 0.5, 1, 10.0 + n)
    place = known.sure(A, M, 71.9)
    assert place is not None
    assert place.prefill.value == pytest.approx(0.01)
    assert place.decode_s(1) == pytest.approx(0.05)
    assert known.sure(A, M, 72.0) is None
    known.joined(A)
    assert known.sure(A, M, 20.0) is None


def test_decode_is_known_by_streams() -> None:
    """Where a number of streams was never seen, the nearest one stands in."""
    known = Pace(FleetSettings())
    for _ in range(3):
        known.note_prefill(A, M, 100, 1.0, 1.0)
        known.note_decode(A, M, 10, 1.0, 1, 1.0)
        known.note_decode(A, M, 10, 4.0, 4, 1.0)
    place = known.sure(A, M, 2.0)
    assert place is not None
    assert [place.decode_s(n) for n in (1, 2, 4, 9)] == pytest.approx([0.1, 0.1, 0.4, 0.4])


def test_tiny_prefills_tell_nothing() -> None:
    """A cached prompt's last token takes a step, whatever the rate."""
    known = Pace(FleetSettings())
    for _ in range(9):
        known.note_prefill(A, M, 1, 1.0, 1.0)
        known.note_decode(A, M, 0, 1.0, 1, 1.0)
    assert known.sure(A, M, 1.0) is None


def test_lengths_are_estimated_then_learned() -> None:
    """Bytes become tokens by the model's own rate; exact counts are taken as they are."""
    rate = TokenRate()
    assert rate.prompt(terms()) == 0
    assert rate.prompt(terms(prompt_bytes=1000)) == 300
    assert rate.prompt(terms(prompt_bytes=1000, prompt_tokens=7)) == 7
    rate.note_prompt(terms(prompt_bytes=1000), 500)
    assert rate.prompt(terms(prompt_bytes=10)) == 5
    assert rate.answer(terms(max_tokens=16)) == 16
    rate.note_answer(40)
    assert [rate.answer(terms()), rate.answer(terms(max_tokens=16))] == [40, 16]


def test_memory_is_bounded() -> None:
    """Nodes that come and go do not pile up."""
    known = Pace(FleetSettings())
    for n in range(pace.PLACES + 3):
        known.note_prefill(NodeId(f"n{n}"), M, 100, 1.0, 1.0)
    assert len(known) == pace.PLACES
