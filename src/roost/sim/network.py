"""MACHINE: connections: order is kept within one, everything else can go wrong.

As with TCP, what is sent arrives in order or not at all. A partition holds messages back and
delivers them when it heals; a connection that is cut loses what is under way and tells both ends; a
half-open one swallows everything and tells nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roost.sim.costs import Distances
from roost.sim.world import Action, Process, World
from roost.wire.messages import FromGateway, FromNode

if TYPE_CHECKING:
    from random import Random

Packet: TypeAlias = FromNode | FromGateway


class End:
    """One end of a connection: what its process hears."""

    def __init__(
        self, process: Process, hear: Callable[[Packet], None], closed: Callable[[], None]
    ) -> None:
        self.process = process
        self.hear = hear
        self.closed = closed
        self.open = True

    def close(self) -> None:
        """Hear that the connection is over, once."""
        if self.open:
            self.open = False
            self.process.do(self.closed)


class Direction:
    """One way of a connection."""

    def __init__(self, world: World, distances: Distances, dice: Random, to: End) -> None:
        self._world = world
        self._distances = distances
        self._dice = dice
        self._to = to
        self._last_s = 0.0
        self._held: deque[Action] = deque()
        self.holding = False
        self.swallowing = False
        self.cut = False

    def send(self, message: Packet) -> None:
        """Put a message on its way."""
        self._on_its_way(partial(self._hear, message))

    def finish(self) -> None:
        """Let the other end hear, after all that was sent, that this one has closed."""
        self._on_its_way(self._to.close)

    def release(self) -> None:
        """Deliver what was held back, in order."""
        self.holding = False
        while self._held and not self.holding:
            self._held.popleft()()

    def _on_its_way(self, action: Action) -> None:
        if self.cut or self.swallowing:
            return
        delay_s = self._distances.latency_s + self._dice.random() * self._distances.jitter_s
        self._last_s = max(self._last_s, self._world.now + delay_s)
        self._world.at(self._last_s - self._world.now, partial(self._arrive, action))

    def _arrive(self, action: Action) -> None:
        if self.cut or self.swallowing:
            return
        if self.holding:
            self._held.append(action)
        else:
            action()

    def _hear(self, message: Packet) -> None:
        if self._to.open:
            self._to.process.do(partial(self._heard, message))

    def _heard(self, message: Packet) -> None:
        if self._to.open:
            self._to.hear(message)


class Connection:
    """A node's connection to the gateway, both ways."""

    def __init__(self, world: World, distances: Distances, dice: Random) -> None:
        self._world = world
        self._distances = distances
        self._dice = dice
        self.node: End | None = None
        self.gateway: End | None = None
        self.up: Direction | None = None
        self.down: Direction | None = None

    def attach(self, node: End, gateway: End) -> None:
        """Give both ends their ears."""
        self.node, self.gateway = node, gateway
        self.up = Direction(self._world, self._distances, self._dice, gateway)
        self.down = Direction(self._world, self._distances, self._dice, node)

    @property
    def _ways(self) -> tuple[Direction, Direction]:
        assert self.up is not None, "attach comes first"
        assert self.down is not None, "attach comes first"
        return self.up, self.down

    @property
    def _ends(self) -> tuple[End, End]:
        assert self.node is not None, "attach comes first"
        assert self.gateway is not None, "attach comes first"
        return self.node, self.gateway

    def close_from_node(self) -> None:
        """The node's side hangs up."""
        self._ends[0].open = False
        self._ways[0].finish()

    def close_from_gateway(self) -> None:
        """The gateway's side hangs up."""
        self._ends[1].open = False
        self._ways[1].finish()

    def reset(self) -> None:
        """Lose what is under way; both ends hear of it a little later, each on its own."""
        for way, end in zip(self._ways, self._ends, strict=True):
            way.cut = True
            delay_s = self._distances.latency_s + self._dice.random() * self._distances.jitter_s
            self._world.at(delay_s, end.close)

    def hold(self) -> None:
        """Nothing arrives until `release`."""
        for way in self._ways:
            way.holding = True

    def release(self) -> None:
        """What was held arrives."""
        for way in self._ways:
            way.release()

    def go_half_open(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        for way in self._ways:
            way.swallowing = True


class Network:
    """All connections, and which nodes are cut off."""

    def __init__(self, world: World, distances: Distances) -> None:
        self._world = world
        self._distances = distances
        self._dice = world.dice("network")
        self._cut_off: set[str] = set()
        self.is_open = True
        self.connections: dict[str, Connection] = {}

    def reachable(self, node: str) -> bool:
        """Whether this node could dial now, and somebody would answer."""
        return self.is_open and node not in self._cut_off

    def dial(self, node: str) -> Connection:
        """Make a new connection for this node."""
        connection = Connection(self._world, self._distances, self._dice)
        self.connections[node] = connection
        return connection

    def redial_s(self) -> float:
        """How long a node waits before it dials again."""
        return self._distances.redial_s * (0.5 + self._dice.random())

    def shut(self) -> None:
        """Nobody answers any more, and every connection is cut."""
        self.is_open = False
        for connection in self.connections.values():
            connection.reset()

    def partition(self, node: str) -> None:
        """Cut a node off: what is sent is held back, new connections fail."""
        self._cut_off.add(node)
        if node in self.connections:
            self.connections[node].hold()

    def heal(self, node: str) -> None:
        """Let a node be reached again."""
        self._cut_off.discard(node)
        if node in self.connections:
            self.connections[node].release()
