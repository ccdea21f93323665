"""A gateway for tests of the node's shells: the real link end and all that was said."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from roost.core.events import Delta, StreamEvent
from roost.core.ids import ModelId, RequestId, StreamId, TenantId
from roost.core.request import GenerateRequest, TextPrompt
from roost.core.snapshots import NodeStatus
from roost.core.state_views import StateWish
from roost.errors import Failure
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd
from roost.wire.link_tables import Close
from roost.wire.memory import GatewayConnection
from roost.wire.messages import (
    Cancel,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Refused,
    Released,
    StateOrder,
    StatesTold,
    Status,
)
from roost.wire.pump import Pump, PumpSettings
from tests.node.kit import MODEL

AHEAD = 1000
"""Messages that a stream may be ahead of a reader that keeps up."""


class TestGateway:
    """Keeps everything a node has said, by stream.

    It reads all of them as they come, but those that are asked for with a credit, which is all that
    they get.
    """

    __test__ = False

    def __init__(self, connection: GatewayConnection) -> None:
        loop = asyncio.get_running_loop()
        end = GatewayEnd("g", LinkSettings(), loop.time())
        self._pump: Pump[FromGateway, FromNode] = Pump(
            end, connection, self._deliver, PumpSettings(), loop.time
        )
        self.is_up = asyncio.Event()
        self.hello: Hello | None = None
        self.status: NodeStatus | None = None
        self.events: dict[int, list[StreamEvent]] = defaultdict(list)
        self.refused: dict[int, Failure] = {}
        self.released: dict[int, Released] = {}
        self.told: dict[str, StatesTold] = {}
        self.closed: Close | None = None
        self._last_stream = 0
        self._heard = asyncio.Event()
        # Messages of a stream that were read since it was last granted any.
        self._read: dict[int, int] = {}

    async def run(self) -> None:
        """Serve the node until the link ends; its streams are lost then."""
        self.closed = await self._pump.run()

    def ask(
        self, text: str, *, model: ModelId = MODEL, credit: int | None = None, tenant: str = "t"
    ) -> int:
        """Open a stream for this prompt."""
        return self.ask_for(GenerateRequest(model, TextPrompt(text)), credit, tenant)

    def ask_for(
        self, request: GenerateRequest, credit: int | None = None, tenant: str = "t"
    ) -> int:
        """Open a stream for this request."""
        self._last_stream += 1
        number = self._last_stream
        if credit is None:
            self._read[number] = 0
        granted = AHEAD if credit is None else credit
        self._pump.post(
            Open(StreamId(number), RequestId(f"r{number}"), TenantId(tenant), request, granted)
        )
        return number

    def cancel(self, stream: int) -> None:
        """Cancel a stream."""
        self._pump.post(Cancel(StreamId(stream)))

    def order_states(self, job: str, what: StateWish, *states: str, wait_s: float = 0.0) -> None:
        """Ask for states, or have something done with some."""
        self._pump.post(StateOrder(job, what, states, wait_s))

    def credit(self, stream: int, messages: int) -> None:
        """Grant credit."""
        self._pump.post(Credit(StreamId(stream), messages))

    def leave(self, failure: Failure, *, again: bool) -> None:
        """Say goodbye."""
        self._pump.post(Goodbye(failure, again=again))

    def text(self, stream: int) -> str:
        """The answer so far."""
        return " ".join(e.text for e in self.events[stream] if isinstance(e, Delta))

    def all_released(self, *streams: int) -> bool:
        """Whether these have been released."""
        return all(stream in self.released for stream in streams)

    async def until_released(self, *streams: int) -> None:
        """Wait until these have been released."""
        while not self.all_released(*streams):
            self._heard.clear()
            await self._heard.wait()

    async def _deliver(self, message: FromNode) -> None:
        self._note(message)
        self._heard.set()

    def _note(self, message: FromNode) -> None:
        match message:
            case Hello():
                self.hello = message
            case Status():
                self.status = message.status
                self.is_up.set()
            case Events():
                self.events[message.stream] += message.events
                self._keep_up(message.stream)
            case Refused():
                self.refused[message.stream] = message.failure
            case StatesTold():
                self.told[message.job] = message
            case Released():
                assert message.stream not in self.released
                self.released[message.stream] = message
                self._read.pop(message.stream, None)

    def _keep_up(self, stream: StreamId) -> None:
        read = self._read.get(stream)
        if read is None:
            return
        self._read[stream] = (read + 1) % (AHEAD // 2)
        if not self._read[stream]:
            self.credit(stream, AHEAD // 2)
