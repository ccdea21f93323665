"""SHELL: how a runtime is told to work on a request: texts have slots, vectors come in batches.

A request for vectors is prepared and run like any other, in a slot of its own, so that limits,
deadlines, cancellation and drain are those of any request. Its inputs are given to the runtime a
few at a time: each batch is a sign of life, and a place where who has left is left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager

from roost.backends.base import EMBED_BATCH_MAX, Embedder, Prepared, Runtime, SlotUse
from roost.core.events import Finished, Started, StreamEvent, Usage, Vectors
from roost.core.request import EmbedPrompt, GenerateRequest
from roost.core.vectors import packed, shortened
from roost.errors import fail
from roost.node import trimming, words

BATCH_TOKENS = 2048
"""Tokens of a batch, one longer input aside: a fraction of a second on a small machine."""


async def prepared(runtime: Runtime, request: GenerateRequest) -> Prepared:
    """Make a request ready; raises what `Runtime.prepare` and `Embedder.tokenize` raise."""
    prompt = request.prompt
    if words.are_wanted(request):
        return await words.prepared(runtime, request)
    if not isinstance(prompt, EmbedPrompt):
        return await trimming.prepared(runtime.prepare, request)
    inputs = await _embedder(runtime).tokenize(prompt.inputs)
    return Prepared(request, (), 0, inputs=inputs)


@asynccontextmanager
async def opened(
    runtime: Runtime, ready: Prepared, use: SlotUse
) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """Run a prepared request; see `base.Runtime.open`."""
    if not ready.inputs:
        async with runtime.open(ready, use) as events:
            yield events
        return
    async with aclosing(_made(_embedder(runtime), ready, use)) as made:
        yield made


def batches(
    inputs: Sequence[tuple[int, ...]], tokens: int = BATCH_TOKENS, most: int = EMBED_BATCH_MAX
) -> Iterator[Sequence[tuple[int, ...]]]:
    """Cut inputs, in their order, into batches of so many tokens and inputs, or one longer one."""
    begin, size = 0, 0
    for place, one in enumerate(inputs):
        if place > begin and (size + len(one) > tokens or place - begin >= most):
            yield inputs[begin:place]
            begin, size = place, 0
        size += len(one)
    if begin < len(inputs):
        yield inputs[begin:]


async def _made(
    embedder: Embedder, ready: Prepared, use: SlotUse
) -> AsyncGenerator[StreamEvent, None]:
    prompt = ready.request.prompt
    assert isinstance(prompt, EmbedPrompt), "nobody else has inputs"
    count = sum(map(len, ready.inputs))
    yield Started(count, 0, use.slot)
    for batch in batches(ready.inputs):
        vectors = await embedder.embed(batch)
        yield _said(_cut(vectors, prompt.dimensions))
    yield Finished("stop", Usage(prompt_tokens=count))


def _cut(vectors: Sequence[Sequence[float]], size: int) -> Sequence[Sequence[float]]:
    """Give vectors the size that was asked for; whether that is one of the model's is settled."""
    own = len(vectors[0])
    if size > own:
        raise fail("unsupported", f"Vectors of this model have {own} numbers.", param="dimensions")
    return [shortened(one, size) for one in vectors] if 0 < size < own else vectors


def _said(vectors: Sequence[Sequence[float]]) -> Vectors:
    try:
        return Vectors(len(vectors[0]), packed(vectors))
    except OverflowError:
        raise fail("runtime_error", "The runtime made no vectors.") from None


def _embedder(runtime: Runtime) -> Embedder:
    if not isinstance(runtime, Embedder):
        name = runtime.key.backend
        raise fail("unsupported", f"The backend {name} makes no vectors.", param="model")
    return runtime
