"""SHELL: cases about scores of documents, each with a runtime that is for nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from roost.backends.base import EMBED_BATCH_MAX, Ranker, Runtime
from roost.errors import RoostError
from roost.testing.stand import Broken, NotApplicable, Stand, require

QUERY = "cats"
DOCUMENTS = ("the cat sat on the mat", "stock prices fell in London", "x", "漢字 and 😀")
NEAR = 1e-3
"""How far the scores of one pair may be apart in another company; engines round otherwise then."""

STOP_GRACE_S = 5.0


@asynccontextmanager
async def ranking(stand: Stand) -> AsyncIterator[tuple[Runtime, Ranker]]:
    """Start a runtime of the mode for scores, and stop it in the end."""
    subject = stand.subject
    tasks = subject.manifest.tasks
    if tasks and "rerank" not in tasks:
        raise NotApplicable("the model has no part that scores documents")
    options = msgspec.structs.replace(subject.key.options, mode="rank")
    key = msgspec.structs.replace(subject.key, options=options)
    settings = msgspec.structs.replace(subject.settings, state_folder="")
    runtime = await subject.backend.start(key, subject.manifest, settings, lambda _part: None)
    try:
        require(isinstance(runtime, Ranker), "a runtime of the mode rank is no Ranker")
        assert isinstance(runtime, Ranker)
        yield runtime, runtime
    finally:
        await runtime.stop(STOP_GRACE_S)


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
            found = await _refused(ranker, documents)
            require(found == reason, f"{documents!s:.60} is refused as {found}")
        await ranker.rank(QUERY, ["good"])
        request = stand.request("one two ", 4)
        try:
            await runtime.prepare(request)
        except RoostError as error:
            require(error.failure.reason == "unsupported", f"it says {error.failure.reason}")
        else:
            raise Broken("a runtime of the mode rank says texts")
        await runtime.stop(STOP_GRACE_S)
        found = await _refused(ranker, ["good"])
        require(found == "runtime_died", f"after the end it is refused as {found}")


async def _refused(ranker: Ranker, documents: list[str]) -> str:
    try:
        await ranker.pairs(QUERY, documents)
        await ranker.rank(QUERY, documents)
    except RoostError as error:
        return error.failure.reason
    return "not at all"
