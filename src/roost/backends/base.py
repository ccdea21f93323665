"""VALUE: the backend contract, in prose and as protocols.

A backend turns an installed model into a runtime; a runtime turns prepared requests into streams.
The node owns slots: it decides which slot a request uses and never uses one twice at a time. A
backend never queues, never chooses, never retries and never logs a prompt.

What every runtime promises (and `roost.testing.conformance` checks):

1. Order. A stream yields `Started`, any number of `PrefillProgress` and `Delta`, then exactly one
   of `Finished` and `Failed`, then nothing.
2. Text. A delta never splits a character; one that the answer ends within is one U+FFFD. No stop
   string, and no part of one that matched, is ever
   yielded; text held back because it might begin a stop string is released when that is ruled out.
3. Limits. At most `limit` tokens are generated, whatever the request says.
4. Usage. `prompt_tokens`, `cached_tokens` and `completion_tokens` are the runtime's own counts and
   add up with the deltas, also when the stream is cut.
5. Cancellation. Leaving the `open` block is cancellation. The exit returns when the runtime says
   that the slot is free (not when it was asked to); if that takes longer than
   `release_timeout_s` the exit raises `RoostError("runtime_error")`, and the node replaces the
   runtime.
6. Isolation. Streams on different slots do not mix, and a reader that pauses delays only itself.
7. Death. When the runtime dies, every open stream yields `Failed("runtime_died")` and `died` is
   set; later calls raise `RoostError("runtime_died")`.
8. After `stop`, `open` and `prepare` raise `RoostError("runtime_died")`, and no process is left.
9. Numbers are checked here once more before native code sees them: whatever is out of range raises
   `RoostError("bad_request")` and the runtime lives on.
10. Same seed, same tokens, on an otherwise idle runtime, where `seed` is claimed.
11. Continuation, where `replay` is claimed. With `return_tokens` a delta ends where a token ends,
   and has the ids of its tokens; text that is held when the runtime dies stays held. A request with
   a `continuation` goes on behind exactly those tokens: what it says, after the text of them, is
   the whole answer, stop strings across the seam included. They count as prompt, and towards
   `max_tokens`; an answer that has no room left is finished at once.
12. States. What a free slot holds can be written to a file and read back into any free slots, where
    it is as good as before, also to prompts that share only its beginning, and neighbours notice
    nothing. A file that is not as it was saved, to its size, is refused before native code sees
    it: it raises `RoostError` and leaves the slot empty. Whoever keeps files where bytes can change
    has to check more than that.

13. Formats. Where `json_schema` is claimed, an answer that is held to JSON, and ends by itself, is
    JSON, valid under the schema; where `grammar` is, it is a text of the grammar; one that is cut
    off by its limit is the beginning of such a text. What no answer can be held to is refused by
    `prepare`, and whatever is written there, neighbours notice nothing. What is not claimed is
    `unsupported`, and never left out in silence; so are log probabilities and biases of tokens.

14. Vectors. Where `embeddings` is claimed, a runtime whose key has the mode `embed` is an
    `Embedder`: equal inputs have equal vectors, alone or among others, whatever order they come in;
    whoever leaves leaves nothing behind. It says nothing, and one that says texts makes no vectors.

15. Scores. Where `rerank` is claimed, a runtime whose key has the mode `rank` is a `Ranker`: equal
    pairs have equal scores, alone or among others, and what a document says cannot steer the model.

Foreign exceptions are translated into `RoostError` inside the backend and nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, Manifest, RuntimeKey, RuntimeOptions
from roost.core.reading import Reading
from roost.core.request import ChatPrompt, GenerateRequest

EMBED_BATCH_MAX = 256
"""Inputs that are made vectors of at once."""


class Prepared(msgspec.Struct, frozen=True):
    """A request made ready for one runtime: rendered, tokenised and counted.

    `tokens` is the whole prompt with BOS exactly once; `limit` is how many tokens may be generated
    so that prompt + answer fit the slot (`min(max_tokens, ctx - len(tokens))`, at least 1). The
    tokens of a continuation come last, and its limit may be 0. `reading` says how the answer's text
    is to be read; None where all of it is text. One for vectors has the tokens of its `inputs`, and
    no prompt. `text` is that of the prompt, where it was asked for.
    """

    request: GenerateRequest
    tokens: tuple[int, ...]
    limit: int
    reading: Reading | None = None
    inputs: tuple[tuple[int, ...], ...] = ()
    text: str = ""


class SlotUse(msgspec.Struct, frozen=True):
    """Which slot a stream runs on, and whether KV already there may be reused.

    `reuse` is False when the slot's content belongs to another tenant.
    """

    slot: int
    reuse: bool


class Telemetry(msgspec.Struct, frozen=True):
    """What a runtime knows about itself; unknown is None, never 0.

    `mapped_bytes` of `rss_bytes` are pages of files, which the system could drop. `step_tokens` is
    the most prompt tokens that are computed in one step, `fitting_tokens` how many would fit the
    key's `step_budget_ms` by what prefills have taken.
    """

    live: int | None = None
    kv_tokens: int | None = None
    rss_bytes: int | None = None
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    mapped_bytes: int | None = None
    step_tokens: int | None = None
    fitting_tokens: int | None = None


class Died(Protocol):
    """A one-way flag that can be waited for (an `asyncio.Event` fits)."""

    def is_set(self) -> bool:
        """Whether the runtime has ended, for whatever reason."""
        ...

    async def wait(self) -> bool:
        """Wait until it has ended."""
        ...


class SavedState(msgspec.Struct, frozen=True):
    """A file with what a slot held: that many tokens in so many bytes."""

    tokens: int
    size_bytes: int


class States(Protocol):
    """What slots hold, as files in one private folder; only ever asked about free slots.

    Every method raises `RoostError`: `runtime_error`, `runtime_died`, or `bad_request` for a slot
    or a name that cannot be. A name is letters, digits, dots, dashes.
    """

    @property
    def folder(self) -> str:
        """The folder, which goes with the runtime."""
        ...

    @property
    def token_bytes(self) -> int:
        """Bytes of a file per token, as measured."""
        ...

    @property
    def build(self) -> str:
        """Who writes the files: another build may not be able to read them."""
        ...

    async def save(self, slot: int, name: str) -> SavedState:
        """Write the slot's content to a file of this name; the slot keeps it."""
        ...

    async def restore(self, slot: int, name: str, saved: SavedState) -> None:
        """Fill the slot from a file that `save` has described so; empty on failure."""
        ...

    async def erase(self, slot: int) -> None:
        """Let the slot hold nothing."""
        ...


Hold: TypeAlias = Callable[[], Awaitable[object]]
Take: TypeAlias = Callable[[StreamEvent], Hold | None]
"""Takes an event; gives back what has to be awaited before the next one, if anything."""


@runtime_checkable
class Poured(Protocol):
    """A stream that tells its events in the moment it knows them, to whoever does not iterate it.

    A stream is iterated or poured, never both, and says the same either way.
    """

    async def pour(self, take: Take) -> None:
        """Give `take` every event, in order, up to the last; a cancel is leaving off.

        `take` may be called outside of this task, never after it has ended, and never while what it
        gave back is awaited.
        """
        ...


class Runtime(Protocol):
    """One live instance of a backend for one runtime key."""

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        ...

    @property
    def died(self) -> Died:
        """Set once the runtime has ended, by `stop` or by itself."""
        ...

    @property
    def states(self) -> States | None:
        """Its slots' states as files; None where that was tried at the start and does not work."""
        ...

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Render, tokenise and count; takes no slot and starts no prefill.

        `owner` is whose prompt it is: what is remembered of prompts is remembered for it alone, so
        that nobody learns by the time it takes what others have asked. Of nobody, nothing is.

        Raises `RoostError`: `context_length_exceeded` when the prompt leaves no room for one token,
        `unsupported` for a chat without a template, `bad_request` for what the template or the
        vocabulary refuses, `runtime_died`.
        """
        ...

    def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Run a prepared request on a slot; see promises 1 to 6."""
        ...

    async def telemetry(self) -> Telemetry:
        """Current figures; cheap, and never a burden on running streams."""
        ...

    async def stop(self, grace_s: float) -> None:
        """End the runtime: politely, then after `grace_s` by force; idempotent."""
        ...


LOG_MAX_BYTES = 4 * 1024 * 1024
LOGS_KEPT = 3


class StartSettings(msgspec.Struct, frozen=True):
    """Limits of a start and of a runtime's life, and where its files go.

    `workdir` is a private directory (0700) for sockets; `log_path` receives the child's output, up
    to `log_max_bytes`, and `logs_kept` of the full ones before it are kept.
    `state_folder` is one that the runtime makes for its states and removes, "" for none at all.
    `memory_max_bytes` is what its process may write to, 0 for all there is. `step_tokens` is how
    many prompt tokens fit the key's `step_budget_ms` here, as `Telemetry` of an earlier runtime of
    this key has told; 0 has it measured, where the backend can. Weights of at most `copy_max_bytes`
    may be read into memory of their own, where the system gives them huge pages, rather than be
    mapped from their file. A runtime with a thread for each of these `cores` may keep each on its
    own; without any, threads are where the system puts them. `threads` is their number where the
    key leaves it open, 0 for the backend's own choice.
    """

    workdir: str
    log_path: str
    start_timeout_s: float = 120.0
    release_timeout_s: float = 30.0
    render_timeout_s: float = 2.0
    render_output_max_bytes: int = 16 * 1024 * 1024
    state_folder: str = ""
    memory_max_bytes: int = 0
    step_tokens: int = 0
    copy_max_bytes: int = 0
    cores: tuple[int, ...] = ()
    threads: int = 0
    log_max_bytes: int = LOG_MAX_BYTES
    logs_kept: int = LOGS_KEPT

    def threads_for(self, options: RuntimeOptions) -> int:
        """Say how many threads a runtime with these options has; 0 for the backend's choice."""
        return options.threads or self.threads


@runtime_checkable
class Remembering(Protocol):
    """A runtime that remembers of prompts what it may need again."""

    def forget(self, owner: TenantId) -> None:
        """Remember nothing of this owner's prompts."""
        ...


@runtime_checkable
class Teller(Protocol):
    """A runtime that tells texts of prompts, and knows of ones that are bare."""

    async def rendered(self, prompt: ChatPrompt) -> str:
        """Give what the model's template makes of a conversation; raises as `prepare` does."""
        ...

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Give the text of tokens, all of the model's; what is no character is U+FFFD.

        Raises `unsupported` where the engine cannot say it, `runtime_died`.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """A runtime that makes vectors of texts: where `embeddings` is claimed, in the mode `embed`.

    It has no slots: whoever asks waits for whoever asked before. One of another mode raises
    `unsupported`; so does one of this mode for everything else.
    """

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of each text with those that the model wants around it.

        Inputs that are tokens are given back. All are checked as `embed` does, however many there
        are. Raises `bad_request`, `context_length_exceeded` and `runtime_died`.
        """
        ...

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make a vector of length 1 for each of at most `EMBED_BATCH_MAX` inputs, in their order.

        Raises `bad_request` for inputs that are empty or no tokens, `context_length_exceeded` for
        one that is longer than the key's context, `runtime_error` and `runtime_died`.
        """
        ...


class Ranked(msgspec.Struct, frozen=True):
    """A score for each document, the higher the better, and the tokens that all pairs took.

    Scores are the model's own numbers: they compare documents for one query, and nothing else.
    """

    scores: tuple[float, ...]
    tokens: int


@runtime_checkable
class Ranker(Protocol):
    """A runtime that scores documents: where `rerank` is claimed, in the mode `rank`.

    It has no slots either, and everything else is `unsupported`, as is this in other modes.
    """

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of the query with each document, those around them aside.

        Raises `bad_request` for texts that steer the model, `context_length_exceeded` for a pair
        that is longer than the key's context, and `runtime_died`.
        """
        ...

    async def rank(self, query: str, documents: Sequence[str]) -> Ranked:
        """Score at most `EMBED_BATCH_MAX` documents, in their order.

        Raises as `pairs` does, and `runtime_error`.
        """
        ...


class Backend(Protocol):
    """A way to produce tokens."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it claims to do."""
        ...

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> Runtime:
        """Start a runtime; `on_progress` gets 0..1 while it loads.

        Raises `RoostError("load_failed")` with a reason a person can act on. When cancelled it
        leaves no process behind.
        """
        ...
