"""Scores from a llama.cpp server: what it is told, and what it may not answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from roost.backends.llama.argv import Launch, arguments
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.engine import Mode
from roost.errors import RoostError
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(folder: Path, **model: object) -> AsyncIterator[LlamaRuntime]:
    """Give a runtime of the fake server that scores documents."""
    key = key_of("llama_server", ctx=1000, batch=64)
    options = msgspec.structs.replace(key.options, mode="rank")
    key = msgspec.structs.replace(key, options=options)
    manifest, settings = fake_manifest(folder, **model), settings_in(folder)
    runtime = await LlamaServer(str(FAKE)).start(key, manifest, settings, lambda _part: None)
    try:
        yield runtime
    finally:
        await runtime.stop(2.0)


async def test_documents_are_scored_in_their_order(tmp_path: Path) -> None:
    """However the server sorts them; a pair is one step, and one at a time."""
    async with running(tmp_path) as runtime:
        assert await runtime.pairs("ab", ["zz", "ab"]) == ((*b"abzz",), (*b"abab",))
        found = await runtime.rank("ab", ["zz", "ab", "az"])
        assert (found.scores, found.tokens) == ((0.0, 1.0, 0.5), 24)
        with pytest.raises(RoostError, match="scores documents and makes no vectors"):
            await runtime.embed([(1,)])
        with pytest.raises(RoostError, match="Document 1 and the query have 1006 tokens"):
            await runtime.pairs("ab", ["ab", "x" * 1000])
    lines = (tmp_path / "runtime.log").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("arguments: ")]
    words = json.loads(line.partition(" ")[2])
    assert words[words.index("--batch-size") + 1] == words[words.index("--ubatch-size") + 1]
    assert words[words.index("--batch-size") + 1] == "1024"
    assert words[words.index("--parallel") + 1] == "1"
    assert "--reranking" in words
    assert "--embeddings" not in words


SCORE = {"index": 0, "relevance_score": 1.0}
USAGE = {"prompt_tokens": 3}
NONSENSE: dict[str, tuple[int, object, str]] = {
    "text": (200, "x", "runtime_error"),
    "nothing": (200, {"results": [], "usage": USAGE}, "runtime_error"),
    "twice": (200, {"results": [SCORE, SCORE], "usage": USAGE}, "runtime_error"),
    "no usage": (200, {"results": [SCORE]}, "runtime_error"),
    "another": (200, {"results": [SCORE | {"index": 1}], "usage": USAGE}, "runtime_error"),
    "too large": (500, {"error": "too large"}, "runtime_error"),
    "unable": (501, {"error": "no"}, "unsupported"),
}


async def test_nonsense_is_no_score(tmp_path: Path) -> None:
    """Whatever else the server says is its failure, and no foreign exception."""
    said = {query: (status, body) for query, (status, body, _) in NONSENSE.items()}
    async with running(tmp_path, scores=said) as runtime:
        for query, (_, _, reason) in NONSENSE.items():
            with pytest.raises(RoostError) as caught:
                await runtime.rank(query, ["a"])
            assert caught.value.failure.reason == reason, query
        assert (await runtime.rank("a", ["a"])).scores == (1.0,)


@pytest.mark.parametrize(
    ("mode", "tasks", "words"),
    [
        ("rank", ("chat",), "no part that scores documents"),
        ("rank", ("embeddings",), "no part that scores documents"),
        ("embed", ("rerank",), "needs a `pooling`"),
    ],
)
async def test_what_a_model_cannot_do_is_not_loaded(
    mode: Mode, tasks: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    """llama.cpp would load it, and end itself or read numbers that are not there."""
    key = key_of("llama_server")
    options = msgspec.structs.replace(key.options, mode=mode)
    key = msgspec.structs.replace(key, options=options)
    manifest = msgspec.structs.replace(fake_manifest(tmp_path), tasks=tasks)
    settings = settings_in(tmp_path)
    with pytest.raises(RoostError, match=words) as caught:
        await LlamaServer(str(FAKE)).start(key, manifest, settings, lambda _part: None)
    assert caught.value.failure.reason == "load_failed"


def test_a_program_that_scores_nothing_is_too_old() -> None:
    """A binary that does not know the mode fails the load; an older name of it is as good."""
    launch = Launch("m", "k", "key", ctx=256, slots=1, batch=256, socket="s", mode="rank")
    known = "--model --ctx-size --parallel --batch-size --host --api-key-file"
    with pytest.raises(RoostError, match="does not know --rerank"):
        arguments(launch, known)
    assert "--rerank" in arguments(launch, known + " --rerank")
    assert "--reranking" in arguments(launch, known + " --rerank --reranking")
