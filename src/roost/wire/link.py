"""MACHINE: the two ends of a link between a node and a gateway; no sockets, no clock.

    node end      greeting ──Welcome──▶ up ──Goodbye, illegal, silence──▶ closed
    gateway end   greeting ──Hello────▶ up ──Goodbye, illegal, silence──▶ closed

What may be heard and said in each state is the four tables of `wire.link_tables`; a missing pair is
illegal. Where an end stands, and whether its peer is alive, is `wire.standing`, the same for both.
An illegal message closes the link with a failure and changes nothing else: it is not delivered, and
no stream moves. That costs every stream of the link, on purpose: a peer that breaks the protocol is
defective as a whole, its requests have a better chance elsewhere, and a link that half works hides
the defect. Credit and Cancel for streams that are already released are no breach, since they cross
the Released on the wire.

A shell feeds `on_message`, calls `say` for whatever its own side wants to send, `on_tick` at
`next_tick`, and performs the outputs in order. Values that would hurt later (a NaN deadline, a
negative count, a node name with a line break in it) are refused here as well.
"""

from __future__ import annotations

import msgspec

from roost.core.ids import StreamId
from roost.wire import judge, versions
from roost.wire.heartbeat import LinkSettings
from roost.wire.link_tables import (
    GATEWAY_SIDE,
    NODE_SIDE,
    Close,
    Deliver,
    EndState,
    GatewayOutput,
    NodeOutput,
    Send,
)
from roost.wire.messages import (
    Cancel,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Order,
    Phase,
    Refused,
    Released,
    StateOrder,
    StatesTold,
    Status,
    Welcome,
)
from roost.wire.standing import Standing
from roost.wire.stream_guard import StreamGuard


class LinkStatistics(msgspec.Struct, frozen=True):
    """An end at a glance; `streams` counts those opened and not yet released (gateway end only)."""

    state: EndState
    heard_age_s: float
    rtt_s: float | None
    streams: int = 0


class NodeEnd:
    """The end that dials in and speaks first; `version` is what was agreed upon, 0 before that."""

    def __init__(self, hello: Hello, settings: LinkSettings, now: float) -> None:
        self._hello = hello
        self._settings = settings
        self._standing = Standing(NODE_SIDE, settings, now)
        self.version = 0
        self._last_stream = StreamId(-1)

    @property
    def state(self) -> EndState:
        """Where the link stands."""
        return self._standing.state

    def start(self) -> list[NodeOutput]:
        """The connection stands: introduce the node."""
        return [Send(self._hello)]

    def on_message(self, message: FromGateway, now: float) -> list[NodeOutput]:
        """The gateway said this."""
        standing = self._standing
        if standing.state == "closed":
            return []
        complaint = standing.complaint(message, now) or self._complaint(message)
        if complaint is not None:
            return [*standing.breach(complaint)]
        alike = standing.heard(message, now)
        return self._react(message, now) if alike is None else [*alike]

    def say(self, message: FromNode) -> list[NodeOutput]:
        """The node wants to send this; nothing is sent on a closed link."""
        if self._standing.state == "closed":
            return []
        self._standing.say(message)
        if isinstance(message, Goodbye):
            return [Send(message), Close(message.failure, again=message.again)]
        return [Send(message)]

    def on_tick(self, now: float) -> list[NodeOutput]:
        """Time has passed: notice silence, send a ping when one is due."""
        return [*self._standing.on_tick(now)]

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None once closed."""
        return self._standing.next_tick()

    def statistics(self, now: float) -> LinkStatistics:
        """The end at a glance."""
        standing = self._standing
        return LinkStatistics(standing.state, standing.heard_age_s(now), standing.rtt_s)

    def _complaint(self, message: FromGateway) -> str | None:
        match message:
            case Open():
                reused = message.stream <= self._last_stream
                return "used a stream number twice" if reused else judge.about_open(message)
            case Order() | StateOrder():
                return judge.about_order(message)
            case Credit():
                if message.messages < 1:
                    return "granted less than one message of credit"
                return self._unknown_stream(message.stream)
            case Cancel():
                return self._unknown_stream(message.stream)
            case Welcome():
                # A slower beat than this and two lost pings would look like death.
                usable = 0.0 < message.ping_s <= self._settings.dead_s / 2
                return None if usable else "asked for pings at an unusable interval"
        return None

    def _unknown_stream(self, stream: StreamId) -> str | None:
        return "named a stream it never opened" if stream > self._last_stream else None

    def _react(self, message: FromGateway, now: float) -> list[NodeOutput]:
        match message:
            case Welcome() if not versions.accepts(self._hello, message):
                failure = versions.not_spoken(message, self._hello)
                return [*self._standing.close(failure, again=False)]
            case Welcome():
                self.version = message.version
                self._standing.start(message.ping_s, now)
            case Open():
                self._last_stream = message.stream
        return [Deliver(message)]


class GatewayEnd:
    """The end that is dialled, answers the greeting and guards every stream.

    `version` is what was agreed upon, 0 before that.
    """

    def __init__(self, gateway: str, settings: LinkSettings, now: float) -> None:
        self._gateway = gateway
        self._settings = settings
        self._standing = Standing(GATEWAY_SIDE, settings, now)
        self.version = 0
        self._last_stream = StreamId(-1)
        self._last_status: int | None = None
        self._streams: dict[StreamId, StreamGuard] = {}

    @property
    def state(self) -> EndState:
        """Where the link stands."""
        return self._standing.state

    def on_message(self, message: FromNode, now: float) -> list[GatewayOutput]:
        """The node said this."""
        standing = self._standing
        if standing.state == "closed":
            return []
        complaint = standing.complaint(message, now) or self._complaint(message)
        if complaint is not None:
            return [*standing.breach(complaint)]
        alike = standing.heard(message, now)
        return self._react(message, now) if alike is None else [*alike]

    def say(self, message: FromGateway) -> list[GatewayOutput]:
        """The gateway wants to send this; nothing is sent on a closed link."""
        if self._standing.state == "closed":
            return []
        self._standing.say(message)
        match message:
            case Credit():
                if (guard := self._streams.get(message.stream)) is not None:
                    guard.on_credit(message.messages)
            case Goodbye():
                return [Send(message), Close(message.failure, again=message.again)]
            case Open():
                assert message.stream > self._last_stream, "stream numbers only rise"
                self._last_stream = message.stream
                self._streams[message.stream] = StreamGuard(message.credit)
            case Cancel() if guard := self._streams.get(message.stream):
                guard.cancelled = True
        return [Send(message)]

    def on_tick(self, now: float) -> list[GatewayOutput]:
        """Time has passed: notice silence, send a ping when one is due."""
        return [*self._standing.on_tick(now)]

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None once closed."""
        return self._standing.next_tick()

    def statistics(self, now: float) -> LinkStatistics:
        """The end at a glance."""
        state, age_s = self._standing.state, self._standing.heard_age_s(now)
        return LinkStatistics(state, age_s, self._standing.rtt_s, len(self._streams))

    def _complaint(self, message: FromNode) -> str | None:
        match message:
            case Events() | Phase() | Refused() | Released():
                guard = self._streams.get(message.stream)
                return guard.on_message(message) if guard else "spoke of a stream that is not open"
            case Status():
                return judge.about_status(message, self._last_status)
            case Hello():
                return judge.about_hello(message)
            case StatesTold():
                return judge.about_states(message)
        return None

    def _react(self, message: FromNode, now: float) -> list[GatewayOutput]:
        match message:
            case Hello():
                return self._on_hello(message, now)
            case Status():
                self._last_status = message.seq
            case Released():
                del self._streams[message.stream]
        return [Deliver(message)]

    def _on_hello(self, message: Hello, now: float) -> list[GatewayOutput]:
        version = versions.agreed(message)
        if version is None:
            failure = versions.no_common(message)
            closed = self._standing.close(failure, again=False)
            return [Send(Goodbye(failure, again=False)), *closed]
        self.version = version
        self._standing.start(self._settings.ping_s, now)
        welcome = Welcome(version, self._gateway, self._settings.ping_s)
        return [Send(welcome), Deliver(message)]
