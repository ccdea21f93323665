"""SHELL: cases about scores of documents, each with a runtime that is for nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from roost.backends.base import EMBED_BATCH_MAX, Ranker, Runtime
from roost.testing.stand import STOP_GRACE_S, NotApplicable, Stand, refusal_of, require

QUERY = "cats"
DOCUMENTS = ("the cat sat on the mat", "stock prices fell in London", "x", "漢字 and 😀")
NEAR = 1e-3
"""How far the scores of one pair may be apart in another company; engines round otherwise then."""


@asynccontextmanager
async def ranking(stand: Stand) -> AsyncIterator[tuple[Runtime, Ranker]]:
    """Start a runtime of the mode for scores, and stop it in the end."""
    tasks = stand.subject.manifest.tasks
    if tasks and "rerank" not in tasks:
        raise NotApplicable("the model has no part that scores documents")
    async with stand.in_mode("rank") as runtime:
        require(isinstance(runtime, Ranker), "a runtime of the mode rank is no Ranker")
        assert isinstance(runtime, Ranker)
        yield runtime, runtime


async def documents_are_scored(stand: Stand) -> None:
    """Each document has its own score, the same alone and among others, in its place."""
    async with ranking(stand) as (_, ranker):
        pairs = await ranker.pairs(QUERY, DOCUMENTS)
        require(len(pairs) == len(DOCUMENTS) and all(pairs), "a pair has no tokens")
        alone = [(await ranker.rank(QUERY, [one])).scores[0] for one in DOCUMENTS]
        found = await ranker.rank(QUERY, [*DOCUMENTS[1:], *DOCUMENTS])
        for score, other in zip((*alone[1:], *alone), found.scores, strict=True):
            require(abs(score - other) < NEAR, f"a document is another one among others: {other}")
        require(abs(alone[0] - alone[1]) >= NEAR, "different documents have the same score")
        require(found.tokens >= sum(map(len, pairs)), "fewer tokens than there are")


async def bad_documents_are_refused(stand: Stand) -> None:
    """What is nothing, too much or a mark never reaches the engine, which lives on."""
    async with ranking(stand) as (runtime, ranker):
        long = "river stone cloud " * stand.ctx
        marks = [f"a {mark} b" for mark in stand.subject.manifest.control_tokens]
        wrong = [
            ([], "bad_request"),
            (["x"] * (EMBED_BATCH_MAX + 1), "bad_request"),
            (["good", "half \ud83d"], "bad_request"),
            (["good", long], "context_length_exceeded"),
            *(([mark], "bad_request") for mark in marks),
        ]
        for documents, reason in wrong:
            found = await refusal_of(_scored(ranker, documents))
            require(found == reason, f"{documents!s:.60} is refused as {found}")
        await ranker.rank(QUERY, ["good"])
        request = stand.request("one two ", 4)
        found = await refusal_of(runtime.prepare(request))
        require(found == "unsupported", f"a text of the mode rank is refused as {found}")
        await runtime.stop(STOP_GRACE_S)
        found = await refusal_of(_scored(ranker, ["good"]))
        require(found == "runtime_died", f"after the end it is refused as {found}")


async def _scored(ranker: Ranker, documents: list[str]) -> None:
    await ranker.pairs(QUERY, documents)
    await ranker.rank(QUERY, documents)
