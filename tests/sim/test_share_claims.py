"""Claims about beginnings that are computed once: each finds the history that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import SessionId
from roost.sim.claims.checkers import check
from roost.sim.claims.sharing import CLAIMS
from roost.sim.history import History
from roost.sim.node_facts import Kept, Move
from tests.sim.test_aside import LIFE, RUNTIME, history, run, trace

COPY = SessionId(2)
BEGINNING = tuple(range(100))


def shared() -> History:
    """Somebody computes a long beginning; a second one of its tenant waits for it and has it."""
    one = history()
    first, second = trace("r4", 10.0), trace("r5", 10.2)
    one.traces |= {each.request: each for each in (first, second)}
    leader, follower = run("r4", 10.0), run("r5", 11.2, slot=1)
    leader.prompt, leader.computed_s = (*BEGINNING, 7), 11.0
    follower.prompt, follower.ready_s, follower.cached = (*BEGINNING, 8), 10.2, 100
    follower.reuse = True
    one.runs += [leader, follower]
    one.moves += [_copied("copy", 11.0), _copied("lend", 11.1), _copied("forget", 20.0)]
    one.aside = [
        Kept(
            *(LIFE, 10, 0, 1, 100, 100, 9),
            tokens_min=8,
            shared_tokens_min=32,
            shared_wait_s=2.0,
            told=(0, 0),
            at_rest=(0, 0),
        )
    ]
    return one


def _copied(kind: str, began_s: float) -> Move:
    slot = -1 if kind == "forget" else 1
    return Move(kind, LIFE, RUNTIME, slot, COPY, began_s, began_s + 0.05, ok=True)


def _held_for_ever(one: History) -> None:
    one.runs[-1].ready_s = -30.0
    one.runs[-2].computed_s = None


def _computed_again(one: History) -> None:
    one.runs[-1].cached = 0


def _computed_although_kept(one: History) -> None:
    one.runs[-1].ready_s, one.runs[-1].cached = 11.15, 0


def _read_too_early(one: History) -> None:
    one.moves[-3].ended_s = 11.13


def _removed_too_early(one: History) -> None:
    one.moves[-1].began_s = 11.12


BROKEN = [
    ("nobody_is_held_for_long", _held_for_ever),
    ("beginnings_are_computed_once", _computed_again),
    ("what_is_kept_is_not_computed_again", _computed_although_kept),
    ("copies_are_read_whole", _read_too_early),
    ("copies_are_read_whole", _removed_too_early),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History], None]) -> None:
    """The harm is found by the claim that is meant."""
    broken = shared()
    harm(broken)
    assert {violation.checker for violation in check(broken)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_a_shared_beginning_breaks_nothing() -> None:
    """Who waits as long as is allowed and finds what it waited for is fine."""
    assert check(shared()) == []
    late = shared()
    late.runs[-1].cached, late.runs[-1].ready_s = 0, 8.9
    assert check(late) == []
    crowded, used = shared(), shared()
    for one in (crowded, used):
        _computed_although_kept(one)
    crowded.aside[0].ram_bytes = 60
    used.runs[-2].ended_s = 11.3
    assert check(crowded) == check(used) == []
