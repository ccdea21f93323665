"""SHELL: the worker API's own link to its node: what a gateway is to it, inside the process.

The node's agent treats it like any gateway: its limits, its line for slots, its cancels.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TypeAlias

from roost.core.events import StreamEvent
from roost.core.ids import ModelId, RequestId, StreamId, TenantId
from roost.core.request import GenerateRequest
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.node.refusals import DRAINING
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import GatewayEnd
from roost.wire.memory import GatewayConnection
from roost.wire.messages import (
    Cancel,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Open,
    Refused,
    Released,
    Status,
)
from roost.wire.pump import Pump, PumpSettings

CREDIT = 32
"""Messages that a stream may be ahead of its reader: system 1's channel."""
NAME = "worker-api"

Item: TypeAlias = tuple[StreamEvent, ...] | Failure | None
"""Events, or why there are none, or the end."""


class Call:
    """One stream on the node. Nothing is left of it there once it is `released`."""

    def __init__(self, stream: StreamId, request: RequestId) -> None:
        self.stream = stream
        self.request = request
        self.released = asyncio.Event()
        # As many as there is credit, a failure, and the end.
        self._items: asyncio.Queue[Item] = asyncio.Queue(CREDIT + 2)

    async def next(self) -> Item:
        """Wait for what comes next; None is the last."""
        return await self._items.get()

    def put(self, item: Item) -> None:
        """The node said this."""
        self._items.put_nowait(item)
        if item is None:
            self.released.set()


class WorkerLink:
    """Opens streams on the node; `run` is its life."""

    def __init__(self, connection: GatewayConnection) -> None:
        clock = asyncio.get_running_loop().time
        end = GatewayEnd(NAME, LinkSettings(), clock())
        self._pump: Pump[FromGateway, FromNode] = Pump(
            end, connection, self._deliver, PumpSettings(), clock
        )
        self._calls: dict[StreamId, Call] = {}
        self._last_stream = 0
        self._over = False
        self.offers: dict[ModelId, ModelOffer] = {}
        self.draining = False
        self.up = asyncio.Event()
        self.drained = asyncio.Event()

    async def run(self) -> None:
        """Serve until the node says goodbye; whoever still waits is told."""
        try:
            await self._pump.run()
        finally:
            self.drain()
            self.up.set()
            for call in self._calls.values():
                call.put(DRAINING)
                call.put(None)
            self._calls.clear()

    def drain(self) -> None:
        """Open nothing new; what runs goes on."""
        self._over = self.draining = True
        self.drained.set()

    def open(self, request: GenerateRequest, tenant: TenantId, prompt_max: int | None) -> Call:
        """Start a stream; raises `RoostError` for a request that is too large for any link."""
        self._last_stream += 1
        name = RequestId(secrets.token_hex(16))
        call = Call(StreamId(self._last_stream), name)
        if self._over:
            call.put(DRAINING)
            call.put(None)
            return call
        self._pump.post(Open(call.stream, name, tenant, request, CREDIT, prompt_max=prompt_max))
        self._calls[call.stream] = call
        return call

    def read_one(self, call: Call) -> None:
        """A message of this stream has been passed on: there is room for another."""
        if call.stream in self._calls:
            self._pump.post(Credit(call.stream, 1))

    def cancel(self, call: Call) -> None:
        """Nobody wants the rest."""
        if call.stream in self._calls:
            self._pump.post(Cancel(call.stream))

    async def _deliver(self, message: FromNode) -> None:
        match message:
            case Status():
                status = message.status
                self.offers = {offer.model: offer for offer in status.models}
                self.draining = self._over or status.draining
                if self.draining:
                    self.drained.set()
                self.up.set()
            case Events():
                self._calls[message.stream].put(message.events)
            case Refused():
                self._calls[message.stream].put(message.failure)
            case Released():
                self._calls.pop(message.stream).put(None)
            case _:
                pass  # who it is, and what its streams wait for, changes nothing here
