"""SHELL: cases about vectors, each with a runtime of its own that is for nothing else."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from roost.backends.base import EMBED_BATCH_MAX, Embedder, Prepared, Runtime, SlotUse
from roost.testing.stand import STOP_GRACE_S, NotApplicable, Stand, refusal_of, require

TEXTS = ("the cat sat on the mat", "stock prices fell in London", "x", "漢字 and 😀")
NEAR = 0.999
"""Of the same input in another company; engines round otherwise then."""


@asynccontextmanager
async def embedding(stand: Stand) -> AsyncIterator[tuple[Runtime, Embedder]]:
    """Start a runtime of the mode for vectors, and stop it in the end."""
    subject = stand.subject
    if subject.manifest.format == "safetensors" and "embeddings" not in subject.manifest.tasks:
        raise NotApplicable("a folder says how vectors are made of it, and this one does not")
    async with stand.in_mode("embed") as runtime:
        require(isinstance(runtime, Embedder), "a runtime of the mode embed is no Embedder")
        assert isinstance(runtime, Embedder)
        yield runtime, runtime


def _likeness(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def texts_become_vectors(stand: Stand) -> None:
    """Each input has a vector of length 1, the same alone and among others, in its place."""
    async with embedding(stand) as (_, embedder):
        inputs = await embedder.tokenize(TEXTS)
        require(all(inputs), "a text has no tokens")
        alone = [(await embedder.embed([one]))[0] for one in inputs]
        together = await embedder.embed([*inputs[1:], *inputs])
        require(len({len(vector) for vector in (*alone, *together)}) == 1, "sizes differ")
        for vector, other in zip((*alone[1:], *alone), together, strict=True):
            require(abs(math.hypot(*vector) - 1) < 0.01, "a vector has another length than 1")
            likeness = _likeness(vector, other)
            require(likeness > NEAR, f"an input is another one among others: {likeness:.4f}")
        likeness = _likeness(alone[0], alone[1])
        require(likeness < NEAR, "different texts have the same vector")


async def bad_inputs_are_refused(stand: Stand) -> None:
    """What is nothing, too much or no token never reaches the engine, which lives on."""
    async with embedding(stand) as (_, embedder):
        good = (await embedder.tokenize(TEXTS[:1]))[0]
        long = good * (stand.ctx // len(good) + 1)
        batches: list[tuple[list[tuple[int, ...]], str]] = [
            ([], "bad_request"),
            ([good] * (EMBED_BATCH_MAX + 1), "bad_request"),
            ([good, ()], "bad_request"),
            ([(-1,)], "bad_request"),
            ([(2**31,)], "bad_request"),
            ([(True,)], "bad_request"),
            ([long[: stand.ctx + 1]], "context_length_exceeded"),
        ]
        for batch, reason in batches:
            found = await refusal_of(embedder.embed(batch))
            require(found == reason, f"{batch!s:.60} is refused as {found}")
        for texts in (["half \ud83d"], []):
            found = await refusal_of(embedder.tokenize(texts))
            require(found == "bad_request", f"{texts} is refused as {found}")
        await embedder.embed([long[: stand.ctx]])


async def modes_are_apart(stand: Stand) -> None:
    """A runtime does what its mode says, and refuses the rest as unsupported."""
    usual = stand.runtime
    require(isinstance(usual, Embedder), "a runtime of this backend is no Embedder")
    assert isinstance(usual, Embedder)
    found = await refusal_of(usual.embed([(1,)]))
    require(found == "unsupported", "a usual runtime makes vectors")
    async with embedding(stand) as (runtime, _):
        request = stand.request("one two ", 4)
        for way in (runtime.prepare(request), _opened(runtime, Prepared(request, (1,), 1))):
            found = await refusal_of(way)
            require(found == "unsupported", f"a text of the mode embed is refused as {found}")


async def _opened(runtime: Runtime, prepared: Prepared) -> None:
    async with runtime.open(prepared, SlotUse(0, reuse=False)):
        pass


async def leaving_leaves_nothing(stand: Stand) -> None:
    """Whoever stops waiting for vectors disturbs nobody; after the end they are refused."""
    async with embedding(stand) as (runtime, embedder):
        good = (await embedder.tokenize(TEXTS[:1]))[0]
        long = (good * stand.ctx)[: stand.ctx // 2]
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(embedder.embed([long] * 8))
            await asyncio.sleep(0)
            asking.cancel()
        await embedder.embed([good])
        await runtime.stop(STOP_GRACE_S)
        found = await refusal_of(embedder.embed([good]))
        require(found == "runtime_died", f"after the end it is refused as {found}")
