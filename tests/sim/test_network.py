"""Connections: order within one, and the ways in which they fail."""

from __future__ import annotations

from random import Random

from roost.sim.costs import Distances
from roost.sim.network import Connection, End, Network, Packet
from roost.sim.world import Process, World
from roost.wire.messages import Ping


class Pair:
    """A connection whose ends write down what they hear."""

    def __init__(self) -> None:
        self.world = World(Random)
        self.network = Network(self.world, Distances(latency_s=0.01, jitter_s=0.05))
        self.heard: list[Packet] = []
        self.closed: list[str] = []
        self.connection: Connection = self.network.dial("n1")
        self.node = End(
            Process(self.world, "node"), self.heard.append, lambda: self.closed.append("node")
        )
        self.gateway = End(
            Process(self.world, "gateway"), self.heard.append, lambda: self.closed.append("gateway")
        )
        self.connection.attach(self.node, self.gateway)

    def send(self, *numbers: int) -> None:
        """Let the node send these."""
        assert self.connection.up is not None
        for number in numbers:
            self.connection.up.send(Ping(number))

    def numbers(self) -> list[int]:
        """What the gateway has heard."""
        return [message.seq for message in self.heard if isinstance(message, Ping)]


def test_order_is_kept_whatever_the_jitter() -> None:
    """Many messages with random delays arrive as they were sent."""
    pair = Pair()
    pair.send(*range(50))
    pair.world.run(1.0)
    assert pair.numbers() == list(range(50))


def test_partition_holds_back_and_delivers() -> None:
    """Nothing is lost or doubled by a partition, and dialling is impossible meanwhile."""
    pair = Pair()
    pair.send(1)
    pair.network.partition("n1")
    pair.send(2)
    pair.world.run(1.0)
    assert pair.numbers() == []
    assert not pair.network.reachable("n1")
    pair.network.heal("n1")
    pair.send(3)
    pair.world.run(2.0)
    assert pair.numbers() == [1, 2, 3]
    assert pair.network.reachable("n1")


def test_reset_loses_what_is_under_way_and_tells_both() -> None:
    """Both ends hear of it once."""
    pair = Pair()
    pair.send(1)
    pair.connection.reset()
    pair.send(2)
    pair.world.run(1.0)
    assert pair.numbers() == []
    assert sorted(pair.closed) == ["gateway", "node"]


def test_half_open_swallows_and_tells_nobody() -> None:
    """Silence is all there is to notice."""
    pair = Pair()
    pair.connection.go_half_open()
    pair.send(1)
    pair.connection.close_from_node()
    pair.world.run(1.0)
    assert (pair.numbers(), pair.closed) == ([], [])


def test_hanging_up_arrives_after_what_was_sent() -> None:
    """The last words are heard before the end."""
    pair = Pair()
    pair.send(1, 2)
    pair.connection.close_from_node()
    pair.world.run(1.0)
    assert (pair.numbers(), pair.closed) == ([1, 2], ["gateway"])
    pair.connection.close_from_gateway()
    pair.world.run(2.0)
    assert pair.closed == ["gateway"]
