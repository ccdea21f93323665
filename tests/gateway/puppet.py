"""SHELL: a node whose every move a test decides, at the end of a real link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roost.core.events import Delta, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, NodeId, RuntimeId, StreamId
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView
from roost.errors import Failure
from roost.wire.heartbeat import LinkSettings
from roost.wire.link import NodeEnd
from roost.wire.memory import NodeConnection
from roost.wire.messages import (
    VERSION,
    Cancel,
    CancelPull,
    Events,
    FromGateway,
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
    Waiting,
    Want,
    Welcome,
)
from roost.wire.pump import Pump, PumpSettings

MODEL = ModelId("toy/model:1")


def status(slots: int = 2, models: tuple[ModelId, ...] = (MODEL,)) -> NodeStatus:
    """Report idle runtimes of these models."""
    return NodeStatus(
        models=tuple(ModelOffer(model, slots=slots, ctx=512, created_unix_s=7) for model in models),
        runtimes=tuple(
            RuntimeView(model, "puppet", "ready", RuntimeId(f"r-{model}"), ctx=512)
            for model in models
        ),
        in_flight=0,
        max_in_flight=slots,
        vacant=False,
    )


class Puppet:
    """Joins a gateway, reports, records what is opened and says what it is told to say."""

    def __init__(
        self, name: str, connection: NodeConnection, report: NodeStatus, version: int = VERSION
    ) -> None:
        loop = asyncio.get_running_loop()
        hello = Hello(version, NodeId(name), name, "i1", "test")
        end = NodeEnd(hello, LinkSettings(), loop.time())
        self._pump: Pump[FromNode, FromGateway] = Pump(
            end, connection, self._deliver, PumpSettings(), loop.time
        )
        self._report = report
        self.name = name
        self._seq: dict[StreamId, int] = {}
        self._statuses = 0
        self.opened: list[Open] = []
        self.cancelled: list[StreamId] = []
        self.wanted: list[ModelId] = []
        self.vacant: list[bool] = []
        self.pulls: list[Pull] = []
        self.unpulled: list[str] = []
        self.orders: list[Order] = []
        self.state_orders: list[StateOrder] = []
        self.on_state_order: Callable[[StateOrder], StatesTold | None] | None = None
        self.on_open: Callable[[Open], None] | None = None
        self._pump.start_with(end.start())

    async def run(self) -> None:
        """Serve until the link ends."""
        await self._pump.run()

    def report_with(self, report: NodeStatus) -> None:
        """Report this when welcomed."""
        self._report = report

    def report(self, report: NodeStatus) -> None:
        """Send a status."""
        self._statuses += 1
        self._pump.post(Status(self._statuses, report))

    def say(self, stream: StreamId, *events: StreamEvent) -> None:
        """Send one message of events."""
        seq = self._seq.get(stream, 0)
        self._seq[stream] = seq + len(events)
        self._pump.post(Events(stream, seq, events))

    def phase(self, stream: StreamId, phase: Waiting, progress: float | None) -> None:
        """Tell what a stream waits for."""
        self._pump.post(Phase(stream, phase, progress))

    def refuse(self, stream: StreamId, failure: Failure) -> None:
        """Refuse a stream and release it."""
        self._pump.post(Refused(stream, failure))
        self.release(stream)

    def release(self, stream: StreamId, freed_s: float | None = None) -> None:
        """Let go of a stream."""
        self._pump.post(Released(stream, "done", freed_s))

    def leave(self) -> None:
        """End the link as a node does that goes away."""
        self._pump.post(Goodbye(Failure("draining", "it goes away"), again=False))

    def answer(self, opened: Open, *texts: str, cached: int = 0) -> None:
        """Answer a stream completely."""
        self.say(opened.stream, Started(prompt_tokens=9, cached_tokens=cached, slot=0))
        for text in texts:
            self.say(opened.stream, Delta(text))
        usage = Usage(prompt_tokens=9, cached_tokens=cached, completion_tokens=len(texts))
        self.say(opened.stream, Finished("stop", usage))
        self.release(opened.stream)

    async def _deliver(self, message: FromGateway) -> None:
        match message:
            case Welcome():
                self.report(self._report)
            case Open():
                self.opened.append(message)
                if self.on_open is not None:
                    self.on_open(message)
            case Cancel():
                self.cancelled.append(message.stream)
            case Want():
                self.wanted.append(message.model)
            case Pull():
                self.pulls.append(message)
            case CancelPull():
                self.unpulled.append(message.job)
            case Order():
                self.orders.append(message)
            case StateOrder():
                self.state_orders.append(message)
                told = self.on_state_order(message) if self.on_state_order else None
                if told is not None:
                    self._pump.post(told)
            case Vacate():
                self.vacant.append(message.vacant)
            case _:
                return
