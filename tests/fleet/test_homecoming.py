"""Whether a home was one: what its node found, against what it was believed to hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from roost.core.events import Finished, Started, Usage
from roost.core.ids import NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import Message, Terms
from roost.fleet.choice.affinity import alias, chain, extend
from roost.fleet.choice.homecoming import found, lost_tokens
from roost.fleet.effects import Dispatch, Placement, Withdraw
from tests.fleet.kit import MODEL, Fleet, idle, of, reasons, running, status

IDLE, IDLE_2 = status(runtimes=(running("m#1"),)), status(runtimes=(running("m#2"),))


@pytest.mark.parametrize(
    ("placement", "home_tokens", "cached_tokens", "label", "lost"),
    [
        ("warm", 1000, 1010, "warm", 0),
        ("warm", 1000, 990, "warm", 0),
        ("warm", 1000, 500, "warm", 0),
        ("warm", 1000, 499, "lost", 501),
        ("warm", 1000, 0, "lost", 1000),
        ("warm", 0, 1, "warm", 0),
        ("warm", 0, 0, "cold", 0),
        ("cold", 0, 0, "cold", 0),
        ("moved", 0, 0, "moved", 0),
        ("moved", 400, 0, "moved", 400),
        ("moved", 400, 390, "moved", 10),
        ("moved", 400, 410, "moved", 0),
        ("lost", 0, 300, "lost", 0),
        ("lost", 400, 30, "lost", 370),
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


def _first_turn(fleet: Fleet) -> tuple[NodeId, tuple[bytes, ...]]:
    """Run a first turn of 400 tokens; its node, and the chain of the second."""
    messages = (Message("system", "Be kind."), Message("user", "Hello"))
    hashes = chain(TenantId("t"), MODEL, messages)
    (sent,) = of(fleet.ask("t1", chain=hashes), Dispatch)
    fleet.machine.on_started(RequestId("t1"), 1, Started(400, 0, 0), fleet.now)
    fleet.token("t1")
    fleet.finish("t1", answer="Hi!")
    more = extend(hashes[-1], "assistant", "Hi!")
    return sent.node, (*hashes, more, extend(more, "user", "And?"))


def _restarts(fleet: Fleet, name: NodeId) -> None:
    """Let a node begin a new life, in which its first runtime has the name of the old one."""
    fleet.leave(name)
    fleet.machine.on_node_joined(name, name, "another life", fleet.now)
    fleet.report(name, IDLE)


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (lambda fleet, home: fleet.leave(home), ("lost", "home_gone")),
        (lambda fleet, home: fleet.report(home, status()), ("lost", "runtime_gone")),
        (lambda fleet, home: fleet.report(home, IDLE_2), ("lost", "runtime_replaced")),
        (_restarts, ("lost", "runtime_replaced")),
        (lambda fleet, home: fleet.machine.on_drain_node(home, 0.0), ("moved", "home_draining")),
    ],
)
def test_whatever_a_home_is_left_for_its_cost_is_told(
    happens: Callable[[Fleet, NodeId], object], told: tuple[str, str]
) -> None:
    """Moved or lost: what the home had and the new place has not was computed again."""
    fleet = Fleet()
    fleet.join("a", "b", report=IDLE)
    home, hashes = _first_turn(fleet)
    happens(fleet, home)
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why, second.home_tokens) == (*told, 3)


def test_a_new_link_alone_loses_nothing() -> None:
    """A runtime outlives the link of its node, and is missed only once a report lacks it."""
    fleet = Fleet()
    fleet.join("a", report=IDLE)
    home, hashes = _first_turn(fleet)
    fleet.leave(home)
    fleet.join("a", report=IDLE)
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why) == ("warm", "home")


@pytest.mark.parametrize(("cached_tokens", "gone"), [(398, False), (30, True), (0, True)])
def test_who_requires_what_its_home_has_forgotten_is_told(cached_tokens: int, gone: bool) -> None:
    """The node alone knows what it still has, and says so before anything is answered."""
    fleet = Fleet()
    fleet.join("a")
    terms = Terms(RequestId("t2"), TenantId("t"), pin=Pin(NodeId("a"), MODEL, 400), require=True)
    fleet.machine.on_request(terms, MODEL, fleet.now)
    effects = fleet.machine.on_started(
        RequestId("t2"), 1, Started(450, cached_tokens, 0), fleet.now
    )
    expected = [("t2", "session_gone")] if gone else []
    assert reasons(effects) == expected
    assert len(of(effects, Withdraw)) == gone
    fleet.free("t2")
    if gone:
        idle(fleet)


@pytest.mark.parametrize(("cached_tokens", "label"), [(390, "warm"), (0, "cold")])
def test_a_beginning_has_lost_nothing(cached_tokens: int, label: str) -> None:
    """Another conversation began with the same words: what is left of it is used, and no more."""
    fleet = Fleet()
    fleet.join("a", "b", report=IDLE)
    hashes = chain(TenantId("t"), MODEL, [Message("user", "Hello")])
    (first,) = of(fleet.ask("t1", chain=hashes), Dispatch)
    fleet.token("t1")
    fleet.finish("t1")
    terms = Terms(RequestId("t2"), TenantId("t"), chain=hashes, fresh=True)
    (sent,) = of(fleet.machine.on_request(terms, MODEL, fleet.now), Dispatch)
    assert (sent.node, sent.home_tokens) == (first.node, 0)
    fleet.machine.on_started(RequestId("t2"), 1, Started(400, cached_tokens, 0), fleet.now)
    receipt = fleet.machine.receipt(RequestId("t2"), fleet.now)
    assert receipt is not None
    assert (receipt.attempts[0].placement, receipt.attempts[0].lost_tokens) == (label, 0)
    fleet.leave(first.node)
    again = structs.replace(terms, request_id=RequestId("t3"))
    (sent,) = of(fleet.machine.on_request(again, MODEL, fleet.now), Dispatch)
    assert (sent.placement, sent.why) == ("cold", "no_home")


def test_a_first_turn_may_require_whatever_its_group_has_lost() -> None:
    """A hint leads to a node and promises nothing, so nothing of it is insisted on."""
    fleet = Fleet()
    fleet.join("a")
    group = alias(TenantId("t"), "prompt_cache_key p")
    fleet.machine.on_request(Terms(RequestId("t1"), TenantId("t"), alias=group), MODEL, fleet.now)
    fleet.token("t1")
    fleet.finish("t1")
    terms = Terms(RequestId("t2"), TenantId("t"), alias=group, require=True)
    fleet.machine.on_request(terms, MODEL, fleet.now)
    assert reasons(fleet.machine.on_started(RequestId("t2"), 1, Started(9, 0, 0), fleet.now)) == []
