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
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, takewhile
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from roost.backends import checks
from roost.backends.base import Prepared, Ranked, SlotUse, StartSettings, Telemetry
from roost.backends.deltas import Deltas
from roost.backends.hosted.formats import Format, Formats
from roost.backends.llama.places import remove_folder
from roost.backends.scripted.prompts import (
    BOS,
    VOCAB_SIZE,
    last_text,
    prompt_of,
    text_of,
    tokens_in,
)
from roost.backends.scripted.states import ScriptedStates
from roost.backends.scripted.vectors import pairs_of, ranked, tokens_of, vector
from roost.core.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
    merge_deltas,
)
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.core.request import ChatPrompt, GenerateRequest
from roost.errors import RoostError, fail
from roost.text.gbnf import Rules
from roost.text.gbnf_match import matches, shortest
from roost.text.utf8 import Utf8Decoder

MARK = "@script "
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
WAIT_MAX_MS = 60_000.0
_WORDS = (b"amber", b"birch", b"cedar", b"dune", b"elm", b"fern", b"grove", b"heath")
_PIECE = re.compile(rb"\s*[!-~]+|\s+|[^\s!-~]{1,3}")
_WaitMs: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=WAIT_MAX_MS)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model does.

    `pieces` is the answer, None repeats the last message. `delay_ms` passes before each piece,
    `prefill_ms_per_token` per prompt token that is not cached, `release_ms` until a cancelled slot
    is free, all at most `WAIT_MAX_MS`. After so many pieces it reports an error (`fail_after`),
    says nothing more (`hang_after`) or the runtime dies (`die_after`).
    """

    pieces: tuple[str, ...] | None = None
    delay_ms: _WaitMs = 0.0
    prefill_ms_per_token: _WaitMs = 0.0
    release_ms: _WaitMs = 0.0
    fail_after: _Count | None = None
    hang_after: _Count | None = None
    die_after: _Count | None = None


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
        self.busy: set[int] = set()
        self._formats = Formats(CLAIMS)
        self._key = key
        self._script = script
        self._release_timeout_s = settings.release_timeout_s
        self._ctx = min(
            key.options.ctx or manifest.ctx_train, manifest.ctx_train or key.options.ctx
        )
        slots = key.options.slots
        self._cells: list[tuple[int, ...]] = [()] * slots
        folder = settings.state_folder
        self._states = ScriptedStates(self, folder, slots, self._check_alive) if folder else None

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._key

    @property
    def states(self) -> ScriptedStates | None:
        """Its slots' states, where it was given a folder for them."""
        return self._states

    async def prepare(self, request: GenerateRequest) -> Prepared:
        """Render and count; see `base.Runtime.prepare`."""
        self._check_alive()
        checks.check_mode(self._key.options, "generate")
        checks.check_request(request)
        await self._formats.of(request)
        tokens, ending = tokens_in(request)
        checks.check_tokens(tokens, VOCAB_SIZE)
        script_in(tokens, self._script)
        tokens += request.said
        checks.check_tokens(tokens, VOCAB_SIZE)
        limit = checks.limit_of(request, len(tokens), self._ctx)
        held = await self._formats.demanded(request, ending.schema if ending else "")
        return Prepared(held, tokens, limit, ending.reading if ending else None)

    async def rendered(self, prompt: ChatPrompt) -> str:
        """Give the conversation with its marks; see `base.Teller.rendered`."""
        self._check_alive()
        return text_of(tokens_in(GenerateRequest(self._key.model, prompt))[0])

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Give the bytes as text, and marks by their names; see `base.Teller.detokenize`."""
        self._check_alive()
        return text_of(tokens)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run a prepared request; see `base.Runtime.open`. A slot in use is the caller's defect."""
        self._check_alive()
        options = self._key.options
        checks.check_mode(options, "generate")
        checks.check_run(prepared, use, slots=options.slots, ctx=self._ctx, vocab_size=VOCAB_SIZE)
        held_to = await self._formats.of(prepared.request)
        if use.slot in self.busy:
            raise fail("internal", "Two streams were given one slot.")
        self.busy.add(use.slot)
        script = script_in(prompt_of(prepared), self._script)
        run = _Run(self, prepared, use, script, held_to)
        events = run.events()
        try:
            yield events
        finally:
            await events.aclose()
            self._cells[use.slot] = run.cells
            if not run.over:
                await self._release(run.script.release_ms / 1000)
            self.busy.discard(use.slot)

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the bytes of each text, a BOS before them; see `base.Embedder.tokenize`."""
        self._check_alive()
        checks.check_mode(self._key.options, "embed")
        return tokens_of(inputs, BOS, VOCAB_SIZE, self._ctx)

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make vectors that are near where texts have the same bytes; see `base.Embedder.embed`."""
        self._check_alive()
        checks.check_mode(self._key.options, "embed")
        checks.check_batch(batch, VOCAB_SIZE, self._ctx)
        if not await self.pause(sum(map(len, batch)) * self._script.prefill_ms_per_token / 1000):
            raise fail("runtime_died", "The runtime ended before the vectors were made.")
        return tuple(map(vector, batch))

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the bytes of the query with each document; see `base.Ranker.pairs`."""
        self._check_alive()
        checks.check_mode(self._key.options, "rank")
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
        return Telemetry(live=len(self.busy), kv_tokens=sum(map(len, self._cells)))

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

    def _check_alive(self) -> None:
        if self.died.is_set():
            raise fail("runtime_died", "The runtime has ended.")


class _Run:
    """One stream: what it has put into the slot so far, and whether it ended by itself."""

    def __init__(
        self,
        runtime: ScriptedRuntime,
        prepared: Prepared,
        use: SlotUse,
        script: Script,
        held_to: Format | None,
    ) -> None:
        self.script = script
        self._format = held_to
        self.over = False
        self._runtime = runtime
        self._prepared = prepared
        self._slot = use.slot
        held = runtime.cells(use.slot) if use.reuse else ()
        # As in real engines, at least one token has to be computed to know what comes next.
        self._cached = min(_common(held, prepared.tokens), len(prepared.tokens) - 1)
        self.cells = prepared.tokens[: self._cached]
        self._utf8 = Utf8Decoder()
        self._by_token = prepared.request.return_tokens
        self._deltas = Deltas(prepared.request.stop, by_token=self._by_token)

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Prefill, then speak; whatever goes wrong becomes the stream's last event."""
        total = len(self._prepared.tokens)
        yield Started(total, self._cached, self._slot)
        try:
            while len(self.cells) < total:
                yield await self._prefill(total)
            for number, piece in self._unsaid():
                await self._act(number)
                if delta := self._say(piece):
                    yield delta
                if self._deltas.stop_text is not None or self._full():
                    break
            if delta := self._deltas.finish(self._utf8.finish()):
                yield delta
        except RoostError as error:
            self.over = True
            yield Failed(error.failure, self._spent())
        else:
            self.over = True
            yield Finished(self._reason(), self._usage(), self._deltas.stop_text)

    async def _prefill(self, total: int) -> PrefillProgress:
        """Compute one batch of the prompt."""
        done = len(self.cells)
        until = min(done + self._runtime.key.options.batch, total)
        await self._wait((until - done) * self.script.prefill_ms_per_token)
        self.cells = self._prepared.tokens[:until]
        return PrefillProgress(until, total)

    def _say(self, piece: bytes) -> Delta | None:
        data = piece[: self._prepared.limit - self._deltas.tokens]
        self.cells += tuple(data)
        if not self._by_token:
            return self._deltas.push(self._utf8.push(data), len(data))
        said = Delta("", 0)
        for byte in data:
            text = self._utf8.push(bytes((byte,)))
            said = merge_deltas(said, self._deltas.push(text, 1, ids=(byte,)) or Delta("", 0))
            if self._deltas.stop_text is not None:
                break
        return said if said.tokens else None

    def _full(self) -> bool:
        return self._deltas.tokens >= self._prepared.limit

    def _unsaid(self) -> Iterable[tuple[int, bytes]]:
        """Number the pieces, and leave out what a runtime before this one has said of them."""
        if not self._prepared.limit:
            return
        said = len(self._prepared.request.said)
        for number, piece in enumerate(self._pieces()):
            if not said or said < len(piece):
                yield number, piece[said:]
            said = max(0, said - len(piece))

    def _pieces(self) -> Iterable[bytes]:
        if self._format is not None:
            return self._formatted(self._format.rules)
        if self.script.pieces is not None:
            pieces = [piece.encode() for piece in self.script.pieces]
        else:
            pieces = _echo(self._prepared)
        return cycle(pieces or [b" "]) if self._prepared.request.ignore_eos else pieces

    def _formatted(self, rules: Rules) -> list[bytes]:
        pieces = self.script.pieces
        if pieces is None or not matches(rules, "".join(pieces)):
            pieces = tuple(shortest(rules) or "")
        return [piece.encode() for piece in pieces]

    async def _act(self, number: int) -> None:
        """Do what the script says before piece `number`."""
        script = self.script
        if number == script.die_after:
            self._runtime.kill()
        if number == script.hang_after:
            await self._runtime.died.wait()
        await self._wait(script.delay_ms)
        if number == script.fail_after:
            raise fail("runtime_error", "The script says that the runtime fails here.")

    async def _wait(self, wait_ms: float) -> None:
        if not await self._runtime.pause(wait_ms / 1000):
            raise fail("runtime_died", "The runtime ended during the answer.")

    def _reason(self) -> FinishReason:
        return "length" if self._deltas.stop_text is None and self._full() else "stop"

    def _spent(self) -> Usage:
        """What was told; of an answer that may be gone on with, the rest is not spent."""
        usage = self._usage()
        if self._by_token:
            usage = msgspec.structs.replace(usage, completion_tokens=self._deltas.cut())
        return usage

    def _usage(self) -> Usage:
        return Usage(len(self._prepared.tokens), self._cached, self._deltas.tokens)


def script_in(tokens: tuple[int, ...], default: Script) -> Script:
    """Give the script of the last message, or `default`; raises `bad_request` where it is none."""
    lines = last_text(tokens).decode("utf-8", "replace").splitlines()
    line = next((line for line in lines if line.startswith(MARK)), None)
    if line is None:
        return default
    try:
        return msgspec.json.decode(line.removeprefix(MARK), type=Script)
    except msgspec.DecodeError as error:
        raise fail("bad_request", f"The script is wrong: {error}", param="messages") from None


def _echo(prepared: Prepared) -> list[bytes]:
    """Repeat the last message in words; what is not ASCII comes in pieces that split characters."""
    pieces = _PIECE.findall(last_text(prompt_of(prepared)))
    seed = prepared.request.sampling.seed
    if seed is not None:
        pieces += [b" " + word for word in random.Random(seed).choices(_WORDS, k=8)]
    return pieces


def _common(held: tuple[int, ...], tokens: tuple[int, ...]) -> int:
    pairs = zip(held, tokens, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
