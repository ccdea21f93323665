"""SHELL: how a runtime is told to work on a request: texts have slots, vectors come in batches.

A request for vectors is prepared and run like any other, in a slot of its own, so that limits,
deadlines, cancellation and drain are those of any request. Its inputs are given to the runtime a
few at a time: each batch is a sign of life, and a place where who has left is left. Scores of
documents are vectors of one number.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial

from roost.backends.base import Embedder, Prepared, Ranker, Runtime, SlotUse
from roost.core.events import Finished, Started, StreamEvent, Usage, Vectors
from roost.core.ids import TenantId
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt
from roost.core.vectors import packed, shortened
from roost.errors import RoostError, fail
from roost.node.prompts import trimming, words

BATCH_TOKENS = 2048
BATCH_INPUTS = 16
"""Of a batch, one longer input aside: less than a second on a small machine that others use too."""


async def prepared(runtime: Runtime, request: GenerateRequest, owner: TenantId) -> Prepared:
    """Make a request ready; raises what `prepare`, `tokenize` and `pairs` of a runtime raise."""
    if words.are_wanted(request):
        return await words.prepared(runtime, request, owner)
    match request.prompt:
        case EmbedPrompt(inputs):
            return Prepared(request, (), 0, inputs=await _embedder(runtime).tokenize(inputs))
        case RankPrompt(query, documents):
            pairs = await _ranker(runtime).pairs(query, documents)
            return Prepared(request, (), 0, inputs=pairs)
    return await trimming.prepared(partial(runtime.prepare, owner=owner), request)


@asynccontextmanager
async def opened(
    runtime: Runtime, ready: Prepared, use: SlotUse
) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """Run a prepared request; see `base.Runtime.open`."""
    if not ready.inputs:
        async with runtime.open(ready, use) as events:
            yield events
        return
    async with aclosing(_made(runtime, ready, use)) as made:
        yield made


def batches(
    inputs: Sequence[tuple[int, ...]], tokens: int = BATCH_TOKENS, most: int = BATCH_INPUTS
) -> Iterator[range]:
    """Cut inputs, in their order, into batches of so many tokens and inputs, or one longer one."""
    begin, size = 0, 0
    for place, one in enumerate(inputs):
        if place > begin and (size + len(one) > tokens or place - begin >= most):
            yield range(begin, place)
            begin, size = place, 0
        size += len(one)
    if begin < len(inputs):
        yield range(begin, len(inputs))


async def _made(
    runtime: Runtime, ready: Prepared, use: SlotUse
) -> AsyncGenerator[StreamEvent, None]:
    yield Started(sum(map(len, ready.inputs)), 0, use.slot)
    spent = 0
    for batch in batches(ready.inputs):
        vectors, tokens = await _batch(runtime, ready, slice(batch.start, batch.stop))
        spent += tokens
        yield vectors
    yield Finished("stop", Usage(prompt_tokens=spent))


async def _batch(runtime: Runtime, ready: Prepared, part: slice) -> tuple[Vectors, int]:
    """Work on some of the inputs: their vectors, and the tokens that it took."""
    prompt = ready.request.prompt
    if isinstance(prompt, RankPrompt):
        found = await _ranker(runtime).rank(prompt.query, prompt.documents[part])
        return _said([(score,) for score in found.scores]), found.tokens
    assert isinstance(prompt, EmbedPrompt), "nobody else has inputs"
    inputs = ready.inputs[part]
    vectors = await _embedder(runtime).embed(inputs)
    return _said(_cut(vectors, prompt.dimensions)), sum(map(len, inputs))


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
        raise _unable(runtime, "makes no vectors")
    return runtime


def _ranker(runtime: Runtime) -> Ranker:
    if not isinstance(runtime, Ranker):
        raise _unable(runtime, "scores no documents")
    return runtime


def _unable(runtime: Runtime, what: str) -> RoostError:
    return fail("unsupported", f"The backend {runtime.key.backend} {what}.", param="model")
