"""SHELL: a running llama.cpp server as a runtime: prepare, stream, cancel, stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from roost.backends.base import Prepared, Ranked, SlotUse, StartSettings, Telemetry
from roost.backends.formats import Formats
from roost.backends.generating import Generating
from roost.backends.http1.exchange import Lost
from roost.backends.llama.answer import Timings
from roost.backends.llama.embed import LlamaEmbedder
from roost.backends.llama.link import Link
from roost.backends.llama.prefills import Prefills
from roost.backends.llama.rank import LlamaRanker
from roost.backends.llama.states import LlamaStates
from roost.backends.llama.stream import Stream
from roost.backends.processes.places import remove_folder
from roost.backends.rates import learned
from roost.backends.rendering.prompts import PromptLimits, Prompts
from roost.backends.rendering.remembered import Remembered
from roost.backends.rendering.renderer import Renderer
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, RuntimeKey
from roost.core.request import ChatPrompt, GenerateRequest
from roost.errors import RoostError

T = TypeVar("T")

CLAIMS = Capabilities(
    chat=True,
    completion=True,
    embeddings=True,
    rerank=True,
    streaming=True,
    concurrent_streams=True,
    cancel=True,
    sessions=True,
    state=True,
    prefix_cache=True,
    json_schema=True,
    grammar=True,
    logit_bias=True,
    logprobs=True,
    exact_token_count=True,
    seed=True,
    replay=True,
)


class Facts(msgspec.Struct, frozen=True):
    """What a server really has: tokens per slot, ids below `vocab_size`, the BOS to be put first.

    `max_token_bytes` is the longest token's length, 0 where nobody knows. `step_tokens` are the
    most that are computed at once. `build` is its own name, `control_tokens` those that no text may
    be taken for.
    """

    ctx: int
    vocab_size: int
    bos: tuple[int, ...]
    max_token_bytes: int
    step_tokens: int
    build: str = ""
    control_tokens: tuple[str, ...] = ()


class Belongings(NamedTuple):
    """What goes with a server: the renderer of its template, its folder, its slots' states.

    `remembered` is what is known of its prompts, None where they cannot be taken apart.
    """

    renderer: Renderer | None
    folder: Path
    states: LlamaStates | None
    remembered: Remembered | None = None


class LlamaRuntime:
    """One server process, made by `LlamaServer.start`; cleans up after itself however it ends."""

    def __init__(
        self,
        key: RuntimeKey,
        settings: StartSettings,
        link: Link,
        facts: Facts,
        own: Belongings,
    ) -> None:
        self._key = key
        self._settings = settings
        self._link = link
        self._facts = facts
        self._renderer = own.renderer
        limits = PromptLimits(facts.bos, facts.max_token_bytes, facts.ctx)
        self._prompts = Prompts(own.renderer, link.tokenize, limits, own.remembered)
        self._folder = own.folder
        self._states = own.states
        self._formats = Formats()
        self._generating = Generating(key, facts.ctx, facts.vocab_size, CLAIMS, lambda: link.ended)
        self._embedder = LlamaEmbedder(link, facts.vocab_size, facts.ctx, facts.max_token_bytes)
        self._ranker = LlamaRanker(link, facts.ctx, facts.max_token_bytes, facts.control_tokens)
        self._asked = 0
        self._rates = Telemetry()
        options = key.options
        self._prefills = Prefills(options.engine.step_budget_ms, facts.step_tokens, options.batch)
        link.child.on_death(self._clean_up)

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def died(self) -> asyncio.Event:
        """Set once the process has ended."""
        return self._link.died

    @property
    def pid(self) -> int:
        """The process group of the server."""
        return self._link.child.pid

    @property
    def states(self) -> LlamaStates | None:
        """Its slots' states; None for a model that does not come back from a file as it was."""
        return self._states

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Render, tokenise and count; see `base.Runtime.prepare`."""
        self._generating.check(request)
        await self._formats.of(request)
        try:
            prompted = await self._prompts.tokens(request, owner)
        except Lost:
            raise RoostError(await self._link.blame("the prompt was not tokenised")) from None
        prepared = self._generating.prepared(request, prompted.tokens, prompted.reading)
        return await self._formats.demanded(prepared, prompted.schema)

    async def rendered(self, prompt: ChatPrompt) -> str:
        """Give what the template makes of a conversation; see `base.Teller.rendered`."""
        self._generating.check_alive()
        return await self._prompts.text(prompt)

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Give the text of tokens; see `base.Teller.detokenize`."""
        self._generating.check_alive()
        try:
            return await self._link.detokenize(tokens)
        except Lost:
            raise RoostError(await self._link.blame("the tokens were not read")) from None

    def forget(self, owner: TenantId) -> None:
        """Remember nothing of this owner's prompts; see `base.Remembering`."""
        self._prompts.forget(owner)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run a prepared request; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._generating.check_run(prepared, use)
        held_to = await self._formats.of(prepared.request)
        stream = Stream(self._link, prepared, use, held_to.gbnf if held_to else "")
        with self._generating.seat(use.slot):
            try:
                async with aclosing(stream):
                    yield stream
            finally:
                self._learn(stream.timings)
                await stream.leave(self._settings.release_timeout_s)

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of texts that vectors are made of; see `base.Embedder.tokenize`."""
        self._generating.check_mode("embed")
        return await self._embedder.tokenize(inputs)

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make a vector for each input; see `base.Embedder.embed`."""
        self._generating.check_mode("embed")
        return await self._counted(self._embedder.embed(batch))

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of the query with each document; see `base.Ranker.pairs`."""
        self._generating.check_mode("rank")
        return await self._ranker.pairs(query, documents)

    async def rank(self, query: str, documents: Sequence[str]) -> Ranked:
        """Score documents; see `base.Ranker.rank`."""
        self._generating.check_mode("rank")
        return await self._counted(self._ranker.rank(query, documents))

    async def _counted(self, call: Awaitable[T]) -> T:
        self._asked += 1
        try:
            return await call
        finally:
            self._asked -= 1

    async def telemetry(self) -> Telemetry:
        """What is made right now, memory of the process, and the rates of the last answer."""
        child = self._link.child
        return msgspec.structs.replace(
            self._rates,
            live=len(self._generating.taken) + self._asked,
            rss_bytes=child.rss_bytes(),
            mapped_bytes=child.mapped_bytes(),
            step_tokens=self._facts.step_tokens,
            fitting_tokens=self._prefills.fitting(),
        )

    async def stop(self, grace_s: float) -> None:
        """End the process and leave no file behind; idempotent."""
        self._link.stopping = True
        self._link.kept.close()
        try:
            if self._renderer:
                await self._renderer.close()
        finally:
            await self._link.child.terminate(grace_s)

    def _clean_up(self) -> None:
        """Leave nothing of a server that has ended, whether anybody stops it or not."""
        self._link.kept.close()
        remove_folder(self._folder)
        if self._settings.state_folder:
            remove_folder(Path(self._settings.state_folder))
        if self._renderer:
            self._renderer.abandon()

    def _learn(self, timings: Timings | None) -> None:
        """Remember how fast the last answer was, where it was long enough to tell."""
        if timings is None:
            return
        self._prefills.on_prefill(timings.prompt_n, timings.prompt_ms)
        prefill = timings.prompt_n, timings.prompt_ms / 1000
        decode = timings.predicted_n, timings.predicted_ms / 1000
        self._rates = learned(self._rates, prefill, decode)
