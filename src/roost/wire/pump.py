"""SHELL: drives one end of a link over a connection; the same code on both sides.

Three tasks: read, write, tick. Whatever an end answers is performed here in order; `deliver` may
wait, and then the peer's messages wait in the connection. The way out is a bounded queue: a peer
that stops reading makes it fill, and a full queue closes the link instead of growing.

What is said is framed once before the end hears of it. A message that does not fit is its sender's
trouble: refused there, it costs one request; refused by the connection it would cost the link, and
the same request would then take the next node's link down as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec

from roost.errors import Failure, RoostError
from roost.wire.codec import FRAME_MAX_BYTES, encode
from roost.wire.link_tables import Close, Deliver, Send
from roost.wire.memory import Connection
from roost.wire.messages import FromGateway, FromNode

_Out = TypeVar("_Out", bound=FromGateway | FromNode)
_In = TypeVar("_In", bound=FromGateway | FromNode)


class PumpSettings(msgspec.Struct, frozen=True):
    """Limits of a pump.

    `queue_max` messages wait to be written, `flush_s` for what was said before a close,
    `tick_max_s` between two looks at the end's clock, `message_max_bytes` for one framed message.
    """

    queue_max: int = 4096
    flush_s: float = 1.0
    tick_max_s: float = 0.5
    message_max_bytes: int = FRAME_MAX_BYTES


class End(Protocol[_Out, _In]):
    """What `NodeEnd` and `GatewayEnd` have in common."""

    def on_message(self, message: _In, now: float) -> list[Deliver[_In] | Send[_Out] | Close]:
        """The peer said this."""
        ...

    def say(self, message: _Out) -> list[Deliver[_In] | Send[_Out] | Close]:
        """Our side wants to send this."""
        ...

    def on_tick(self, now: float) -> list[Deliver[_In] | Send[_Out] | Close]:
        """Time has passed."""
        ...

    def next_tick(self) -> float | None:
        """When to look again."""
        ...


class Pump(Generic[_Out, _In]):
    """One end, one connection, until either is closed.

    `deliver` gets what the end lets through, `heard` is called for every message: an answer to a
    ping is a sign of life too, although nobody behind the end ever sees it.
    """

    def __init__(
        self,
        end: End[_Out, _In],
        connection: Connection[_Out, _In],
        deliver: Callable[[_In], Awaitable[None]],
        settings: PumpSettings,
        clock: Callable[[], float],
        heard: Callable[[], None] | None = None,
    ) -> None:
        self._end = end
        self._connection = connection
        self._deliver = deliver
        self._settings = settings
        self._clock = clock
        self._heard = heard
        self._queue: asyncio.Queue[tuple[_Out, bytes | None]] = asyncio.Queue(settings.queue_max)
        self._close: Close | None = None
        self._closing = asyncio.Event()

    def post(self, message: _Out) -> None:
        """Say this to the peer, in order with everything else; nothing happens once closed.

        Raises `body_too_large` or `bad_request` for a message that cannot be framed. It then counts
        as never said, and the link goes on.
        """
        frame = encode(message, self._settings.message_max_bytes)
        self._emit(self._end.say(message), frame)

    def start_with(self, outputs: Sequence[Deliver[_In] | Send[_Out] | Close]) -> None:
        """Queue what an end says before it has heard anything (`NodeEnd.start`)."""
        self._emit(outputs)

    async def run(self) -> Close:
        """Drive the link until it is closed, close the connection, and say why it ended."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(t) for t in (self._read(), self._write(), self._tick())]
                await self._closing.wait()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._queue.join(), self._settings.flush_s)
                for task in tasks:
                    task.cancel()
        finally:
            await self._connection.close()
        assert self._close is not None
        return self._close

    async def _read(self) -> None:
        while not self._closing.is_set():
            try:
                message = await self._connection.receive()
            except RoostError as error:
                self._shut(Close(error.failure))
                return
            if message is None:
                self._lost()
                return
            if self._heard is not None:
                self._heard()
            for delivered in self._emit(self._end.on_message(message, self._clock())):
                await self._deliver(delivered)

    async def _write(self) -> None:
        while True:
            message, frame = await self._queue.get()
            try:
                await self._connection.send(message, frame)
            except RoostError as error:
                self._shut(Close(error.failure))
            self._queue.task_done()

    async def _tick(self) -> None:
        while (due := self._end.next_tick()) is not None:
            wait_s = min(max(0.0, due - self._clock()), self._settings.tick_max_s)
            await asyncio.sleep(wait_s)
            self._emit(self._end.on_tick(self._clock()))

    def _emit(
        self, outputs: Sequence[Deliver[_In] | Send[_Out] | Close], frame: bytes | None = None
    ) -> list[_In]:
        """Queue and close as told; hand back what has to be delivered.

        `frame` is the message that is sent, where it is framed already.
        """
        delivered = []
        for output in outputs:
            match output:
                case Deliver(message):
                    delivered.append(message)
                case Send(message):
                    self._put(message, frame)
                case Close():
                    self._shut(output)
        return delivered

    def _put(self, message: _Out, frame: bytes | None) -> None:
        try:
            self._queue.put_nowait((message, frame))
        except asyncio.QueueFull:
            waiting = self._settings.queue_max
            self._shut(
                Close(Failure("node_lost", f"{waiting} messages wait for a peer that stalls"))
            )

    def _lost(self) -> None:
        self._shut(Close(Failure("node_lost", "the connection was lost")))

    def _shut(self, close: Close) -> None:
        """The first reason counts: what follows from it is noise."""
        if self._close is None:
            self._close = close
            self._closing.set()
