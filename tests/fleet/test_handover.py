"""Moving conversations off a node: a few at once, only idle ones, each tried so many times."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId
from roost.core.pin import Pin
from roost.fleet.conversations.effects import Begin
from roost.fleet.conversations.registry import Conversations, ConversationSettings
from roost.fleet.nodes.handover import (
    WHY,
    Emptied,
    Handover,
    HandoverEffect,
    HandoverSettings,
    Move,
)

A, B = NodeId("a"), NodeId("b")
MODEL = ModelId("m")
SETTINGS = HandoverSettings(at_once=2, tries=2, retry_s=5.0, rest_s=10.0)


def ids() -> Iterator[RequestId]:
    """Names for pieces of work."""
    number = 0
    while True:
        number += 1
        yield RequestId(f"w{number}")


class World:
    """A registry, what empties nodes, and a clock."""

    def __init__(self, **pinned: NodeId) -> None:
        self.registry = Conversations(ConversationSettings())
        self.machine = Handover(SETTINGS, self.registry, ids().__next__)
        self.now = 100.0
        for name, node in pinned.items():
            self.talk(name, node)

    def talk(self, name: str, node: NodeId) -> None:
        """Have a turn on this node."""
        request = RequestId(f"{name} {self.now}")
        self.registry.on_turn(key(name), request, self.now)
        self.registry.on_ended(request, Pin(node, MODEL, 9), self.now)

    def look(self, *leaving: NodeId) -> list[HandoverEffect]:
        """Look at nodes that are being left."""
        return self.machine.on_look(leaving, self.now)

    def moves(self, *leaving: NodeId) -> list[Move]:
        """The moves that a look begins."""
        return [one for one in self.look(*leaving) if isinstance(one, Move)]

    def moved(self, move: Move, node: NodeId | None = B) -> list[object]:
        """Say what came of a move."""
        pin = None if node is None else Pin(node, MODEL, 9)
        return [*self.machine.on_moved(move.job, pin, self.now)]


def key(name: str) -> ConversationKey:
    """What a conversation is called here."""
    return ConversationKey(name.encode())


def test_a_few_move_at_once_and_then_it_is_empty() -> None:
    """The next ones begin when places are free, and nobody else's are touched."""
    world = World(c1=A, c2=A, c3=A, d1=B)
    first = world.moves(A)
    assert [move.key for move in first] == [key("c1"), key("c2")]
    assert {move.pin for move in first} == {Pin(A, MODEL, 9)}
    assert world.look(A) == []
    world.moved(first[0])
    (third,) = world.look(A)
    assert isinstance(third, Move)
    assert world.moved(first[1]) == world.moved(third) == []
    assert world.look(A) == [Emptied(A)]
    assert world.registry.pin(key("c1")) == Pin(B, MODEL, 9, WHY)
    assert world.registry.pin(key("d1")) == Pin(B, MODEL, 9)
    assert world.registry.counts().active == 0


def test_who_talks_is_left_alone_and_moved_later() -> None:
    """A turn that runs may end there; a node without idle ones is looked at again after a while."""
    world = World()
    world.registry.on_turn(key("c"), RequestId("r"), world.now)
    assert world.look(A) == [Emptied(A)]
    world.registry.on_ended(RequestId("r"), Pin(A, MODEL, 9), world.now)
    world.now += SETTINGS.rest_s - 1
    assert world.look(A) == []
    world.now += 1
    (move,) = world.moves(A)
    world.moved(move)
    assert world.look(A) == [Emptied(A)]


def test_a_turn_that_comes_meanwhile_waits_for_it() -> None:
    """It begins when the conversation is elsewhere, and is told why."""
    world = World(c=A)
    (move,) = world.moves(A)
    assert world.registry.on_turn(key("c"), RequestId("r"), world.now) == []
    assert world.moved(move) == [Begin(key("c"), RequestId("r"))]
    assert world.registry.pin(key("c")) == Pin(B, MODEL, 9, WHY)
    world.registry.on_ended(RequestId("r"), Pin(B, MODEL, 12), world.now)
    assert world.registry.pin(key("c")) == Pin(B, MODEL, 12), "told once"


def test_who_cannot_be_moved_is_tried_again_later_and_then_left() -> None:
    """Not at once, not for ever, and a new drain begins anew."""
    world = World(c=A)
    (move,) = world.moves(A)
    world.moved(move, None)
    assert world.look(A) == []
    world.now += SETTINGS.retry_s
    (move,) = world.moves(A)
    world.moved(move, None)
    assert world.look(A) == [Emptied(A)]
    assert world.registry.pin(key("c")) == Pin(A, MODEL, 9)
    assert world.look() == []
    assert len(world.moves(A)) == 1


def test_of_whom_nothing_is_kept_is_left_at_once() -> None:
    """Trying again brings no words back."""
    world = World(c=A)
    (move,) = world.moves(A)
    assert world.machine.on_nothing_kept(move.job, world.now) == []
    assert world.look(A) == [Emptied(A)]


@given(
    talks=st.lists(st.sampled_from("ab"), max_size=8),
    steps=st.lists(st.tuples(st.sampled_from("mfnt"), st.integers(0, 7)), max_size=40),
)
def test_whatever_happens_each_is_somewhere_and_the_node_gets_empty(
    talks: list[str], steps: list[tuple[str, int]]
) -> None:
    """Moves that work or do not, turns in between: limits hold, and in the end nobody is left."""
    world = World(**{f"c{n}": NodeId(node) for n, node in enumerate(talks)})
    under_way: list[Move] = []
    for what, number in steps:
        under_way += world.moves(A)
        assert len(under_way) <= SETTINGS.at_once
        assert world.machine.moving == len(under_way)
        if what == "t":
            if world.registry.state(key(f"c{number}")) == "idle":
                world.talk(f"c{number}", A)
        elif under_way:
            move = under_way.pop(number % len(under_way))
            if what == "n":
                world.machine.on_nothing_kept(move.job, world.now)
            else:
                world.moved(move, B if what == "m" else None)
        world.now += 1.0
    for move in under_way:
        world.moved(move)
    emptied = False
    for _ in range(40):
        found = world.look(A)
        emptied = emptied or Emptied(A) in found
        for one in found:
            if isinstance(one, Move):
                world.moved(one)
        world.now += 1.0
    assert emptied
    assert world.machine.moving == world.registry.counts().active == 0
