"""SHELL: drives one end of a link over a connection; the same code on both sides.

Three tasks: read, write, tick. Whatever an end answers is performed here in order; `deliver` may
wait, and then the peer's messages wait in the connection. The way out is a bounded queue: a peer
that stops reading makes it fill, and a full queue closes the link instead of growing.

What is said is framed once before the end hears of it. A message that does not fit is its sender's
trouble: refused there, it costs one request; refused by the connection it would cost the link, and
the same request would then take the next node's link down as well.

Within a process, where both sides agree to it (`hear_at_once`), a message is heard in the call that
says it: no task is woken, and what a token costs is the work it makes. Its way through the
connection stays for whatever has to wait, and nothing overtakes anything.
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
from roost.wire.memory import Connection, NearConnection
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

    `deliver` gets what the end lets through, and gives back what has to be awaited before the next
    of it, if anything. `heard` is called for every message: an answer to a ping is a sign of life
    too, although nobody behind the end ever sees it.
    """

    def __init__(
        self,
        end: End[_Out, _In],
        connection: Connection[_Out, _In],
        deliver: Callable[[_In], Awaitable[None] | None],
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
        # Set while the link runs: nothing leaves before that.
        self._near: NearConnection[_Out, _In] | None = None
        self._is_free: Callable[[], bool] | None = None
        self._writing = self._hearing = False
        self._defect: Exception | None = None

    def hear_at_once(self, is_free: Callable[[], bool]) -> None:
        """Hear a peer in this process in the moment it speaks, unless `is_free` says no.

        While it says yes, `deliver` takes a message without waiting and gives back None.
        """
        self._is_free = is_free

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
                self._come_near()
                await self._closing.wait()
                if self._defect is not None:
                    raise self._defect
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._queue.join(), self._settings.flush_s)
                for task in tasks:
                    task.cancel()
        finally:
            await self._connection.close()
        assert self._close is not None
        return self._close

    def _come_near(self) -> None:
        if isinstance(self._connection, NearConnection):
            self._near = self._connection
            if self._is_free is not None:
                self._near.listen(self._hear)

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
            self._hearing = True
            for delivered in self._take(message):
                waiting = self._deliver(delivered)
                if waiting is not None:
                    await waiting
            self._hearing = False

    def _hear(self, message: _In) -> bool:
        """Take a message from whoever says it just now; False where it has to wait its turn.

        What goes wrong here is this side's defect, and nothing of the caller's.
        """
        assert self._is_free is not None, "whoever listens has said when"
        if self._hearing or self._closing.is_set() or not self._is_free():
            return False
        self._hearing = True
        try:
            for delivered in self._take(message):
                waiting = self._deliver(delivered)
                assert waiting is None, "who is free does not wait"
        except Exception as error:  # noqa: BLE001 - raised again where the link is run
            self._defect = error
            self._closing.set()
        finally:
            self._hearing = False
        return True

    def _take(self, message: _In) -> list[_In]:
        if self._heard is not None:
            self._heard()
        return self._emit(self._end.on_message(message, self._clock()))

    async def _write(self) -> None:
        while True:
            message, frame = await self._queue.get()
            self._writing = True
            try:
                await self._connection.send(message, frame)
            except RoostError as error:
                self._shut(Close(error.failure))
            self._writing = False
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
        is_next = not self._writing and self._queue.empty()
        if is_next and self._near is not None and self._near.send_now(message):
            return
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
