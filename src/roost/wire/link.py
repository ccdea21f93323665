"""MACHINE: the two ends of a link between a node and a gateway; no sockets, no clock.

    node end      greeting ──Welcome──▶ up ──Goodbye, illegal, silence──▶ closed
    gateway end   greeting ──Hello────▶ up ──Goodbye, illegal, silence──▶ closed

What may be heard and said in each state is the four tables of `wire.link_tables`; a missing pair is
illegal. An illegal message closes the link with a failure and changes nothing else: it is not
delivered, and no stream moves. That costs every stream of the link, on purpose: a peer that breaks
the protocol is defective as a whole, its requests have a better chance elsewhere, and a link that
half works hides the defect. Credit and Cancel for streams that are already released are no breach,
since they cross the Released on the wire.

A shell feeds `on_message`, calls `say` for whatever its own side wants to send, `on_tick` at
`next_tick`, and performs the outputs in order. Values that would hurt later (a NaN deadline, a
negative count, a node name with a line break in it) are refused here as well.
"""

from __future__ import annotations

import msgspec

from roost.core.ids import StreamId
from roost.errors import Failure
from roost.wire import judge
from roost.wire.heartbeat import Heartbeat, LinkSettings
from roost.wire.link_tables import (
    GATEWAY_HEARS,
    GATEWAY_SAYS,
    NODE_HEARS,
    NODE_SAYS,
    Close,
    Deliver,
    EndState,
    GatewayOutput,
    NodeOutput,
    Send,
)
from roost.wire.messages import (
    VERSION,
    Cancel,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Phase,
    Ping,
    Pong,
    Refused,
    Released,
    Status,
    Welcome,
)
from roost.wire.stream_guard import StreamGuard


class LinkStatistics(msgspec.Struct, frozen=True):
    """An end at a glance; `streams` counts those opened and not yet released (gateway end only)."""

    state: EndState
    heard_age_s: float
    rtt_s: float | None
    streams: int = 0


class NodeEnd:
    """The end that dials in and speaks first."""

    def __init__(self, hello: Hello, settings: LinkSettings, now: float) -> None:
        self._hello = hello
        self._settings = settings
        self._state: EndState = "greeting"
        self._heartbeat = Heartbeat(settings, now)
        self._greeted_by = now + settings.greeting_s
        self._last_stream = StreamId(-1)

    @property
    def state(self) -> EndState:
        """Where the link stands."""
        return self._state

    def start(self) -> list[NodeOutput]:
        """The connection stands: introduce the node."""
        return [Send(self._hello)]

    def on_message(self, message: FromGateway, now: float) -> list[NodeOutput]:
        """The gateway said this."""
        if self._state == "closed":
            return []
        complaint = self._complaint(message, now)
        if complaint is not None:
            return self._close(judge.broken("gateway", complaint))
        self._heartbeat.on_heard(now)
        self._state = NODE_HEARS[self._state, type(message)]
        return self._react(message, now)

    def say(self, message: FromNode) -> list[NodeOutput]:
        """The node wants to send this; nothing is sent on a closed link."""
        if self._state == "closed":
            return []
        following = NODE_SAYS.get((self._state, type(message)))
        assert following is not None, f"{type(message).__name__} said while {self._state}"
        self._state = following
        if isinstance(message, Goodbye):
            return [Send(message), Close(message.failure, again=message.again)]
        return [Send(message)]

    def on_tick(self, now: float) -> list[NodeOutput]:
        """Time has passed: notice silence, send a ping when one is due."""
        if self._state == "closed":
            return []
        self._forgive_own_sleep(now)
        failure = _silence("gateway", self._state, self._heartbeat, self._greeted_by, now)
        if failure is not None:
            return self._close(failure)
        ping = self._heartbeat.due_ping(now) if self._state == "up" else None
        return [Send(ping)] if ping else []

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None once closed."""
        return _next_tick(self._state, self._heartbeat, self._greeted_by)

    def statistics(self, now: float) -> LinkStatistics:
        """The end at a glance."""
        heartbeat = self._heartbeat
        return LinkStatistics(self._state, heartbeat.heard_age_s(now), heartbeat.rtt_s)

    def _forgive_own_sleep(self, now: float) -> None:
        if self._state == "up":
            self._heartbeat.forgive_own_sleep(now)
        elif now - self._greeted_by > self._settings.stall_s:
            # The greeting was slept through, and may lie unread.
            self._greeted_by = now + self._settings.stall_s

    def _complaint(self, message: FromGateway, now: float) -> str | None:
        if (self._state, type(message)) not in NODE_HEARS:
            return f"sent {type(message).__name__} on a link that is {self._state}"
        match message:
            case Pong():
                known = self._heartbeat.on_pong(message.seq, now)
                return None if known else "answered a ping that was not sent"
            case Open():
                reused = message.stream <= self._last_stream
                return "used a stream number twice" if reused else judge.about_open(message)
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
            case Ping():
                return [Send(Pong(message.seq))]
            case Pong():
                return []
            case Goodbye():
                return [Close(message.failure, again=message.again)]
            case Welcome():
                return self._on_welcome(message, now)
            case Open():
                self._last_stream = message.stream
        return [Deliver(message)]

    def _on_welcome(self, message: Welcome, now: float) -> list[NodeOutput]:
        if message.version != VERSION:
            return self._close(judge.other_version("gateway", message.version), again=False)
        self._heartbeat.start(message.ping_s, now)
        return [Deliver(message)]

    def _close(self, failure: Failure, *, again: bool = True) -> list[NodeOutput]:
        self._state = "closed"
        return [Close(failure, again=again)]


class GatewayEnd:
    """The end that is dialled, answers the greeting and guards every stream."""

    def __init__(self, gateway: str, settings: LinkSettings, now: float) -> None:
        self._gateway = gateway
        self._settings = settings
        self._state: EndState = "greeting"
        self._heartbeat = Heartbeat(settings, now)
        self._greeted_by = now + settings.greeting_s
        self._last_stream = StreamId(-1)
        self._last_status: int | None = None
        self._streams: dict[StreamId, StreamGuard] = {}

    @property
    def state(self) -> EndState:
        """Where the link stands."""
        return self._state

    def on_message(self, message: FromNode, now: float) -> list[GatewayOutput]:
        """The node said this."""
        if self._state == "closed":
            return []
        complaint = self._complaint(message, now)
        if complaint is not None:
            return self._close(judge.broken("node", complaint))
        self._heartbeat.on_heard(now)
        self._state = GATEWAY_HEARS[self._state, type(message)]
        return self._react(message, now)

    def say(self, message: FromGateway) -> list[GatewayOutput]:
        """The gateway wants to send this; nothing is sent on a closed link."""
        if self._state == "closed":
            return []
        following = GATEWAY_SAYS.get((self._state, type(message)))
        assert following is not None, f"{type(message).__name__} said while {self._state}"
        self._state = following
        match message:
            case Goodbye():
                return [Send(message), Close(message.failure, again=message.again)]
            case Open():
                assert message.stream > self._last_stream, "stream numbers only rise"
                self._last_stream = message.stream
                self._streams[message.stream] = StreamGuard(message.credit)
            case Credit() if guard := self._streams.get(message.stream):
                guard.on_credit(message.messages)
            case Cancel() if guard := self._streams.get(message.stream):
                guard.cancelled = True
        return [Send(message)]

    def on_tick(self, now: float) -> list[GatewayOutput]:
        """Time has passed: notice silence, send a ping when one is due."""
        if self._state == "closed":
            return []
        self._forgive_own_sleep(now)
        failure = _silence("node", self._state, self._heartbeat, self._greeted_by, now)
        if failure is not None:
            return self._close(failure)
        ping = self._heartbeat.due_ping(now) if self._state == "up" else None
        return [Send(ping)] if ping else []

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None once closed."""
        return _next_tick(self._state, self._heartbeat, self._greeted_by)

    def statistics(self, now: float) -> LinkStatistics:
        """The end at a glance."""
        heartbeat = self._heartbeat
        age_s = heartbeat.heard_age_s(now)
        return LinkStatistics(self._state, age_s, heartbeat.rtt_s, len(self._streams))

    def _forgive_own_sleep(self, now: float) -> None:
        if self._state == "up":
            self._heartbeat.forgive_own_sleep(now)
        elif now - self._greeted_by > self._settings.stall_s:
            # The greeting was slept through, and may lie unread.
            self._greeted_by = now + self._settings.stall_s

    def _complaint(self, message: FromNode, now: float) -> str | None:
        if (self._state, type(message)) not in GATEWAY_HEARS:
            return f"sent {type(message).__name__} on a link that is {self._state}"
        match message:
            case Events() | Phase() | Refused() | Released():
                guard = self._streams.get(message.stream)
                return guard.on_message(message) if guard else "spoke of a stream that is not open"
            case Pong():
                known = self._heartbeat.on_pong(message.seq, now)
                return None if known else "answered a ping that was not sent"
            case Status():
                return judge.about_status(message, self._last_status)
            case Hello():
                return judge.about_hello(message)
        return None

    def _react(self, message: FromNode, now: float) -> list[GatewayOutput]:
        match message:
            case Ping():
                return [Send(Pong(message.seq))]
            case Pong():
                return []
            case Goodbye():
                return [Close(message.failure, again=message.again)]
            case Hello():
                return self._on_hello(message, now)
            case Status():
                self._last_status = message.seq
            case Released():
                del self._streams[message.stream]
        return [Deliver(message)]

    def _on_hello(self, message: Hello, now: float) -> list[GatewayOutput]:
        if message.version != VERSION:
            failure = judge.other_version("node", message.version)
            return [Send(Goodbye(failure, again=False)), *self._close(failure, again=False)]
        self._heartbeat.start(self._settings.ping_s, now)
        welcome = Welcome(VERSION, self._gateway, self._settings.ping_s)
        return [Send(welcome), Deliver(message)]

    def _close(self, failure: Failure, *, again: bool = True) -> list[GatewayOutput]:
        self._state = "closed"
        return [Close(failure, again=again)]


def _silence(
    peer: str, state: EndState, heartbeat: Heartbeat, greeted_by: float, now: float
) -> Failure | None:
    if state == "greeting":
        late = now >= greeted_by
        text = f"the {peer} did not complete the greeting in time"
        return Failure("node_lost", text) if late else None
    if heartbeat.is_dead(now):
        age_s = heartbeat.heard_age_s(now)
        return Failure("node_lost", f"nothing was heard from the {peer} for {age_s:.1f} s")
    return None


def _next_tick(state: EndState, heartbeat: Heartbeat, greeted_by: float) -> float | None:
    if state == "closed":
        return None
    return greeted_by if state == "greeting" else heartbeat.next_tick()
