"""SHELL: the connection a link runs over, and a pair of them inside one process.

`roost serve` runs gateway and node in one process: the link is the same, only its connection hands
message objects over instead of frames. They are frozen, so sharing them is safe. An ear at an end
hears a message within the call that says it; where that is not ready the message waits in a queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from roost.errors import fail
from roost.wire.messages import FromGateway, FromNode

_Out_contra = TypeVar("_Out_contra", contravariant=True)
_In_co = TypeVar("_In_co", covariant=True)
_Out = TypeVar("_Out")
_In = TypeVar("_In")

MESSAGES_MAX = 256
"""Messages that wait in each direction of a pair before the sender has to."""


class Connection(Protocol[_Out_contra, _In_co]):
    """An ordered, two-way pipe of messages; one task may receive at a time, one may send."""

    async def send(self, message: _Out_contra, frame: bytes | None = None) -> None:
        """Hand over a message, waiting for room; `frame` is the same in bytes, if that is known.

        Raises `RoostError("node_lost")` once either side has closed. What cannot be framed never
        comes here: `Pump.post` refuses it.
        """
        ...

    async def receive(self) -> _In_co | None:
        """Wait for the next message; None once the connection is closed and read to its end.

        Raises `RoostError("bad_request")` for a frame that is no message of this direction.
        """
        ...

    async def close(self) -> None:
        """Close both directions; the peer still reads what was sent before. Idempotent."""
        ...


@runtime_checkable
class NearConnection(Protocol[_Out_contra, _In_co]):
    """A connection whose other end is in this process: nobody has to wake up for a message."""

    def send_now(self, message: _Out_contra) -> bool:
        """Hand over a message at once; False where it is closed or has no room."""
        ...

    def listen(self, ear: Callable[[_In_co], bool] | None) -> None:
        """Have `ear` hear what comes while nothing waits; what it returns False for waits."""
        ...


NodeConnection: TypeAlias = Connection[FromNode, FromGateway]
GatewayConnection: TypeAlias = Connection[FromGateway, FromNode]


class _Pipe(Generic[_Out]):
    """One direction: a bounded queue that can be closed, and that an ear may stand in front of."""

    def __init__(self, messages_max: int) -> None:
        self._messages: deque[_Out] = deque()
        self._messages_max = messages_max
        self._closed = False
        self._some, self._room = asyncio.Event(), asyncio.Event()
        self.ear: Callable[[_Out], bool] | None = None

    def put_now(self, message: _Out) -> bool:
        if self._is_stopped():
            return False
        # Whatever waits was said before this.
        if self._messages or self.ear is None or not self.ear(message):
            self._add(message)
        return True

    async def put(self, message: _Out) -> None:
        while not self._closed and self._is_stopped():
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise fail("node_lost", "the link is closed")
        self._add(message)

    async def get(self) -> _Out | None:
        while not self._messages:
            if self._closed:
                return None
            self._some.clear()
            await self._some.wait()
        self._room.set()
        return self._messages.popleft()

    def close(self, *, discard: bool) -> None:
        self._closed = True
        if discard:
            self._messages.clear()
            self.ear = None
        self._some.set()
        self._room.set()

    def _add(self, message: _Out) -> None:
        self._messages.append(message)
        self._some.set()

    def _is_stopped(self) -> bool:
        return self._closed or len(self._messages) >= self._messages_max


class MemoryConnection(Generic[_Out, _In]):
    """One end of a pair."""

    def __init__(self, out: _Pipe[_Out], into: _Pipe[_In]) -> None:
        self._out = out
        self._into = into

    async def send(self, message: _Out, frame: bytes | None = None) -> None:
        """Hand over a message, waiting for room; nobody needs its bytes."""
        await self._out.put(message)

    def send_now(self, message: _Out) -> bool:
        """Hand over a message at once; False where it is closed or has no room."""
        return self._out.put_now(message)

    def listen(self, ear: Callable[[_In], bool] | None) -> None:
        """Have `ear` hear what comes while nothing waits; what it returns False for waits."""
        self._into.ear = ear

    async def receive(self) -> _In | None:
        """Wait for the next message; None once closed."""
        return await self._into.get()

    async def close(self) -> None:
        """Close both directions; what the peer sent and nobody read is gone."""
        self._out.close(discard=False)
        self._into.close(discard=True)


def memory_pair(
    messages_max: int = MESSAGES_MAX,
) -> tuple[MemoryConnection[FromNode, FromGateway], MemoryConnection[FromGateway, FromNode]]:
    """Make the node's and the gateway's end of a link inside this process."""
    up: _Pipe[FromNode] = _Pipe(messages_max)
    down: _Pipe[FromGateway] = _Pipe(messages_max)
    return MemoryConnection(up, down), MemoryConnection(down, up)
