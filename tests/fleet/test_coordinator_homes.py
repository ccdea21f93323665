"""Where conversations go: homes, moves and ties."""

from __future__ import annotations

import pytest
from msgspec import structs

from roost.core.ids import NodeId, TenantId
from roost.core.request import Message
from roost.core.snapshots import NodeStatus
from roost.fleet.choice.affinity import chain, extend
from roost.fleet.effects import Dispatch
from tests.fleet.kit import (
    MODEL,
    Fleet,
    dispatched,
    of,
    offer,
    running,
    status,
)

A, B = NodeId("a"), NodeId("b")


def _turns(fleet: Fleet) -> tuple[bytes, ...]:
    """Run a first turn to its end; the chain of the second is returned."""
    messages = (Message("system", "Be kind."), Message("user", "Hello"))
    hashes = chain(TenantId("t"), MODEL, messages)
    fleet.ask("t1", chain=hashes)
    fleet.token("t1")
    fleet.finish("t1", answer=" Hi! ")
    return (*hashes, *_more(hashes[-1], ("assistant", "Hi!"), ("user", "And?")))


def _more(last: bytes, *messages: tuple[str, str]) -> tuple[bytes, ...]:
    hashes = []
    for role, content in messages:
        last = extend(last, role, content)
        hashes.append(last)
    return tuple(hashes)


def test_second_turn_comes_home() -> None:
    """A plain client that resends its history meets the node that has its KV."""
    for seed in range(10):
        fleet = Fleet(seed=seed)
        fleet.join("a", "b", "c")
        hashes = _turns(fleet)
        (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
        assert (second.placement, second.why) == ("warm", "home")
        assert fleet.machine.statistics().warm == 1


def test_busy_home_is_left_for_a_free_node() -> None:
    """Affinity has a price: a free node now beats the home later."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    hashes = _turns(fleet)
    fleet.ask("other")
    fleet.join("b")
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.node, second.placement, second.why) == (B, "moved", "home_busy")


def test_home_is_waited_for_when_nobody_else_is_free() -> None:
    """With every place taken the request waits and then goes home."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    hashes = _turns(fleet)
    fleet.ask("other")
    assert dispatched(fleet.ask("t2", chain=hashes)) == []
    assert of(fleet.finish("other"), Dispatch)[0].placement == "warm"


def test_lost_home_is_called_lost() -> None:
    """A dead home, or one whose runtime was replaced, holds nothing any more."""
    fleet = Fleet()
    fleet.join("a", report=status(runtimes=(running("r1"),)))
    hashes = _turns(fleet)
    fleet.report("a", status(runtimes=(running("r2"),)))
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why) == ("lost", "runtime_replaced")
    fleet.join("b")
    fleet.leave("a")
    (third,) = of(fleet.ask("t3", chain=hashes), Dispatch)
    assert (third.placement, third.why) == ("lost", "home_gone")


@pytest.mark.parametrize(
    ("report", "why"),
    [(status(draining=True), "home_draining"), (status(offer("n")), "home_unusable")],
)
def test_moved_says_why(report: NodeStatus, why: str) -> None:
    """People who ask why a turn was cold get an answer."""
    fleet = Fleet()
    fleet.join("a")
    hashes = _turns(fleet)
    fleet.join("b")
    fleet.report("a", report)
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why) == ("moved", why)


def test_ties_go_to_chance() -> None:
    """An idle fleet shares first requests, whatever the order in which nodes joined."""
    firsts = set()
    for seed in range(20):
        fleet = Fleet(seed=seed)
        fleet.join("a", "b", "c")
        firsts |= {node for _, node in dispatched(fleet.ask("r"))}
    assert firsts == {"a", "b", "c"}


def test_same_seed_same_decisions() -> None:
    """Chance is an argument: equal dice, equal fleet."""

    def course() -> list[tuple[str, str]]:
        fleet = Fleet(seed=7)
        fleet.join("a", "b", "c")
        return [pair for n in range(6) for pair in dispatched(fleet.ask(f"r{n}"))]

    assert course() == course()


def test_work_for_other_gateways_counts_as_load() -> None:
    """Several gateways may share nodes: the one that others keep busy is not the least loaded."""
    for seed in range(10):
        fleet = Fleet(seed=seed)
        fleet.join("a", report=structs.replace(status(offer(slots=8)), in_flight=3))
        fleet.join("b", report=status(offer(slots=8)))
        assert dispatched(fleet.ask("r1")) == [("r1", "b")]
        fleet.report("b", structs.replace(status(offer(slots=8)), in_flight=1))
        assert dispatched(fleet.ask("r2")) == [("r2", "b")], "its own request is not somebody's"
