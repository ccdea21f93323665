"""MACHINE: a simulated gateway's ends of its links; what comes over them goes to its desk."""

from __future__ import annotations

from functools import partial
from typing import Protocol, TypeAlias

from roost.core.ids import NodeId
from roost.errors import Failure
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Line
from roost.sim.network import Connection, End, Packet
from roost.sim.world import Alarm, Process
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd
from roost.wire.link_tables import Close, Deliver, GatewayOutput, Send
from roost.wire.messages import (
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Phase,
    Refused,
    Released,
    Status,
)

AboutStream: TypeAlias = Phase | Events | Refused | Released


class Desk(Protocol):
    """Who hears what nodes say."""

    def on_heard(self, node: NodeId) -> None:
        """A node is alive."""
        ...

    def on_joined(self, hello: Hello) -> None:
        """A node introduces itself; an older line of the same one is still there."""
        ...

    def on_status(self, node: NodeId, message: Status) -> None:
        """A node reports."""
        ...

    def on_stream(self, line: Line, message: AboutStream) -> None:
        """A node speaks of a stream."""
        ...

    def on_left(self, node: NodeId) -> None:
        """A node's line is gone."""
        ...


class Switchboard:
    """`lines` is the one line of each node that counts."""

    def __init__(self, process: Process, ledger: Ledger, desk: Desk) -> None:
        self.lines: dict[NodeId, Line] = {}
        self._process = process
        self._world = process.world
        self._ledger = ledger
        self._desk = desk

    def answer(self, connection: Connection, _node: End) -> End:
        """Take a new connection; the ear for what it brings."""
        end = GatewayEnd("sim", LinkSettings(), self._world.now)
        line = Line(connection, end, Alarm(self._process, lambda: self._tick(line)))
        line.alarm.set(end.next_tick())
        return End(self._process, partial(self._heard, line), partial(self._lost, line))

    def say(self, line: Line, message: FromGateway) -> None:
        """Say this on a line."""
        self._put(line, line.end.say(message))

    def disconnect(self, node: NodeId, failure: Failure) -> None:
        """End a node's line, if there is one."""
        line = self.lines.pop(node, None)
        if line is not None:
            self._ledger.gone(node)
            self.say(line, Goodbye(failure, again=True))

    def _known(self, line: Line) -> NodeId | None:
        """Whose line it is, if it is the one that counts."""
        known = line.node is not None and self.lines.get(line.node) is line
        return line.node if known else None

    def _heard(self, line: Line, message: Packet) -> None:
        node = self._known(line)
        if node is not None:
            self._ledger.heard(node)
            self._desk.on_heard(node)
        # The network is one for both directions; the link's own table refuses what is wrong.
        self._put(line, line.end.on_message(message, self._world.now))  # type: ignore[arg-type]

    def _lost(self, line: Line) -> None:
        line.over = True
        node = self._known(line)
        if node is not None:
            del self.lines[node]
            self._desk.on_left(node)

    def _tick(self, line: Line) -> None:
        if line.over:
            return
        self._put(line, line.end.on_tick(self._world.now))
        line.alarm.set(line.end.next_tick())

    def _put(self, line: Line, outputs: list[GatewayOutput]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                assert line.connection.down is not None, "a line is attached"
                line.connection.down.send(output.message)
            elif isinstance(output, Deliver):
                self._delivered(line, output.message)
            elif isinstance(output, Close):
                self._ledger.closed(line.node, output.failure)
                line.connection.close_from_gateway()
                self._lost(line)

    def _delivered(self, line: Line, message: FromNode) -> None:
        self._world.log(f"< {line.node} {type(message).__name__}")
        if isinstance(message, Hello):
            # Told before the line is filed: whoever is disconnected for it is the older one.
            self._desk.on_joined(message)
            line.node = message.node
            self.lines[message.node] = line
            self._ledger.joined(message.node)
            return
        node = self._known(line)
        if node is None:
            return
        if isinstance(message, Status):
            self._ledger.reported(node, message.status)
            self._desk.on_status(node, message)
        elif isinstance(message, AboutStream):
            self._desk.on_stream(line, message)
