"""Capacity and KV share, the figures that candidates are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView, SlotView
from roost.fleet.choice.board import Board, capacity, kv_share
from roost.fleet.choice.leases import Leases, Share
from roost.fleet.nodes.registry import Node, Registry
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import offer, status


def view(*tokens: int, ctx: int = 100) -> RuntimeView:
    """A runtime whose slots hold these many tokens."""
    slots = tuple(SlotView(n, busy=False, tokens=held) for n, held in enumerate(tokens))
    return RuntimeView(ModelId("m"), "s", "ready", slots=slots, ctx=ctx)


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (None, None),
        (view(), None),
        (view(50, ctx=0), None),
        (view(50, 0), 0.25),
        (view(100, 100), 1.0),
        (view(150), 1.0),
    ],
)
def test_kv_share(runtime: RuntimeView | None, expected: float | None) -> None:
    """Used cells over all cells; unknown stays unknown."""
    assert kv_share(runtime) == expected


@pytest.mark.parametrize(("own", "expected"), [(0, 3), (2, 2), (9, 3)])
def test_capacity(own: int, expected: int) -> None:
    """The smallest limit holds; a node that has not reported has no room."""
    node = Node(NodeId("a"), "a", "a-1", 0.0)
    one = offer("m", 4)
    node.offers = {one.model: one}
    assert capacity(node, one.model, own) == 0
    node.status = status(one, max_in_flight=3)
    assert capacity(node, one.model, own) == expected


def test_what_was_held_against_a_forgotten_node_is_forgotten_with_it() -> None:
    """Node ids that never come back leave nothing behind but the few that are remembered."""
    limits = FleetSettings(remembered_nodes=1, breaker_failures=1)
    registry, model = Registry(limits), ModelId("m")
    board = Board(limits, registry, Leases())
    for name in map(NodeId, ("a", "b")):
        registry.joined(name, name, f"{name}-1", 0.0)
        registry.reported(name, 1, status(), own=0)
        board.joined(name)
        board.no_room(name, model, 1.0)
        board.breakers.failed(name, model, 1.0)
        registry.left(name)
    assert board.breakers.state(NodeId("a"), model, 1.0) == "open"
    board.refresh(1.0)
    assert board.breakers.state(NodeId("a"), model, 1.0) == "closed"
    assert board.breakers.state(NodeId("b"), model, 1.0) == "open"
    board.room(NodeId("b"), model)
    board.breakers.joined(NodeId("b"))
    assert board.next_room_s(1.0) is None, "nobody is waited for"


def test_refusals_of_one_moment_are_one() -> None:
    """Who is refused many at once waits no longer than for one; what follows does."""
    limits = FleetSettings(busy_backoff_s=0.25, busy_backoff_max_s=8.0)
    board, node, model = Board(limits, Registry(limits), Leases()), NodeId("a"), ModelId("m")
    for _ in range(9):
        board.no_room(node, model, 1.0)
    assert board.next_room_s(1.0) == 1.25
    board.no_room(node, model, 1.25)
    assert board.next_room_s(1.25) == 1.75


NODES, MODELS = tuple(map(NodeId, "abc")), tuple(map(ModelId, "mnop"))


class Afresh(Board):
    """A board that makes every record anew for everybody who asks."""

    def touch(self, node: NodeId) -> None:
        """Keep no record of what has changed."""

    def reported(self, node: NodeId, before: Mapping[ModelId, ModelOffer]) -> None:
        """Learn how long loads take; whatever else is new is seen anyway."""
        super().reported(node, before)
        self.reshape()

    def refresh(self, now: float) -> None:
        """Forget all records."""
        self.reshape()
        super().refresh(now)


class Gateway:
    """A board with what it looks at, and what may happen to that."""

    def __init__(
        self, make: Callable[[FleetSettings, Registry, Leases], Board], loads: int
    ) -> None:
        self.settings = FleetSettings(
            replicas=loads, breaker_failures=1, remembered_nodes=1, max_decodes_per_node=3
        )
        self.registry, self.leases = Registry(self.settings), Leases()
        self.board = make(self.settings, self.registry, self.leases)
        self.board.pace.learn_lengths(MODELS[0]).note_answer(9)
        self.now = 100.0
        self.count = 0

    def do(self, what: str, node: NodeId, model: ModelId, draw: Random) -> None:
        """Let one thing happen, as the coordinator has it done."""
        board, registry = self.board, self.registry
        self.count += 1
        match what:
            case "join":
                registry.joined(node, node, f"{node} {self.count}", self.now)
                self.leases.release_node(node)
                board.joined(node)
            case "leave" if registry.left(node):
                board.reshape()
                self.leases.release_node(node)
            case "park" if registry.park(node, parked=draw.random() < 0.5):
                board.reshape()
            case "report" if (record := registry.get(node)) is not None:
                before = record.offers
                if registry.reported(node, self.count, report([*before], draw), 0):
                    board.reported(node, before)
            case "take" if model in getattr(registry.get(node), "offers", ()):
                board.picked(node, model)
                share = Share(tokens=draw.randint(0, 50), prefill=draw.randint(0, 9))
                self.leases.take(RequestId(f"r{self.count}"), 1, node, model, share)
            case "begun" | "free" if leases := self.leases.all():
                one = draw.choice(leases)
                give = self.leases.prefilled if what == "begun" else self.leases.release
                give(one.request, one.attempt)
            case "refuse":
                board.no_room(node, model, self.now)
            case "start":
                board.room(node, model)
            case "fail":
                board.failed(node, model, self.now)
            case "serve":
                board.pace.note_prefill(node, model, 100, draw.random(), self.now)
                board.succeeded(node, model, self.now)
                board.touch(node)
            case "wish":
                board.asked[node, model] = self.now + 5.0
                board.touch(node)
            case "doubt" if registry.get(node) is not None:
                board.confirm(node, self.now)
            case "hear" if registry.heard(node, self.now):
                board.heard(node)
            case "wait":
                self.now += draw.choice((0.01, 0.3, 1.0, 3.0, 6.0))
            case "tick" if registry.advance(self.now):
                board.reshape()
        board.refresh(self.now)


def report(before: Sequence[ModelId], draw: Random) -> NodeStatus:
    """What a node may say of itself: mostly the same models, at other stages."""
    keep = bool(before) and draw.random() < 0.8
    models = before if keep else draw.sample(MODELS, draw.randint(1, 2))
    states = {model: draw.choice(("ready", "loading", "stopping", "")) for model in models}
    offers = [offer(model, usable=draw.random() < 0.7) for model in models]
    kinds = [draw.choice(("generate", "generate", "embed")) for _ in offers]
    return status(
        *(msgspec.structs.replace(one, mode=kind) for one, kind in zip(offers, kinds, strict=True)),
        draining=draw.random() < 0.2,
        runtimes=tuple(
            RuntimeView(model, "s", state, ctx=100)  # type: ignore[arg-type]
            for model, state in states.items()
            if state
        ),
    )


HAPPENINGS = (
    *("join", "leave", "park", "report", "report", "take", "take", "begun", "free", "refuse"),
    *("start", "fail", "serve", "wish", "doubt", "hear", "wait", "wait", "tick"),
)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from((0, 1, 2)))
def test_nothing_that_changes_a_record_is_missed(seed: int, loads: int) -> None:
    """After any events a board that is kept up has what one that begins anew each time has."""
    dice = Random(seed)
    kept, afresh = Gateway(Board, loads), Gateway(Afresh, loads)
    for node in NODES:
        for what in ("join", "report"):
            draw = dice.random()
            for one in (kept, afresh):
                one.do(what, node, MODELS[0], Random(draw))
    for _ in range(60):
        what, node, model = dice.choice(HAPPENINGS), dice.choice(NODES), dice.choice(MODELS)
        draw = dice.random()
        for one in (kept, afresh):
            one.do(what, node, model, Random(draw))
        for name in MODELS:
            fields = [one.board.candidates(name, one.now) for one in (kept, afresh)]
            assert fields[0] == fields[1], (what, node, model, name)
