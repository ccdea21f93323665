"""SHELL: a backend without a model, for tests and demonstrations: exact, quick and told what to do.

Every byte is a token, so that counts are exact, tokens split characters and nothing is learned.
The "model" repeats the last message, or does what a script says: one given to the backend, or one
in the last message, as a line of its own:

    @script {"pieces": ["Hel", "lo"], "delay_ms": 5, "fail_after": 1}

A seed adds words that depend on it. With `ignore_eos` the answer starts over until its limit. An
answer that is held to a format is what the script says if that fits, or else the shortest text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from roost.backends import checks
from roost.backends.base import Prepared, Ranked, SlotUse, StartSettings, Telemetry
from roost.backends.byte_vectors import pairs_of, ranked, tokens_of, vector
from roost.backends.formats import Formats
from roost.backends.generating import Generating
from roost.backends.processes.places import remove_folder
from roost.backends.scripted.prompts import BOS, VOCAB_SIZE, prompt_of, text_of, tokens_in
from roost.backends.scripted.run import Run
from roost.backends.scripted.script import Script, script_in
from roost.backends.scripted.states import ScriptedStates
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, Manifest, RuntimeKey, ctx_within
from roost.core.request import ChatPrompt, GenerateRequest
from roost.errors import fail

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
    exact_token_count=True,
    seed=True,
    replay=True,
)


class ScriptedBackend:
    """The backend `scripted`; `script` is what its models do unless a prompt says otherwise."""

    def __init__(self, script: Script | None = None, *, load_s: float = 0.0) -> None:
        self._script = script or Script()
        self._load_s = load_s

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "scripted"

    @property
    def capabilities(self) -> Capabilities:
        """What it does, all of it exactly."""
        return CLAIMS

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> ScriptedRuntime:
        """Start a runtime after `load_s` seconds; a manifest of format `broken` fails to load."""
        on_progress(0.0)
        await asyncio.sleep(self._load_s)
        if manifest.format == "broken":
            raise fail("load_failed", "The model is broken, as its manifest says.")
        on_progress(1.0)
        return ScriptedRuntime(key, manifest, settings, self._script)


class ScriptedRuntime:
    """A runtime in this very process; made by `ScriptedBackend.start`."""

    def __init__(
        self, key: RuntimeKey, manifest: Manifest, settings: StartSettings, script: Script
    ) -> None:
        self.died = asyncio.Event()
        self._formats = Formats()
        self._key = key
        self._script = script
        self._release_timeout_s = settings.release_timeout_s
        self._ctx = ctx_within(key.options.ctx, manifest.ctx_train)
        slots = key.options.slots
        self._cells: list[tuple[int, ...]] = [()] * slots
        folder = settings.state_folder
        self._generating = Generating(key, self._ctx, VOCAB_SIZE, CLAIMS, self.died.is_set)
        self._states = ScriptedStates(self, self._generating, folder, slots) if folder else None

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def states(self) -> ScriptedStates | None:
        """Its slots' states, where it was given a folder for them."""
        return self._states

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Render and count; see `base.Runtime.prepare`."""
        self._generating.check(request)
        await self._formats.of(request)
        tokens, ending = tokens_in(request)
        prepared = self._generating.prepared(request, tokens, ending.reading if ending else None)
        script_in(prompt_of(prepared), self._script)
        return await self._formats.demanded(prepared, ending.schema if ending else "")

    async def rendered(self, prompt: ChatPrompt) -> str:
        """Give the conversation with its marks; see `base.Teller.rendered`."""
        self._generating.check_alive()
        return text_of(tokens_in(GenerateRequest(self._key.model, prompt))[0])

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Give the bytes as text, and marks by their names; see `base.Teller.detokenize`."""
        self._generating.check_alive()
        return text_of(tokens)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run a prepared request; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._generating.check_run(prepared, use)
        held_to = await self._formats.of(prepared.request)
        script = script_in(prompt_of(prepared), self._script)
        with self._generating.seat(use.slot):
            run = Run(self, prepared, use, script, held_to)
            events = run.events()
            try:
                yield events
            finally:
                await events.aclose()
                self._cells[use.slot] = run.cells
                if not run.over:
                    await self._release(run.script.release_ms / 1000)

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the bytes of each text, a BOS before them; see `base.Embedder.tokenize`."""
        self._generating.check_mode("embed")
        return tokens_of(inputs, BOS, VOCAB_SIZE, self._ctx)

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make vectors that are near where texts have the same bytes; see `base.Embedder.embed`."""
        self._generating.check_mode("embed")
        checks.check_batch(batch, VOCAB_SIZE, self._ctx)
        if not await self.pause(sum(map(len, batch)) * self._script.prefill_ms_per_token / 1000):
            raise fail("runtime_died", "The runtime ended before the vectors were made.")
        return tuple(map(vector, batch))

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the bytes of the query with each document; see `base.Ranker.pairs`."""
        self._generating.check_mode("rank")
        return pairs_of(query, documents, BOS, self._ctx)

    async def rank(self, query: str, documents: Sequence[str]) -> Ranked:
        """Score by how many bytes they have in common; see `base.Ranker.rank`."""
        found = await self.pairs(query, documents)
        checks.check_batch(found, VOCAB_SIZE, self._ctx)
        if not await self.pause(sum(map(len, found)) * self._script.prefill_ms_per_token / 1000):
            raise fail("runtime_died", "The runtime ended before the documents were scored.")
        return ranked(found, BOS)

    async def telemetry(self) -> Telemetry:
        """Live sequences and the tokens that all slots hold."""
        return Telemetry(live=len(self._generating.taken), kv_tokens=sum(map(len, self._cells)))

    async def stop(self, grace_s: float) -> None:
        """End the runtime; there is nothing to be polite to."""
        self.kill()

    def kill(self) -> None:
        """Die at once, as a process does that is killed with -9."""
        self.died.set()
        if self._states:
            remove_folder(Path(self._states.folder))

    def fill(self, slot: int, tokens: tuple[int, ...]) -> None:
        """Let a slot hold these tokens."""
        self._cells[slot] = tokens

    def cells(self, slot: int) -> tuple[int, ...]:
        """Give the tokens that a slot holds."""
        return self._cells[slot]

    async def pause(self, seconds: float) -> bool:
        """Let time pass; return whether the runtime still lives then."""
        if seconds <= 0:
            await asyncio.sleep(0)
        else:
            try:
                async with asyncio.timeout(seconds):
                    await self.died.wait()
            except TimeoutError:
                pass
        return not self.died.is_set()

    async def _release(self, seconds: float) -> None:
        lives = await self.pause(min(seconds, self._release_timeout_s))
        if lives and seconds > self._release_timeout_s:
            raise fail("runtime_error", "The slot did not become free in time.")
