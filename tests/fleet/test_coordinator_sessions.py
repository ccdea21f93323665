"""Where requests go that say where their KV is: pins, aliases, and homes that are required."""

from __future__ import annotations

import pytest

from roost.core.compacted import Compacted
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import Message, Terms
from roost.fleet.choice.affinity import alias, chain
from roost.fleet.effects import Answer, Dispatch, Effect
from tests.fleet.kit import MODEL, Fleet, of, offer, running, status

A, B = NodeId("a"), NodeId("b")
TENANT = TenantId("t")
NAMES = ("a", "b", "c", "d")


def ask(fleet: Fleet, name: str, text: str = "", **more: object) -> list[Effect]:
    """Let a request arrive that says this of itself."""
    hashes = chain(TENANT, MODEL, [Message("user", text)]) if text else ()
    terms = Terms(RequestId(name), TENANT, chain=hashes, **more)  # type: ignore[arg-type]
    return fleet.machine.on_request(terms, MODEL, fleet.now)


def serve(fleet: Fleet, name: str, text: str, **more: object) -> Dispatch:
    """Serve a request to its end."""
    (sent,) = of(ask(fleet, name, text, **more), Dispatch)
    fleet.token(name)
    fleet.finish(name)
    return sent


def refusal(effects: list[Effect]) -> str:
    """Why a request was refused."""
    (answer,) = of(effects, Answer)
    return answer.failure.reason


@pytest.mark.parametrize("node", NAMES)
def test_a_pin_is_a_home(node: str) -> None:
    """A conversation that this gateway has never seen goes where somebody says its KV is."""
    fleet = Fleet()
    fleet.join(*NAMES)
    (sent,) = of(ask(fleet, "r1", "x", pin=Pin(NodeId(node), MODEL, 50)), Dispatch)
    assert (sent.node, sent.placement) == (node, "warm")


def test_a_pin_of_another_model_says_nothing() -> None:
    """KV of one model is of no use to another."""
    fleet = Fleet()
    fleet.join("a")
    (sent,) = of(ask(fleet, "r1", "x", pin=Pin(A, ModelId("other"), 50)), Dispatch)
    assert sent.placement == "cold"


def test_a_pin_to_a_node_that_is_gone_is_lost_unless_the_history_is_known_elsewhere() -> None:
    """Somebody's word is followed while it can be; what is remembered helps out."""
    fleet = Fleet()
    fleet.join("a")
    (sent,) = of(ask(fleet, "r1", "x", pin=Pin(B, MODEL, 50)), Dispatch)
    assert (sent.placement, sent.why) == ("lost", "home_gone")
    fleet.token("r1")
    fleet.finish("r1")
    (sent,) = of(ask(fleet, "r2", "x", pin=Pin(B, MODEL, 50)), Dispatch)
    assert sent.placement == "warm"


def test_a_pin_that_is_older_than_what_is_known_is_not_followed() -> None:
    """A token of a turn before leads where that one was; whoever insists gets the newest KV."""
    fleet = Fleet()
    fleet.join("a")
    serve(fleet, "r1", "x", prompt_tokens=20)
    fleet.join("b")
    (sent,) = of(ask(fleet, "r2", "x", pin=Pin(B, MODEL, 1), require=True), Dispatch)
    assert (sent.node, sent.placement) == (A, "warm")
    (sent,) = of(ask(fleet, "r3", "x", pin=Pin(B, MODEL, 50), require=True), Dispatch)
    assert (sent.node, sent.placement) == (B, "warm")
    fleet.finish("r2")
    fleet.finish("r3")
    fleet.leave("a")
    (sent,) = of(ask(fleet, "r4", "x", pin=Pin(B, MODEL, 1)), Dispatch)
    assert sent.node == B


def test_an_alias_is_a_hint_where_the_history_is_not_known() -> None:
    """Requests of one group meet on one node; a known history goes its own way."""
    for seed in range(5):
        fleet = Fleet(seed=seed)
        fleet.join(*NAMES)
        group = alias(TENANT, "prompt_cache_key p")
        plain = serve(fleet, "r0", "known")
        homes = {serve(fleet, f"r{n}", f"new {n}", alias=group).node for n in range(1, 6)}
        assert len(homes) == 1
        again = serve(fleet, "r9", "known", alias=group)
        assert (again.node, again.placement) == (plain.node, "warm")
    assert alias(TENANT, "x") != alias(TenantId("u"), "x")


def test_a_busy_home_is_waited_for_if_it_is_required() -> None:
    """Who insists on the KV does not get another node, however free."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    pin = Pin(A, MODEL, 50)
    fleet.ask("other")
    fleet.join("b")
    assert of(ask(fleet, "r1", "x", pin=pin, require=True), Dispatch) == []
    (moved,) = of(ask(fleet, "r2", "y", pin=pin), Dispatch)
    assert moved.node == B
    (sent,) = of(fleet.finish("other"), Dispatch)
    assert (sent.request, sent.node) == ("r1", A)


def test_a_required_home_that_is_gone_is_a_refusal() -> None:
    """Neither the node's end nor that of its runtime is covered up."""
    fleet = Fleet()
    fleet.join("a", "b", report=status(runtimes=(running("r1"),)))
    assert refusal(ask(fleet, "r1", "x", pin=Pin(NodeId("z"), MODEL), require=True)) == (
        "session_gone"
    )
    home = serve(fleet, "r2", "y").node
    fleet.report(home, status(runtimes=(running("r2"),)))
    assert refusal(ask(fleet, "r3", "y", require=True)) == "session_gone"
    fleet.leave(home)
    assert refusal(ask(fleet, "r4", "y", require=True)) == "session_gone"


def test_what_was_never_anywhere_can_begin_although_required() -> None:
    """A first turn has no state to lose; one that says it has a past does."""
    fleet = Fleet()
    fleet.join("a")
    assert of(ask(fleet, "r1", "x", require=True), Dispatch)
    assert refusal(ask(fleet, "r2", "y", require=True, has_past=True)) == "session_gone"


def test_a_required_home_that_drains_is_a_refusal_and_not_a_wait() -> None:
    """A node that takes nothing new for good is not waited for."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.machine.on_drain_node(A, fleet.now)
    effects = ask(fleet, "r1", "x", pin=Pin(A, MODEL), require=True, has_past=True)
    assert refusal(effects) == "session_gone"


def test_a_compacted_past_stays_home_and_is_told_as_a_move() -> None:
    """The node is the same where it can be; nothing is called warm or lost, and a receipt tells."""
    fleet = Fleet()
    fleet.join(*NAMES)
    made = Compacted("proactive", 900)
    sent = serve(fleet, "r1", "shorter", pin=Pin(B, MODEL, 0), compacted=made)
    assert (sent.node, sent.placement, sent.why) == (B, "moved", "compacted")
    assert sent.home_tokens == 0
    receipt = fleet.machine.receipt(RequestId("r1"), fleet.now)
    assert receipt is not None
    assert receipt.compacted == made
    assert (receipt.attempts[0].placement, receipt.attempts[0].lost_tokens) == ("moved", 0)
    assert serve(fleet, "r2", "shorter").placement == "warm"
