"""SHELL: the connection a link runs over, and a pair of them inside one process.

`roost serve` runs gateway and node in one process: the link is the same, only its connection hands
message objects over instead of frames. They are frozen, so sharing them is safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeAlias, TypeVar

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


NodeConnection: TypeAlias = Connection[FromNode, FromGateway]
GatewayConnection: TypeAlias = Connection[FromGateway, FromNode]


class _Pipe(Generic[_Out]):
    """One direction: a bounded queue that can be closed."""

    def __init__(self, messages_max: int) -> None:
        self._messages: deque[_Out] = deque()
        self._messages_max = messages_max
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, message: _Out) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or self._has_room())
            if self._closed:
                raise fail("node_lost", "the link is closed")
            self._messages.append(message)
            self._changed.notify_all()

    async def get(self) -> _Out | None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or bool(self._messages))
            if not self._messages:
                return None
            self._changed.notify_all()
            return self._messages.popleft()

    async def close(self, *, discard: bool) -> None:
        async with self._changed:
            self._closed = True
            if discard:
                self._messages.clear()
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._messages) < self._messages_max


class MemoryConnection(Generic[_Out, _In]):
    """One end of a pair."""

    def __init__(self, out: _Pipe[_Out], into: _Pipe[_In]) -> None:
        self._out = out
        self._in = into

    async def send(self, message: _Out, frame: bytes | None = None) -> None:
        """Hand over a message, waiting for room; nobody needs its bytes."""
        await self._out.put(message)

    async def receive(self) -> _In | None:
        """Wait for the next message; None once closed."""
        return await self._in.get()

    async def close(self) -> None:
        """Close both directions; what the peer sent and nobody read is gone."""
        await self._out.close(discard=False)
        await self._in.close(discard=True)


def memory_pair(
    messages_max: int = MESSAGES_MAX,
) -> tuple[MemoryConnection[FromNode, FromGateway], MemoryConnection[FromGateway, FromNode]]:
    """Make the node's and the gateway's end of a link inside this process."""
    up: _Pipe[FromNode] = _Pipe(messages_max)
    down: _Pipe[FromGateway] = _Pipe(messages_max)
    return MemoryConnection(up, down), MemoryConnection(down, up)
