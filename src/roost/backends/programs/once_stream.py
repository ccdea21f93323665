"""SHELL: one request as one process: started, read, and gone before anybody goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from roost.backends.base import Prepared, StartSettings
from roost.backends.processes.child import Child, Program
from roost.backends.processes.child import start as start_child
from roost.backends.processes.shim import Log
from roost.backends.programs.once_answer import Answer
from roost.backends.programs.once_words import Recipe, words
from roost.core.events import StreamEvent
from roost.errors import Failure, RoostError

READ_BYTES = 64 * 1024
ERRORS_MAX_BYTES = 64 * 1024
ERROR_LINES = 200
DRAIN_S = 0.5
"""How long to wait for more output once the program has ended: what there is is in the pipe, and
its end too, unless somebody who has left the program's group holds it open."""

AS_FILTER = """\
import os, sys
out = int(sys.argv[1])
os.dup2(os.open(sys.argv[2], os.O_RDONLY), 0)
os.dup2(out, 1)
os.close(out)
try:
    os.execvp(sys.argv[3], sys.argv[3:])
except OSError as error:
    sys.exit(f"the program cannot be started: {error.strerror}")
"""
"""Makes a file the program's standard input and a pipe its output; its errors go to a log."""


STOPPED = Failure("runtime_died", "The runtime has ended.")


class Asked(msgspec.Struct, frozen=True):
    """A prepared request, its prompt as one text, and the slot that it has."""

    prepared: Prepared
    prompt: str
    slot: int


class Stream:
    """One process; see `backends.answering.Stream`."""

    def __init__(self, recipe: Recipe, asked: Asked, folder: Path, settings: StartSettings) -> None:
        self._recipe = recipe
        self._asked = asked
        self._settings = settings
        self._prompt = folder / f"prompt-{asked.slot}"
        self._errors = folder / f"errors-{asked.slot}"
        prepared = asked.prepared
        self._answer = Answer(asked.slot, prepared.limit, prepared.request, recipe.output)
        self._child: Child | None = None
        self._pipe: asyncio.ReadTransport | None = None
        self._waiting: asyncio.Timeout | None = None
        self._stopped = False

    @property
    def rss_bytes(self) -> int:
        """What its process has in memory."""
        return (self._child.rss_bytes() or 0) if self._child else 0

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the contract; whatever breaks becomes the last of them."""
        answer = self._answer
        try:
            ends_s = asyncio.get_running_loop().time() + self._recipe.time_limit_s
            reader = await self._started()
            for event in answer.begin():
                yield event
            left = self._recipe.output_max_bytes
            while left >= 0 and (data := await self._read(reader, ends_s)):
                left -= len(data)
                for event in answer.on_output(data[: left + len(data)] if left < 0 else data):
                    yield event
                if answer.over:
                    return
            ended = await self._ended(ends_s) if left >= 0 else answer.on_failure(self._too_much())
        except TimeoutError:
            ended = answer.on_failure(self._too_long())
        except RoostError as error:
            ended = answer.on_failure(error.failure)
        except OSError as error:
            ended = answer.on_failure(self._not_told(error))
        for event in ended:
            yield event

    def stop(self) -> None:
        """End the answer because the runtime ends."""
        self._stopped = True
        if self._child:
            self._child.kill()

    async def close(self) -> None:
        """Return when no process and no file of it is left; raises `runtime_error`."""
        try:
            if self._child:
                self._child.kill()
                await self._child.reaped()
        finally:
            if self._pipe:
                self._pipe.close()
            await asyncio.to_thread(self._remove)

    async def _started(self) -> asyncio.StreamReader:
        await asyncio.to_thread(self._write_prompt)
        reading, writing = os.pipe()
        try:
            self._child = await start_child(self._program(writing))
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(READ_BYTES)
        self._pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
        )
        self._child.on_death(self._hurry)
        if self._stopped:
            self._child.kill()
        return reader

    def _program(self, writing: int) -> Program:
        recipe, prepared = self._recipe, self._asked.prepared
        files_only = recipe.as_argument or recipe.as_file
        stdin = os.devnull if files_only else str(self._prompt)
        exec_ = (sys.executable, "-S", "-E", "-I", "-c", AS_FILTER, str(writing), stdin)
        told = words(
            recipe,
            prepared.request,
            prompt=self._asked.prompt,
            prompt_file=str(self._prompt),
            limit=prepared.limit,
        )
        return Program(
            (*exec_, *told),
            str(self._errors),
            inherited=writing,
            memory_max_bytes=self._settings.memory_max_bytes,
            log_max_bytes=ERRORS_MAX_BYTES,
            logs_kept=0,
        )

    async def _read(self, reader: asyncio.StreamReader, ends_s: float) -> bytes:
        # Around each read and not around the loop: whoever reads the events is not to be cancelled.
        self._waiting = asyncio.timeout_at(ends_s)
        try:
            async with self._waiting:
                self._hurry()
                return await reader.read(READ_BYTES)
        except TimeoutError:
            if not self._is_dead:
                raise
            return b""
        finally:
            self._waiting = None

    @property
    def _is_dead(self) -> bool:
        return self._child is not None and self._child.died.is_set()

    def _hurry(self) -> None:
        if self._waiting and self._is_dead:
            self._waiting.reschedule(asyncio.get_running_loop().time() + DRAIN_S)

    async def _ended(self, ends_s: float) -> list[StreamEvent]:
        """Its output has ended: wait for the process as well, and hear what it has to say."""
        child = self._child
        assert child is not None, "it has been started"
        async with asyncio.timeout_at(ends_s):
            await child.died.wait()
        if self._stopped:
            return self._answer.on_failure(STOPPED)
        status = child.status or 0
        errors = "\n".join(await asyncio.to_thread(child.tail, ERROR_LINES))
        if status:
            await asyncio.to_thread(self._keep, status, errors)
        return self._answer.on_end(status, errors)

    def _keep(self, status: int, errors: str) -> None:
        """Put what a program that failed has said into the runtime's log."""
        path = Path(self._settings.log_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        log = Log(str(path), self._settings.log_max_bytes, self._settings.logs_kept)
        log.write(f"{errors}\nthe program ended with status {status}\n".encode())
        log.close()

    def _write_prompt(self) -> None:
        self._prompt.write_text(self._asked.prompt, encoding="utf-8", newline="")

    def _remove(self) -> None:
        for path in (self._prompt, self._errors):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _not_told(self, error: OSError) -> Failure:
        if self._stopped:
            return STOPPED
        what = f"it cannot be given its prompt: {error.strerror}"
        return Failure("runtime_error", f"The model's program could not be run: {what}.")

    def _too_long(self) -> Failure:
        limit = f"{self._recipe.time_limit_s:g} s"
        return Failure("runtime_error", f"The model's program did not end within {limit}.")

    def _too_much(self) -> Failure:
        limit = f"{self._recipe.output_max_bytes} bytes"
        return Failure("runtime_error", f"The model's program wrote more than {limit}.")
