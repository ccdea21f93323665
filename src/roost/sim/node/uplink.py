"""MACHINE: a simulated node's end of its link: dials, hears, is cut off, and dials anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

from roost.core.ids import NodeId
from roost.sim.network import Connection, End, Network, Packet
from roost.sim.world import Alarm, Process
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import NodeEnd
from roost.wire.link_tables import Close, Deliver, NodeOutput, Send
from roost.wire.messages import VERSION, FromGateway, FromNode, Hello, Welcome

Answerer: TypeAlias = Callable[[Connection, End], End]
"""The gateway's side of a new connection."""


class Listener(Protocol):
    """Who hears what comes over it; `link` is its number, one for each connection."""

    def on_up(self, link: int) -> None:
        """A gateway has welcomed the node."""
        ...

    def on_heard(self, link: int, message: FromGateway) -> None:
        """The gateway said this."""
        ...

    def on_down(self, link: int) -> None:
        """A link that was up has ended."""
        ...


class Uplink:
    """That of one life of the node's process; `numbers` go on from life to life."""

    def __init__(
        self,
        node: NodeId,
        process: Process,
        network: Network,
        answer: Answerer,
        listener: Listener,
        numbers: Iterator[int],
    ) -> None:
        self.number = 0
        self._node = node
        self._process = process
        self._world = process.world
        self._network = network
        self._answer = answer
        self._listener = listener
        self._numbers = numbers
        self._alarm = Alarm(process, self._tick)
        self._hang_up()
        process.after(network.redial_s() * 0.1, self._dial)

    def say(self, link: int, message: FromNode) -> None:
        """Say this on a link, if it is the one there is."""
        if link == self.number and self._link is not None:
            self._put(self._link.say(message))

    def reset(self) -> None:
        """Break the connection off: the process has been killed."""
        if self._connection is not None:
            self._connection.reset()

    def _hang_up(self) -> None:
        self._link: NodeEnd | None = None
        self._connection: Connection | None = None
        self.number = 0
        self._up = False

    def _dial(self) -> None:
        if not self._network.reachable(self._node):
            self._process.after(self._network.redial_s(), self._dial)
            return
        self.number = next(self._numbers)
        connection = self._network.dial(self._node)
        ear = End(self._process, self._heard, partial(self._lost, self.number))
        connection.attach(ear, self._answer(connection, ear))
        self._connection = connection
        hello = Hello(VERSION, self._node, self._node, self._process.name, "sim")
        self._link = NodeEnd(hello, LinkSettings(), self._world.now)
        self._put(self._link.start())
        self._alarm.set(self._link.next_tick())

    def _heard(self, message: Packet) -> None:
        if self._link is not None:
            # The network is one for both directions; the link's own table refuses what is wrong.
            self._put(self._link.on_message(message, self._world.now))  # type: ignore[arg-type]

    def _lost(self, number: int) -> None:
        if number == self.number and self._link is not None:
            self._give_up(again=True)

    def _give_up(self, *, again: bool) -> None:
        number, was_up = self.number, self._up
        self._hang_up()
        if was_up:
            self._listener.on_down(number)
        if again:
            self._process.after(self._network.redial_s(), self._dial)

    def _put(self, outputs: list[NodeOutput]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                if self._connection is not None and self._connection.up is not None:
                    self._connection.up.send(output.message)
            elif isinstance(output, Deliver):
                self._delivered(output.message)
            elif isinstance(output, Close):
                if self._connection is not None:
                    self._connection.close_from_node()
                self._give_up(again=output.again)

    def _delivered(self, message: FromGateway) -> None:
        if isinstance(message, Welcome):
            self._up = True
            self._listener.on_up(self.number)
        else:
            self._listener.on_heard(self.number, message)

    def _tick(self) -> None:
        if self._link is not None:
            self._put(self._link.on_tick(self._world.now))
        if self._link is not None:
            self._alarm.set(self._link.next_tick())
