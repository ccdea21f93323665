"""A full fleet refuses from sums alone: what that takes does not grow with the number of nodes."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from roost.fleet.settings import FleetSettings
from tests.fleet.kit import Fleet, offer, reasons, status

SIZES = (4, 32, 256)


def filled(nodes: int, settings: FleetSettings) -> Fleet:
    """A fleet in which every slot is taken and the line is full."""
    fleet = Fleet(settings)
    fleet.join(*(f"n{n}" for n in range(nodes)), report=status(offer(slots=1)))
    taken = min(nodes, settings.max_decodes or nodes)
    for n in range(taken + settings.queue_length):
        assert not reasons(fleet.ask(f"r{n}"))
    # What a first refusal finds out, the next ones know.
    assert reasons(fleet.ask("first")) == [("first", "queue_full")]
    return fleet


def calls(fleet: Fleet, name: str) -> int:
    """How many functions one more refusal calls, those of C included."""
    made = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        made[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        refused = fleet.ask(name)
    finally:
        sys.setprofile(before)
    assert reasons(refused) == [(name, "queue_full")]
    return made[0]


def steps(nodes: int, settings: FleetSettings) -> int:
    """The least of some refusals: a collection of garbage calls things of its own."""
    fleet = filled(nodes, settings)
    return min(calls(fleet, f"more {n}") for n in range(8))


@pytest.mark.parametrize(
    "settings",
    [
        FleetSettings(queue_length=0),
        FleetSettings(queue_length=4),
        FleetSettings(queue_length=0, max_decodes=3),
        FleetSettings(queue_length=0, policy="least_inflight"),
    ],
    ids=["no line", "a full line", "the fleet's cap", "another policy"],
)
def test_a_refusal_looks_at_no_candidate(settings: FleetSettings) -> None:
    """As many steps with 256 nodes as with four: places and decodes are counted already."""
    assert len({steps(nodes, settings) for nodes in SIZES}) == 1
