"""SHELL: one node's link at the gateway: which stream is whose, and who hears what the node says.

The link machine has judged every message before it arrives here, so nothing is checked twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.core.fence import Epoch, Fence, Life
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, StreamId
from roost.errors import Failure, RoostError
from roost.fleet.watching.oddities import Oddities
from roost.fleet.watching.report_news import ReportNews
from roost.wire.codec import FRAME_MAX_BYTES
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd
from roost.wire.messages import (
    Cancel,
    CancelPull,
    Credit,
    Events,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Order,
    Phase,
    Pull,
    Refused,
    Released,
    StateOrder,
    StatesTold,
    Status,
    Vacate,
    Want,
)
from roost.wire.pump import Pump, PumpSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.core.snapshots import RuntimeView
    from roost.fleet.effects import Dispatch
    from roost.gateway.turns.turn import Turn
    from roost.wire.memory import GatewayConnection


CANCEL_PULL_SINCE = 2
"""The version of the link from which on nodes know that message."""
SUPPLANTED = Failure(
    "node_lost",
    "Another node with this node's identity has joined. If one ROOST_HOME is a copy of the other, "
    "remove the folder `nodes` of the copy.",
)


class GatewayLinkSettings(msgspec.Struct, frozen=True):
    """What every link of one gateway has in common.

    `gateway` is its name in the handshake, `life` which of its starts this is; `credit` how many
    Events messages a node may send ahead; `message_max_bytes` is the largest frame in either
    direction.
    """

    gateway: str
    credit: int
    life: Life
    message_max_bytes: int = FRAME_MAX_BYTES
    link: LinkSettings = LinkSettings()


class Ticket(msgspec.Struct):
    """Whose stream this is; stays until the node has released it, also when the turn is over."""

    request: RequestId
    attempt: int
    turn: Turn
    backend: str


class Listener(Protocol):
    """Who hears what a node says."""

    def node_joined(self, link: NodeLink, name: str, instance: str) -> None:
        """The handshake is complete."""
        ...

    def node_status(self, link: NodeLink, message: Status) -> None:
        """The node has reported."""
        ...

    def node_heard(self, link: NodeLink) -> None:
        """The node lives."""
        ...

    def node_left(self, link: NodeLink) -> None:
        """The link has ended."""
        ...

    def refused(self, ticket: Ticket, message: Refused) -> None:
        """The node did not start a stream."""
        ...

    def released(self, ticket: Ticket, message: Released) -> None:
        """A stream's place on the node is free."""
        ...


class NodeLink:
    """Lives as long as its connection; `run` is its life."""

    def __init__(
        self, connection: GatewayConnection, settings: GatewayLinkSettings, listener: Listener
    ) -> None:
        loop = asyncio.get_running_loop()
        end = GatewayEnd(settings.gateway, settings.link, loop.time())
        # A look that is planned before the greeting must not put off the first ping after it.
        limits = PumpSettings(
            tick_max_s=settings.link.ping_s / 2, message_max_bytes=settings.message_max_bytes
        )
        self._end = end
        self._pump = Pump(end, connection, self._deliver, limits, loop.time, self._note_heard)
        # Nothing here ever waits.
        self._pump.hear_at_once(lambda: True)
        self._credit = settings.credit
        self._life = settings.life
        self._listener = listener
        self._tickets: dict[StreamId, Ticket] = {}
        self._streams: dict[tuple[RequestId, int], StreamId] = {}
        self._asked: dict[str, Callable[[StatesTold | None], None]] = {}
        self._last_stream = 0
        self._backends: dict[str, str] = {}
        self._ready: frozenset[RuntimeId | None] = frozenset()
        self.oddities = Oddities()
        self.report_news = ReportNews()
        self._clock = loop.time
        self._heard_every_s = settings.link.ping_s / 4
        self._heard_s = loop.time()
        self.node = NodeId("")
        self.instance = ""
        self.supplanted = False

    # --- what the gateway says

    def open(self, turn: Turn, dispatch: Dispatch) -> None:
        """Start an attempt on this node."""
        self._last_stream += 1
        stream = StreamId(self._last_stream)
        backend = self._backends.get(turn.request.model, "")
        ticket = Ticket(dispatch.request, dispatch.attempt, turn, backend)
        message = Open(
            stream=stream,
            request_id=dispatch.request,
            tenant=turn.terms.sharer,
            request=turn.asks(),
            credit=min(self._credit, turn.relay.room),
            deadline_s=dispatch.deadline_s,
            fence=self._fence(dispatch),
            require=turn.terms.require,
        )
        try:
            self._pump.post(message)
        except RoostError as error:
            # Too large for a frame, say: this request's failure, and nobody else's.
            self._listener.refused(ticket, Refused(stream, error.failure))
            self._listener.released(ticket, Released(stream, "waiting"))
            return
        self._tickets[stream] = ticket
        self._streams[dispatch.request, dispatch.attempt] = stream

    def _fence(self, dispatch: Dispatch) -> Fence:
        life = self._life
        return Fence(dispatch.request, Epoch(life.generation, dispatch.epoch, life.gateway))

    @property
    def streams(self) -> int:
        """How many streams the node has not let go of."""
        return len(self._tickets)

    def credit(self, request: RequestId, attempt: int, messages: int) -> None:
        """Let the node send more of an attempt."""
        stream = self._streams.get((request, attempt))
        if stream is not None:
            self._pump.post(Credit(stream, messages))

    def want(self, model: ModelId) -> None:
        """Ask the node to load a model, if it likes."""
        self._pump.post(Want(model))

    def pull(self, message: Pull) -> None:
        """Have the node fetch a model."""
        self._pump.post(message)

    def order(self, message: Order) -> None:
        """Have the node load, unload, pin or unpin a model."""
        self._pump.post(message)

    def cancel_pull(self, job: str) -> bool:
        """Have the node give a pull up; False where its roost is too old to understand that."""
        understood = self._end.version >= CANCEL_PULL_SINCE
        if understood:
            self._pump.post(CancelPull(job))
        return understood

    def ask(self, order: StateOrder, told: Callable[[StatesTold | None], None]) -> None:
        """Ask about states; `told` is called once, with None where the link ends before."""
        self._asked[order.job] = told
        self._pump.post(order)

    def unask(self, job: str) -> None:
        """Whoever asked this waits no longer."""
        self._asked.pop(job, None)

    def vacate(self, *, vacant: bool) -> None:
        """Say whether anybody comes back through this gateway to what the node holds."""
        self._pump.post(Vacate(vacant))

    def cancel(self, request: RequestId, attempt: int) -> None:
        """Stop an attempt in whatever phase it is."""
        stream = self._streams.get((request, attempt))
        if stream is not None:
            self._pump.post(Cancel(stream))

    def new_runtimes(self, views: Sequence[RuntimeView]) -> list[RuntimeView]:
        """Return the runtimes that have become ready since the last report."""
        ready = {view.runtime: view for view in views if view.state == "ready"}
        new = [view for name, view in ready.items() if name not in self._ready]
        self._ready = frozenset(ready)
        return new

    def shut(self, failure: Failure) -> None:
        """End the link from this side; a node whose identity another one has taken stays away."""
        if self.supplanted:
            self._pump.post(Goodbye(SUPPLANTED, again=False))
        else:
            self._pump.post(Goodbye(failure, again=True))

    async def run(self) -> Failure:
        """Serve the link until it ends, and say why it did; never raises for what the node does."""
        try:
            return (await self._pump.run()).failure
        finally:
            self._listener.node_left(self)
            asked, self._asked = self._asked, {}
            for told in asked.values():
                told(None)

    def _deliver(self, message: FromNode) -> None:
        match message:
            case Events() | Phase() | Refused() | Released():
                self._on_stream(message, self._tickets[message.stream])
            case Hello():
                self.node, self.instance = message.node, message.instance
                self._listener.node_joined(self, message.name, message.instance)
            case Status():
                self._backends = {view.model: view.backend for view in message.status.runtimes}
                self._listener.node_status(self, message)
            case StatesTold():
                told = self._asked.pop(message.job, None)
                if told is not None:
                    told(message)
            case _:
                raise AssertionError(f"the link machine delivered {type(message).__name__}")

    def _note_heard(self) -> None:
        # The coordinator needs to know that the node lives, not that it has said another token.
        now = self._clock()
        if now - self._heard_s >= self._heard_every_s:
            self._heard_s = now
            self._listener.node_heard(self)

    def _on_stream(self, message: Events | Phase | Refused | Released, ticket: Ticket) -> None:
        current = ticket.turn.hears(ticket.attempt)
        match message:
            case Events():
                if current:
                    ticket.turn.on_events(message.events)
            case Phase():
                if current:
                    share = "" if message.progress is None else f" {100 * message.progress:.0f} %"
                    ticket.turn.on_waiting(message.phase + share)
            case Refused():
                self._listener.refused(ticket, message)
            case Released():
                del self._tickets[message.stream]
                del self._streams[ticket.request, ticket.attempt]
                self._listener.released(ticket, message)
