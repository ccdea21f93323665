"""SHELL: libraries that are hosted: each runtime is a process of its own that holds one model.

A library in the node's own process would take the node along when it crashes, hangs or runs out of
memory. Behind a socket it is a runtime like any other, and adding one means writing what happens in
the child (`host_engine`) and a `Library` that says how it is called.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import msgspec

from roost.backends import checks
from roost.backends.base import Prepared, SlotUse, StartSettings, Telemetry
from roost.backends.child import Program
from roost.backends.child import start as start_child
from roost.backends.host_frames import Load, Loaded, Tokenize, Work
from roost.backends.host_link import HostLink
from roost.backends.hosted_library import Library
from roost.backends.looking import library_found
from roost.backends.prompts import PromptLimits, Prompts
from roost.backends.rates import learned
from roost.backends.render import Renderer, renderer_for
from roost.core.events import StreamEvent
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.core.request import GenerateRequest
from roost.errors import fail

CHILD = "roost.backends.host_child"


class Hosted:
    """The backend of one library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return self._library.name

    @property
    def capabilities(self) -> Capabilities:
        """What its adapter does."""
        return self._library.capabilities

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> HostedRuntime:
        """Start a child and wait until the model is loaded; see `base.Backend.start`."""
        on_progress(0.0)
        self._check_installed()
        renderer = renderer_for(manifest, settings)
        link = await self._begun(settings, renderer, on_progress)
        try:
            async with asyncio.timeout(settings.start_timeout_s):
                link.send(_load(key, manifest))
                if renderer:
                    # It starts while the model is loading anyway.
                    await renderer.warm()
                loaded = await link.loaded
            _check_loaded(loaded)
        except BaseException as error:
            link.condemn("it was not wanted any more")
            await link.child.reaped()
            if renderer:
                await renderer.close()
            if isinstance(error, TimeoutError):
                message = f"The model was not loaded within {settings.start_timeout_s:g} s."
                raise fail("load_failed", message) from None
            raise
        on_progress(1.0)
        return HostedRuntime(key, settings, link, loaded, Owned(self.capabilities, renderer))

    def _check_installed(self) -> None:
        found = library_found(self._library)
        if not found.usable:
            raise fail(
                "load_failed", f"{self._library.title} is not installed. Type: {found.command}"
            )

    async def _begun(
        self,
        settings: StartSettings,
        renderer: Renderer | None,
        on_progress: Callable[[float], None],
    ) -> HostLink:
        ours, theirs = socket.socketpair()
        with theirs:
            argv = (sys.executable, "-P", "-m", CHILD, str(theirs.fileno()), self._library.loader)
            program = Program(
                argv,
                settings.log_path,
                inherited=theirs.fileno(),
                memory_max_bytes=settings.memory_max_bytes,
            )
            try:
                child = await start_child(program)
            except BaseException:
                ours.close()
                raise
        link = HostLink(child, on_progress, renderer.abandon if renderer else None)
        child.on_death(link.on_death)
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours)
        return link


class Owned(NamedTuple):
    """What goes with a child: what its backend claims, and the renderer of its model's template."""

    claims: Capabilities
    renderer: Renderer | None


class HostedRuntime:
    """One child with one model, made by `Hosted.start`; cleans up after itself however it ends."""

    def __init__(
        self,
        key: RuntimeKey,
        settings: StartSettings,
        link: HostLink,
        loaded: Loaded,
        own: Owned,
    ) -> None:
        self._key = key
        self._claims = own.claims
        self._settings = settings
        self._link = link
        self._loaded = loaded
        self._renderer = own.renderer
        limits = PromptLimits(loaded.bos, loaded.max_token_bytes, loaded.ctx)
        self._prompts = Prompts(own.renderer, self._tokenize, limits)
        self._busy: set[int] = set()
        self._rates = Telemetry()

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def died(self) -> asyncio.Event:
        """Set once the process has ended."""
        return self._link.child.died

    @property
    def pid(self) -> int:
        """The process group of the child."""
        return self._link.child.pid

    @property
    def states(self) -> None:
        """No library that is hosted can write down what a slot holds."""
        return None

    async def prepare(self, request: GenerateRequest) -> Prepared:
        """Render, tokenise and count; see `base.Runtime.prepare`."""
        self._check_alive()
        checks.check_request(request)
        if request.top_logprobs is not None and not self._claims.logprobs:
            raise fail("unsupported", "This backend has no log probabilities.", param="logprobs")
        tokens, reading = await self._prompts.tokens(request)
        tokens += request.said
        checks.check_tokens(tokens, self._loaded.vocab_size)
        limit = checks.limit_of(request, len(tokens), self._loaded.ctx)
        return Prepared(request, tokens, limit, reading)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run a prepared request; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._check_alive()
        slots, loaded = self._key.options.slots, self._loaded
        checks.check_run(prepared, use, slots=slots, ctx=loaded.ctx, vocab_size=loaded.vocab_size)
        if use.slot in self._busy:
            raise fail("internal", "Two streams were given one slot.")
        self._busy.add(use.slot)
        stream = self._link.open(prepared, use)
        try:
            async with aclosing(stream.events()) as events:
                yield events
        finally:
            try:
                await stream.leave(self._settings.release_timeout_s)
            finally:
                self._busy.discard(use.slot)
                self._learn(stream.answer.work)

    async def telemetry(self) -> Telemetry:
        """Streams that hold a slot, memory of the process, and the rates of the last answer."""
        rss_bytes = self._link.child.rss_bytes()
        return msgspec.structs.replace(self._rates, live=len(self._busy), rss_bytes=rss_bytes)

    async def stop(self, grace_s: float) -> None:
        """End the process; idempotent."""
        self._link.stopping = True
        try:
            if self._renderer:
                await self._renderer.close()
        finally:
            await self._link.child.terminate(grace_s)

    async def _tokenize(self, pieces: Sequence[str], *, special: bool) -> tuple[int, ...]:
        ctx = self._loaded.ctx
        ask = Tokenize(0, tuple(pieces), special, ctx)
        count, tokens = await self._link.tokenize(ask, self._settings.release_timeout_s)
        # More tokens than fit are counted and not sent; any that are no tokens keep the count.
        return tokens if count <= ctx else (0,) * count

    def _learn(self, work: Work) -> None:
        """Remember how fast the last answer was."""
        prefill = work.prefill_tokens, work.prefill_s
        decode = work.decode_tokens, work.decode_s
        self._rates = learned(self._rates, prefill, decode)

    def _check_alive(self) -> None:
        if self._link.ended:
            raise fail("runtime_died", "The runtime has ended.")


def _load(key: RuntimeKey, manifest: Manifest) -> Load:
    options = key.options
    # 0 is the model's own context, and more than that is nothing the model has learned to use.
    ctx = min(options.ctx or manifest.ctx_train, manifest.ctx_train or options.ctx)
    return Load(manifest.path, ctx, options.slots, options.batch, options.threads)


def _check_loaded(loaded: Loaded) -> None:
    """Believe a library only what can be; raises `load_failed`."""
    if loaded.ctx < 2 or loaded.vocab_size < 1:
        raise fail("load_failed", "The library came up without a context or a vocabulary.")
    checks.check_tokens((0, *loaded.bos), loaded.vocab_size)
