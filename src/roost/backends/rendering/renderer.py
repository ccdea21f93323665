"""SHELL: chat templates are rendered in a child, because nothing can stop a loop in this process.

One child stays with each model; it is started at the first use, killed when a rendering takes too
long or too much, and started again for the next one. A caller that leaves does not end it: its
rendering is finished within the time it has anyway, and the reply is dropped, since a new child
would cost everybody else more.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys

import msgspec

from roost.backends.base import StartSettings
from roost.backends.processes.reaping import kill, reap
from roost.backends.rendering.frames import LENGTH, Ask, Reply, Setup, pack
from roost.backends.rendering.repeats import Repeats, digest_of
from roost.core.ids import TenantId
from roost.core.model import Manifest
from roost.core.request import ChatPrompt
from roost.errors import Failure, RoostError, fail
from roost.text.endings import Rendered

CHILD = "roost.backends.rendering.child"
MEMORY_MAX_BYTES = 1024 * 1024 * 1024
ATTEMPTS = 2
START_TIMEOUT_S = 20.0
"""For Python to start, on however loaded a machine; rendering has its own, shorter time."""

FRAME_EXTRA_BYTES = 64 * 1024
_NO_START = Failure("runtime_error", "The process that renders chat templates does not start.")
_ENDED = Failure("runtime_died", "The runtime has ended.")
_NO_COMPILE = Failure("unsupported", "The model's chat template takes too long to compile.")


class _GoneError(Exception):
    """The child has ended, before or while it was asked."""


class Renderer:
    """Renders one model's template; at most one rendering at a time, the others wait their turn."""

    def __init__(self, setup: Setup, timeout_s: float, output_max_bytes: int) -> None:
        self._setup = setup
        self._timeout_s = timeout_s
        self._output_max_bytes = output_max_bytes
        message = f"The chat template took longer than {timeout_s:g} s, or all memory it may have."
        self._too_much = Failure("bad_request", message, "messages")
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._exchange: asyncio.Task[Reply] | None = None
        self._closed = False
        self._repeats = Repeats()

    async def warm(self) -> None:
        """Start the child now, so that the first chat need not wait for it; never raises."""
        with contextlib.suppress(RoostError):
            async with self._turn:
                await self._started()

    async def render(
        self,
        prompt: ChatPrompt,
        today: str,
        *,
        exact: bool = False,
        owner: TenantId | None = None,
    ) -> Rendered:
        """Render to pieces that are to be tokenised one by one, with special tokens.

        `exact` says that the answer has a given form from its first token on. What this `owner` has
        asked a while ago is known.

        Raises `bad_request` for messages that the template refuses or takes too long for, and
        `unsupported` for a template that does not compile.
        """
        frame = pack(Ask(prompt, today, exact))
        asked = digest_of(frame)
        known = self._repeats.get(owner, asked)
        if known is not None:
            return known
        await self._turn.acquire()
        # A task of its own, so that whoever leaves leaves no half conversation in the pipes.
        self._exchange = asyncio.create_task(self._exchanged(frame))
        self._exchange.add_done_callback(self._end_turn)
        reply = await asyncio.shield(self._exchange)
        if reply.rendered is None:
            raise fail(reply.reason, reply.message, param=reply.param)
        self._repeats.keep(owner, asked, reply.rendered)
        return reply.rendered

    def forget(self, owner: TenantId) -> None:
        """Know nothing of what this owner has asked."""
        self._repeats.forget(owner)

    async def close(self) -> None:
        """End the child; later renderings are refused. Idempotent."""
        self._closed = True
        await self._end()
        # Whoever has the turn may be starting a child, which ends with it.
        async with self._turn:
            pass

    def abandon(self) -> None:
        """End the child without waiting, where nobody can wait; otherwise like `close`."""
        self._closed = True
        if self._process:
            kill(self._process)

    async def _exchanged(self, frame: bytes) -> Reply:
        for _ in range(ATTEMPTS):
            process = await self._started()
            with contextlib.suppress(_GoneError):
                return await self._asked(process, frame, self._timeout_s, self._too_much)
        # Once can be an accident to the child. Twice it is this template with these messages: the
        # kernel ends a child that takes more memory or time than it may.
        raise RoostError(self._too_much)

    def _end_turn(self, exchange: asyncio.Task[Reply]) -> None:
        self._turn.release()
        if not exchange.cancelled():
            # Looked at, so that a failure whose caller has left is not reported as forgotten.
            exchange.exception()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise RoostError(_ENDED)
        if self._process is not None and self._process.returncode is not None:
            await self._end()
        return self._process or await self._start()

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                # -P: whatever lies in the working directory is not ours to import.
                *(sys.executable, "-P", "-m", CHILD),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            raise RoostError(_NO_START) from None
        if self._closed:
            await self._end()
            raise RoostError(_ENDED)
        steps = (
            (b"", START_TIMEOUT_S, _NO_START),
            (pack(self._setup), self._timeout_s, _NO_COMPILE),
        )
        for frame, timeout_s, otherwise in steps:
            try:
                await self._asked(process, frame, timeout_s, otherwise)
            except _GoneError:
                raise RoostError(_ENDED if self._closed else otherwise) from None
        return process

    async def _asked(
        self,
        process: asyncio.subprocess.Process,
        frame: bytes,
        timeout_s: float,
        otherwise: Failure,
    ) -> Reply:
        """Send a frame and take the reply; a child that does not give one is ended.

        Raises `otherwise` for a child that takes too long, `_GoneError` for one that has ended.
        """
        assert process.stdin
        try:
            async with asyncio.timeout(timeout_s):
                process.stdin.write(frame)
                await process.stdin.drain()
                return await self._reply(process)
        except (TimeoutError, ValueError):
            await self._end()
            raise RoostError(otherwise) from None
        except (OSError, EOFError, RuntimeError):
            # RuntimeError is how uvloop says that a pipe has been closed.
            await self._end()
            raise _GoneError from None
        except asyncio.CancelledError:
            # Half a conversation is left in the pipes, and nobody to finish it.
            await self._end()
            raise

    async def _reply(self, process: asyncio.subprocess.Process) -> Reply:
        assert process.stdout
        (size,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        if size > self._output_max_bytes + FRAME_EXTRA_BYTES:
            raise ValueError("the frame is too long")
        return msgspec.msgpack.decode(await process.stdout.readexactly(size), type=Reply)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        await reap(process)


def setup_for(
    template: str,
    special: tuple[str, str],
    control_tokens: tuple[str, ...],
    *,
    timeout_s: float,
    output_max_bytes: int,
) -> Setup:
    """Fill in the limits of a child; `special` is the model's BOS and EOS as text."""
    return Setup(
        template,
        *special,
        control_tokens,
        output_max_chars=output_max_bytes,
        memory_max_bytes=MEMORY_MAX_BYTES,
        cpu_s=math.ceil(timeout_s) + 1,
    )


def renderer_for(manifest: Manifest, settings: StartSettings) -> Renderer | None:
    """Make the renderer of a model's template; None for a model that has none."""
    if manifest.chat_template is None:
        return None
    setup = setup_for(
        manifest.chat_template,
        (manifest.bos, manifest.eos),
        manifest.control_tokens,
        timeout_s=settings.render_timeout_s,
        output_max_bytes=settings.render_output_max_bytes,
    )
    return Renderer(setup, settings.render_timeout_s, settings.render_output_max_bytes)
