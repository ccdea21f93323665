"""Vectors from a llama.cpp server: what it is told, and what it may not answer."""

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
from roost.core.engine import Engine
from roost.errors import RoostError
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(folder: Path, **model: object) -> AsyncIterator[LlamaRuntime]:
    """Give a runtime of the fake server that makes vectors."""
    key = key_of("llama_server", ctx=1000, batch=64)
    engine = Engine(pooling="mean", step_budget_ms=300, ubatch=32)
    options = msgspec.structs.replace(key.options, mode="embed", engine=engine)
    key = msgspec.structs.replace(key, options=options)
    manifest, settings = fake_manifest(folder, **model), settings_in(folder)
    runtime = await LlamaServer(str(FAKE)).start(key, manifest, settings, lambda _part: None)
    try:
        yield runtime
    finally:
        await runtime.stop(2.0)


async def test_an_input_is_one_step(tmp_path: Path) -> None:
    """Steps are as large as a context, whatever is asked for texts; nothing is tried with it."""
    async with running(tmp_path) as runtime:
        tokens = await runtime.tokenize(["ab", "<s>"])
        assert tokens == ((256, 97, 98), (256, *b"<s>"))
        assert len((await runtime.embed(tokens))[0]) == 8
        assert runtime.states is None
    lines = (tmp_path / "runtime.log").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("arguments: ")]
    words = json.loads(line.partition(" ")[2])
    assert words[words.index("--batch-size") + 1] == words[words.index("--ubatch-size") + 1]
    assert words[words.index("--batch-size") + 1] == "1024"
    assert words[words.index("--parallel") + 1] == "1"
    assert words[words.index("--pooling") + 1] == "mean"
    assert "--embeddings" in words
    assert not any(line.startswith("{") for line in lines)


async def test_a_model_without_pooling_says_what_it_needs(tmp_path: Path) -> None:
    """It makes a vector of each token, and of the text none."""
    async with running(tmp_path, pooling="none") as runtime:
        with pytest.raises(RoostError, match="it may need `pooling`") as caught:
            await runtime.embed([(1, 2)])
        assert caught.value.failure.reason == "unsupported"


@pytest.mark.parametrize("said", ["x", "{}", [], [{"index": 0, "embedding": []}]])
async def test_nonsense_is_no_vector(said: object, tmp_path: Path) -> None:
    """Whatever else the server says is its failure, and no foreign exception."""
    async with running(tmp_path, vectors=said) as runtime:
        with pytest.raises(RoostError) as caught:
            await runtime.embed([(1, 2)])
        assert caught.value.failure.reason == "runtime_error"


def test_a_program_that_makes_no_vectors_is_too_old() -> None:
    """A binary that does not know the mode fails the load."""
    launch = Launch("m", "k", "key", ctx=256, slots=1, batch=256, socket="s", mode="embed")
    known = "--model --ctx-size --parallel --batch-size --host --api-key-file"
    with pytest.raises(RoostError, match="does not know --embedding"):
        arguments(launch, known)
    assert "--embedding" in arguments(launch, known + " --embedding")
