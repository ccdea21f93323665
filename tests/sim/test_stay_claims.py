"""Each claim about orders, pins and memory finds the history that breaks it, and its excuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.sim.claims.checkers import check
from roost.sim.claims.staying import CLAIMS
from roost.sim.history import History
from roost.sim.node_facts import Ordered, Residence, Trouble, Weighing

A, M = NodeId("a"), ModelId("m")


def resident(history: History, **facts: object) -> Residence:
    """A runtime that was ready at 3 and told to go at 9."""
    one = Residence(A, M, 1.0, 1, 0, 5.0, 3.0, 9.0, **facts)  # type: ignore[arg-type]
    history.residences.append(one)
    return one


def ordered(history: History, what: str = "load", ended_s: float | None = 9.0) -> Ordered:
    """An order of second 5 that a node has got."""
    one = Ordered(A, M, what, force=False, given_s=5.0, wait_s=2.0, life=1, ended_s=ended_s)
    one.runtime = RuntimeId("m#1")
    history.orders.append(one)
    history.ended_s = 100.0
    return one


def weighed(history: History, passes: int, *shares: float, asked: bool = False) -> None:
    """A memory was measured so often, and so many passes were made in all."""
    for share in shares:
        history.weighings.append(Weighing(A, 1, asked, share))
    history.weighings[-1].passes = passes


def _no_end(h: History) -> None:
    ordered(h, ended_s=None)


def _not_loaded(h: History) -> None:
    ordered(h).done = True


def _still_there(h: History) -> None:
    one = ordered(h, "unload")
    one.done = one.there = True


def _pinned(h: History) -> None:
    resident(h, pinned=True)


def _just_begun(h: History) -> None:
    resident(h, preparing=1)


def _too_much(h: History) -> None:
    resident(h, taken_mb=951.0, may_mb=950.0)


def _once_too_often(h: History) -> None:
    weighed(h, 3, 0.5, 0.9, 0.9, 0.9)


def _idle(h: History) -> None:
    h.idle[A, M] = 60.0


BROKEN: list[tuple[str, Callable[[History], None]]] = [
    ("orders_end", _no_end),
    ("orders_end", _not_loaded),
    ("orders_end", _still_there),
    ("pins_hold", _pinned),
    ("firsts_are_served", _just_begun),
    ("loads_fit", _too_much),
    ("passes_are_few", _once_too_often),
    ("idle_models_go", _idle),
]


@pytest.mark.parametrize(
    ("claim", "damage"), BROKEN, ids=lambda value: getattr(value, "__name__", value)
)
def test_what_breaks_a_claim_is_found(claim: str, damage: Callable[[History], None]) -> None:
    """By this claim, and by no other of these."""
    history = History()
    damage(history)
    names = {name for name, _, _ in CLAIMS}
    assert {one.checker for one in check(history)} & names == {claim}


def _never_reached(h: History) -> None:
    ordered(h, ended_s=None).life = 0


def _died(h: History) -> None:
    ordered(h, ended_s=None)
    h.troubles.append(Trouble(A, "kill_node", 6.0, 7.0))


def _still_waits(h: History) -> None:
    ordered(h, ended_s=None)
    h.ended_s = 20.0


def _refused(h: History) -> None:
    ordered(h, "unload").there = True


def _forced(h: History) -> None:
    resident(h, pinned=True, preparing=2, forced=True)


def _unmeasured(h: History) -> None:
    resident(h, taken_mb=951.0)


def _risen_twice(h: History) -> None:
    weighed(h, 3, 0.5, 0.9, 0.96, 0.5, 0.9)


def _lacking(h: History) -> None:
    weighed(h, 3, 0.5, 0.5, 0.5, asked=True)


EXCUSED = [
    *(_never_reached, _died, _still_waits, _refused, _forced, _unmeasured, _risen_twice, _lacking),
]


@pytest.mark.parametrize("excuse", EXCUSED, ids=lambda value: value.__name__)
def test_what_is_excused(excuse: Callable[[History], None]) -> None:
    """Dead nodes, refusals, force, memory that nobody measures, and reasons for a pass."""
    history = History()
    excuse(history)
    names = {name for name, _, _ in CLAIMS}
    assert [one for one in check(history) if one.checker in names] == []
