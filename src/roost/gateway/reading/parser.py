"""SHELL: large bodies are read in a child, so that no stream waits while JSON is decoded.

Threads would not help: the decoder holds the interpreter's lock. The child is started with the
first large body and ends with this process, however that ends, because its input then closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys

import msgspec

from roost.backends.processes.reaping import reap
from roost.errors import Failure
from roost.gateway.reading.parsing import Job, Outcome, Unreadable

CHILD = "roost.gateway.reading.parser_child"
LENGTH = struct.Struct(">I")
TIMEOUT_S = 30.0
ATTEMPTS = 2
"""One accident of the child is made good; a body that ends it twice is refused."""

DEFECT = Failure("internal", "The request could not be read.")

# RuntimeError is how uvloop says that a pipe has been closed.
_GONE = (OSError, EOFError, TimeoutError, RuntimeError, msgspec.MsgspecError)
_decoder: msgspec.msgpack.Decoder[Outcome] = msgspec.msgpack.Decoder(Outcome)


class Parser:
    """One child; one body at a time, the others wait their turn."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def parse(self, job: Job) -> Outcome:
        """Read a body; a child that fails costs this request an `internal` and is replaced."""
        async with self._turn:
            for _ in range(ATTEMPTS):
                with contextlib.suppress(*_GONE):
                    return await self._asked(job)
        return Unreadable(DEFECT)

    async def close(self) -> None:
        """End the child."""
        async with self._turn:
            await self._end()

    async def _asked(self, job: Job) -> Outcome:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._ask(job)
        except BaseException:
            # Half a conversation is left in the pipes, and nobody to finish it.
            await self._end()
            raise

    async def _ask(self, job: Job) -> Outcome:
        if self._process is not None and self._process.returncode is not None:
            await self._end()
        process = self._process or await self._start()
        assert process.stdin is not None, "started with a pipe"
        assert process.stdout is not None, "started with a pipe"
        data = msgspec.msgpack.encode(job)
        process.stdin.write(LENGTH.pack(len(data)) + data)
        await process.stdin.drain()
        (size,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        return _decoder.decode(await process.stdout.readexactly(size))

    async def _start(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            # -P: whatever lies in the working directory is not ours to import.
            *(sys.executable, "-P", "-m", CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C on a terminal is for the gateway; it then closes this child's input.
            start_new_session=True,
        )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await reap(process)
