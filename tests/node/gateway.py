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


class TestGateway:
    """Keeps everything a node has said, by stream."""

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

    async def run(self) -> None:
        """Serve the node until the link ends; its streams are lost then."""
        self.closed = await self._pump.run()

    def ask(
        self, text: str, *, model: ModelId = MODEL, credit: int = 1000, tenant: str = "t"
    ) -> int:
        """Open a stream for this prompt."""
        return self.ask_for(GenerateRequest(model, TextPrompt(text)), credit, tenant)

    def ask_for(self, request: GenerateRequest, credit: int = 1000, tenant: str = "t") -> int:
        """Open a stream for this request."""
        self._last_stream += 1
        number = self._last_stream
        self._pump.post(
            Open(StreamId(number), RequestId(f"r{number}"), TenantId(tenant), request, credit)
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
            case Refused():
                self.refused[message.stream] = message.failure
            case StatesTold():
                self.told[message.job] = message
            case Released():
                assert message.stream not in self.released
                self.released[message.stream] = message
