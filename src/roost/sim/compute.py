"""MACHINE: a toy engine whose answers prove themselves.

Each token is the hash of the one before, and the first one is the hash of the prompt: `answer_of`
computes the whole answer without an engine, so a token that is lost, doubled, reordered or taken
from another stream shows in the text that a client received.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from zlib import crc32

from roost.backends.base import Prepared, SlotUse
from roost.core.events import Delta, Finished, FinishReason, PrefillProgress, Started, StreamEvent
from roost.core.events import Usage as Spent
from roost.core.prefixes import common_length
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt
from roost.errors import Failure
from roost.node.effects import StreamKey
from roost.sim import vectors
from roost.sim.costs import Costs
from roost.sim.world import Process, World

DIED = Failure("runtime_died", "The runtime ended.")


def prompt_tokens(request: GenerateRequest) -> tuple[int, ...]:
    """Render and tokenise: one token for each role and each word."""
    prompt = request.prompt
    if isinstance(prompt, TextPrompt):
        return tuple(map(crc32, prompt.text.encode().split()))
    assert isinstance(prompt, ChatPrompt)
    words = [
        word
        for message in prompt.messages
        for word in (b"<%b>" % message.role.encode(), *message.content.encode().split())
    ]
    return tuple(map(crc32, words))


def answer_of(request: GenerateRequest) -> list[str]:
    """The pieces of text that any engine here generates for this request."""
    state = _hash(repr(prompt_tokens(request)).encode())
    limit = request.max_tokens or 1
    # Half of the answers stop by themselves before the limit.
    count = limit if state[0] % 2 else 1 + state[1] % limit
    pieces = []
    for _ in range(count):
        pieces.append(f"{state.hex()} ")
        state = _hash(state)
    return pieces


def token_of(piece: str, weights: str) -> int:
    """The id of a piece of text, which is another one in each model."""
    return crc32(f"{weights} {piece}".encode())


def rest_of(request: GenerateRequest, weights: str) -> list[str]:
    """What is left of the answer behind what was said; nonsense if other weights have said it."""
    pieces, said = answer_of(request), request.said
    rest = pieces[len(said) :]
    if said == tuple(token_of(piece, weights) for piece in pieces[: len(said)]):
        return rest
    return [f"{_hash(f'{said} {piece}'.encode()).hex()} " for piece in rest]


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=3).digest()


class _Stream:
    """One running request."""

    def __init__(self, key: StreamKey, prepared: Prepared, slot: int, pieces: list[str]) -> None:
        self.key = key
        self.prepared = prepared
        self.slot = slot
        self.pieces = pieces
        self.vectors = vectors.made_of(prepared.request)
        self.cached = 0
        self.prefilled = 0
        self.said = 0
        self.paused = False
        self.waiting = False
        self.ended = False


class Engine(Process):
    """One runtime: slots with KV, prefill in steps, one token per step and stream."""

    def __init__(self, world: World, name: str, costs: Costs, weights: str = "w") -> None:
        super().__init__(world, name)
        self._weights = weights
        self.costs = costs
        self.emit: Callable[[StreamKey, StreamEvent], None] = _nobody
        self.closed: Callable[[StreamKey, Failure | None], None] = _nobody
        self.streams: dict[StreamKey, _Stream] = {}
        self._kv: dict[int, tuple[int, ...]] = {}

    def open(self, key: StreamKey, prepared: Prepared, use: SlotUse) -> None:
        """Run a request on a slot."""
        assert all(s.slot != use.slot for s in self.streams.values()), "one stream on one slot"
        speaks = not prepared.inputs
        pieces = rest_of(prepared.request, self._weights) if speaks else []
        stream = _Stream(key, prepared, use.slot, pieces)
        held = self._kv.get(use.slot, ()) if use.reuse else ()
        # The last token is always computed anew: its logits are what the answer begins with.
        stream.cached = min(common_length(held, prepared.tokens), max(0, len(prepared.tokens) - 1))
        stream.prefilled = stream.cached
        self._kv[use.slot] = ()
        self.streams[key] = stream
        self.after(0.0, lambda: self._begin(stream))

    def content(self, slot: int) -> tuple[int, ...]:
        """What an idle slot holds."""
        return self._kv.get(slot, ())

    def fill(self, slot: int, tokens: tuple[int, ...]) -> None:
        """Let an idle slot hold this."""
        self._kv[slot] = tokens

    def leave(self, key: StreamKey) -> None:
        """Stop a request; `closed` follows when its slot is free."""
        stream = self.streams.get(key)
        if stream is not None:
            stream.ended = True
            self.after(self.costs.stop_s, lambda: self._close(stream))

    def pause(self, key: StreamKey, *, paused: bool) -> None:
        """Stop or go on producing events for this request."""
        stream = self.streams.get(key)
        if stream is None:
            return
        stream.paused = paused
        if not paused and stream.waiting:
            stream.waiting = False
            self._step(stream)

    def _begin(self, stream: _Stream) -> None:
        if not stream.ended:
            self.emit(stream.key, Started(_size(stream.prepared), stream.cached, stream.slot))
            self._next(stream)

    def _next(self, stream: _Stream) -> None:
        left = len(stream.prepared.tokens) - stream.prefilled
        if left or stream.vectors:
            delay_s = self.costs.prefill_s(min(left or self.costs.batch, self.costs.batch))
        else:
            delay_s = self.costs.step_s(len(self.streams))
        self.after(delay_s, lambda: self._step(stream))

    def _step(self, stream: _Stream) -> None:
        if stream.ended:
            return
        if stream.paused:
            stream.waiting = True
            return
        total = len(stream.prepared.tokens)
        if stream.prefilled < total:
            stream.prefilled = min(total, stream.prefilled + self.costs.batch)
            self.emit(stream.key, PrefillProgress(stream.prefilled, total))
            self._next(stream)
        elif stream.vectors:
            self.emit(stream.key, stream.vectors.pop(0))
            self._next(stream)
        elif stream.said < len(stream.pieces):
            piece = stream.pieces[stream.said]
            stream.said += 1
            asked = stream.prepared.request.return_tokens
            ids = (token_of(piece, self._weights),) if asked else ()
            self.emit(stream.key, Delta(piece, ids=ids))
            self._next(stream)
        else:
            self._finish(stream)

    def _finish(self, stream: _Stream) -> None:
        stream.ended = True
        request = stream.prepared.request
        complete = len(request.said) + stream.said == request.max_tokens
        reason: FinishReason = "length" if complete else "stop"
        usage = Spent(_size(stream.prepared), stream.cached, stream.said)
        self.emit(stream.key, Finished(reason, usage))
        self.after(self.costs.stop_s, lambda: self._close(stream))

    def _close(self, stream: _Stream) -> None:
        # By the same name it may run again already.
        if self.streams.get(stream.key) is not stream:
            return
        del self.streams[stream.key]
        tokens = stream.prepared.tokens[: stream.prefilled]
        said = tuple(crc32(piece.split()[0].encode()) for piece in stream.pieces[: stream.said])
        if said:
            tokens += (crc32(b"<assistant>"), *said)
        self._kv[stream.slot] = tokens
        self.closed(stream.key, None)


def _size(prepared: Prepared) -> int:
    return len(prepared.tokens) + sum(map(len, prepared.inputs))


def _nobody(*_args: object) -> None:
    """Stands in until the node has attached itself."""
