"""SHELL: a process that holds a model and speaks the words of `frames`, as a runtime."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import msgspec

from roost.backends import checks
from roost.backends.base import Prepared, SlotUse, StartSettings, Telemetry
from roost.backends.generating import Generating
from roost.backends.hosted.frames import Loaded, Tokenize, Work
from roost.backends.hosted.link import HostLink
from roost.backends.rates import learned
from roost.backends.rendering.prompts import PromptLimits, Prompts
from roost.backends.rendering.renderer import Renderer
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, RuntimeKey
from roost.core.request import ChatPrompt, GenerateRequest
from roost.core.vectors import FLOAT_BYTES, numbers
from roost.errors import fail


class Owned(NamedTuple):
    """What goes with a child: what its backend claims, and the renderer of its model's template."""

    claims: Capabilities
    renderer: Renderer | None


class HostedRuntime:
    """One child with one model, made by `hosting.begin`; cleans up after itself however it ends."""

    def __init__(
        self,
        key: RuntimeKey,
        settings: StartSettings,
        link: HostLink,
        loaded: Loaded,
        own: Owned,
    ) -> None:
        self._key = key
        self._settings = settings
        self._link = link
        self._loaded = loaded
        self._renderer = own.renderer
        limits = PromptLimits(loaded.bos, loaded.max_token_bytes, loaded.ctx)
        self._prompts = Prompts(own.renderer, self._tokenize, limits)
        self._generating = Generating(
            key, loaded.ctx, loaded.vocab_size, own.claims, lambda: link.ended
        )
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

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Render, tokenise and count; see `base.Runtime.prepare`."""
        self._generating.check(request)
        prompted = await self._prompts.tokens(request, owner)
        # It follows no schemas: a call that is demanded is begun, and whoever reads it judges it.
        return self._generating.prepared(request, prompted.tokens, prompted.reading)

    def forget(self, owner: TenantId) -> None:
        """Remember nothing of this owner's prompts; see `base.Remembering`."""
        self._prompts.forget(owner)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run a prepared request; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._generating.check_run(prepared, use)
        with self._generating.seat(use.slot):
            stream = self._link.open(prepared, use)
            try:
                async with aclosing(stream.events()) as events:
                    yield events
            finally:
                try:
                    await stream.leave(self._settings.release_timeout_s)
                finally:
                    self._learn(stream.answer.work)

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of texts that vectors are made of; see `base.Embedder.tokenize`."""
        self._generating.check_mode("embed")
        loaded = self._loaded
        checks.check_texts(inputs, loaded.max_token_bytes, loaded.ctx)
        found = [
            (*loaded.bos, *await self._tokenize([one], special=False), *loaded.eos)
            if isinstance(one, str)
            else one
            for one in inputs
        ]
        checks.check_inputs(found, loaded.vocab_size, loaded.ctx)
        return tuple(found)

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make a vector for each input; see `base.Embedder.embed`."""
        self._generating.check_mode("embed")
        checks.check_batch(batch, self._loaded.vocab_size, self._loaded.ctx)
        told = await self._link.embed(tuple(batch))
        step = told.size * FLOAT_BYTES
        if told.size < 1 or len(told.data) != step * len(batch):
            raise fail("runtime_error", "The runtime made no vectors.")
        rows = (told.data[at : at + step] for at in range(0, len(told.data), step))
        vectors = tuple(map(numbers, rows))
        if not all(math.isfinite(one) for vector in vectors for one in vector):
            raise fail("runtime_error", "The runtime made vectors that are no numbers.")
        return vectors

    async def telemetry(self) -> Telemetry:
        """Streams that hold a slot, memory of the process, and the rates of the last answer."""
        live, rss_bytes = len(self._generating.taken), self._link.child.rss_bytes()
        return msgspec.structs.replace(self._rates, live=live, rss_bytes=rss_bytes)

    async def rendered(self, prompt: ChatPrompt) -> str:
        """Give what the template makes of a conversation; see `base.Teller.rendered`."""
        self._generating.check_alive()
        return await self._prompts.text(prompt)

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Say that engines in a child are asked for no texts of tokens."""
        raise fail("unsupported", "The model's engine tells no texts of tokens.", param="model")

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
