"""Fences: who owns a key, and what a node does for whoever does not own it any more."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Delta, Failed
from roost.core.fence import Epoch, Fence
from roost.core.request import Continuation
from roost.node.effects import Stop
from roost.node.fence import Fences
from roost.node.settings import AgentSettings
from roost.wire.messages import Open, Refused, Released
from tests.node.kit import STARTED, Node, key, offer, open_message, reason_of

EPOCHS = st.builds(Epoch, st.integers(1, 3), st.integers(1, 3), st.sampled_from(["a", "b"]))


def fenced(stream: int, counter: int, name: str = "k", generation: int = 1) -> Open:
    """An Open under this key and epoch."""
    fence = Fence(name, Epoch(generation, counter, "gateway"))
    return msgspec.structs.replace(open_message(stream), fence=fence)


def running(node: Node, stream: int, counter: int) -> None:
    """Bring a fenced stream as far as its first word."""
    node.take(node.agent.on_message(1, fenced(stream, counter), node.now))
    node.loaded()
    node.prepared(stream)
    node.event(stream, STARTED, Delta("a"))


@given(st.lists(st.tuples(st.sampled_from("xy"), EPOCHS), max_size=20))
def test_only_ever_higher_epochs_are_admitted(claims: list[tuple[str, Epoch]]) -> None:
    """Whatever comes in whatever order: what was admitted rises, and nothing higher is refused."""
    fences, highest = Fences(8), dict[str, Epoch]()
    for name, epoch in claims:
        standing = fences.admit(Fence(name, epoch))
        before = highest.get(name)
        expected = "first" if before is None else "higher" if epoch > before else "stale"
        assert standing == expected
        highest[name] = max(epoch, before or epoch)


def test_generations_count_more_than_counters_and_ids_come_last() -> None:
    """A gateway that was started again is newer; equal numbers of two gateways still differ."""
    assert Epoch(2, 1, "a") > Epoch(1, 99, "b")
    assert Epoch(1, 2, "a") > Epoch(1, 1, "b")
    assert Epoch(1, 1, "a") != Epoch(1, 1, "b")


def test_the_key_longest_unheard_of_is_forgotten() -> None:
    """The table is bounded, and a key that comes up again stays."""
    fences = Fences(2)
    for name, counter in (("x", 1), ("y", 2), ("x", 3), ("z", 4)):
        fences.admit(Fence(name, Epoch(1, counter, "g")))
    assert len(fences) == 2
    assert fences.admit(Fence("x", Epoch(1, 3, "g"))) == "stale"
    assert fences.admit(Fence("y", Epoch(1, 2, "g"))) == "first"


def test_an_older_attempt_is_refused_and_starts_nothing() -> None:
    """So is the same one again: a message that was doubled on the way."""
    node = Node()
    running(node, 1, counter=5)
    for stream, counter in ((2, 4), (3, 5)):
        node.take(node.agent.on_message(1, fenced(stream, counter), node.now))
        refused, released = node.said(stream)
        assert reason_of(refused) == "fenced"
        assert isinstance(released, Released)
    assert node.event(1, Delta("b")), "who owns it goes on"


def test_a_newer_attempt_ends_what_an_older_one_has_here() -> None:
    """The older one hears why, nothing it says afterwards is passed on, and the newer one runs."""
    node = Node()
    running(node, 1, counter=5)
    node.take(node.agent.on_message(1, fenced(2, 6), node.now))
    assert Stop(key(1)) in node.fresh()
    last = node.events(1)[-1]
    assert isinstance(last, Failed)
    assert last.failure.reason == "fenced"
    assert node.event(1, Delta("b")) == []
    node.closed(1)
    node.prepared(2)
    assert node.event(2, STARTED)


def test_other_keys_and_unfenced_requests_are_left_alone() -> None:
    """A fence is about its own key."""
    node = Node(AgentSettings(backend="tiny", max_in_flight=3))
    running(node, 1, counter=5)
    node.open(2)
    node.take(node.agent.on_message(1, fenced(3, 1, "other"), node.now))
    assert not [m for m in node.all if isinstance(getattr(m, "message", None), Refused)]
    assert node.event(1, Delta("b"))


def test_a_newer_attempt_counts_even_where_it_finds_no_room() -> None:
    """The older one is over all the same: somebody newer wants the work, here or elsewhere."""
    node = Node(AgentSettings(backend="tiny", max_in_flight=1))
    running(node, 1, counter=5)
    node.take(node.agent.on_message(1, fenced(2, 6), node.now))
    assert reason_of(node.said(2)[0]) == "node_busy"
    assert isinstance(node.events(1)[-1], Failed)


def test_an_answer_that_other_weights_began_is_refused() -> None:
    """Its ids mean something else here, whatever the model is called."""
    mine = msgspec.structs.replace(offer(), digest="w")
    for digest, reasons in (("w", []), ("other", ["model_not_found"]), ("", ["model_not_found"])):
        node = Node(AgentSettings(backend="tiny"), mine)
        message = open_message(1)
        begun = msgspec.structs.replace(message.request, continuation=Continuation((1,), digest))
        message = msgspec.structs.replace(message, request=begun)
        node.take(node.agent.on_message(1, message, node.now))
        assert [reason_of(m) for m in node.said(1) if isinstance(m, Refused)] == reasons
