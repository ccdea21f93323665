"""The adapter of llama.cpp with the real server out of its wheel, and a small real model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.base import SlotUse
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.engine import Engine, ExtraFile
from roost.core.events import Delta, Finished, Started
from roost.core.kv import KvPlan, cost_of
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Sampling,
    TextPrompt,
    TokensPrompt,
)
from roost.errors import RoostError
from roost.testing.conformance import Subject, examine, failed, table
from tests.backends.subjects import kill_server, settings_in
from tests.children import children, living, seen, settled_descriptors
from tests.conftest import Eventually

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(300)]
LOADING_BYTES = 40_000_000
CANARY = "zebrafinch-4711"


def key_of(manifest: Manifest) -> RuntimeKey:
    """Give a key with two small slots, and one thread, which does not spin for another."""
    # The model was not trained for vectors, so it has to be told how to make one of many.
    options = RuntimeOptions(512, 2, 64, 1, Engine(pooling="mean"))
    return RuntimeKey("llama_server", manifest.id, manifest.digest, options)


async def start(manifest: Manifest, folder: Path) -> LlamaRuntime:
    """Start the real server."""
    return await LlamaServer().start(
        key_of(manifest), manifest, settings_in(folder), lambda _part: None
    )


@pytest.mark.long
async def test_promises_are_kept(smollm2: Manifest, tmp_path: Path) -> None:
    """Every case is kept with a real engine, but for BOS and scores: this model has neither."""
    subject = Subject(
        LlamaServer(),
        key_of(smollm2),
        smollm2,
        settings_in(tmp_path, 20.0),
        kill_server,
        patience_s=5.0,
        case_timeout_s=120.0,
    )
    results = await examine(subject)
    assert failed(results) == [], table(results)
    others = {result.case.name: result.status for result in results if result.status != "kept"}
    nothing_to_do = ("one BOS", "documents are scored", "bad documents are refused")
    assert others == dict.fromkeys(nothing_to_do, "not applicable"), table(results)


async def test_a_chat_is_answered_and_not_logged(smollm2: Manifest, tmp_path: Path) -> None:
    """A conversation is continued from its cache, and its words are in no log."""
    runtime = await start(smollm2, tmp_path)
    try:
        question = Message("user", f"What is the capital of France? Mind {CANARY}.")
        request = GenerateRequest(
            smollm2.id, ChatPrompt((question,)), 48, sampling=Sampling(temperature=0.0)
        )
        prepared = await runtime.prepare(request)
        async with runtime.open(prepared, SlotUse(1, reuse=True)) as events:
            seen = [event async for event in events]
        answer = "".join(event.text for event in seen if isinstance(event, Delta))
        assert answer.strip()
        assert isinstance(seen[-1], Finished)
        turns = (question, Message("assistant", answer), Message("user", "And of Spain?"))
        more = await runtime.prepare(msgspec.structs.replace(request, prompt=ChatPrompt(turns)))
        async with runtime.open(more, SlotUse(1, reuse=True)) as events:
            started = await anext(events)
        assert isinstance(started, Started)
        assert started.cached_tokens >= len(prepared.tokens) - 1
        telemetry = await runtime.telemetry()
        assert telemetry.decode_tokens_per_s
        assert telemetry.rss_bytes
        assert telemetry.rss_bytes > smollm2.size_bytes / 2
    finally:
        await runtime.stop(5.0)
    assert CANARY not in _log(tmp_path)


async def test_a_cut_model_says_so(smollm2: Manifest, tmp_path: Path) -> None:
    """A file that ends too early fails to load with llama.cpp's reason and no path."""
    cut = tmp_path / "cut.gguf"
    _cut(Path(smollm2.path), cut)
    with pytest.raises(RoostError, match="corrupted or incomplete") as caught:
        await start(msgspec.structs.replace(smollm2, path=str(cut)), tmp_path)
    assert caught.value.failure.reason == "load_failed"
    assert str(tmp_path) not in caught.value.failure.message
    assert children() == []


async def test_a_cancelled_load_leaves_nothing(
    smollm2: Manifest, tmp_path: Path, eventually: Eventually
) -> None:
    """A load that nobody waits for any more is ended, also inside native code."""
    before = settled_descriptors()
    async with asyncio.TaskGroup() as tasks:
        loading = tasks.create_task(start(smollm2, tmp_path))
        await eventually(lambda: _largest_child_bytes() > LOADING_BYTES)
        loading.cancel()
    assert children() == []
    await eventually(lambda: psutil.Process().num_fds() == before)


def _largest_child_bytes() -> int:
    return max(seen(living(recursive=True), lambda one: one.memory_info().rss), default=0)


def _log(folder: Path) -> str:
    return (folder / "runtime.log").read_text()


def _cut(whole: Path, part: Path) -> None:
    with whole.open("rb") as file:
        part.write_bytes(file.read(5_000_000))


async def test_options_take_effect(smollm2: Manifest, tmp_path: Path) -> None:
    """KV of half the size, and an answer with it; what no wheel can be told fails the load."""
    engine = Engine(
        threads_batch=1,
        ubatch=32,
        key_type="q8_0",
        value_type="q8_0",
        flash_attention="on",
        gpu_layers=0,
        mmap="off",
    )
    plain = key_of(smollm2)
    key = msgspec.structs.replace(
        plain, options=msgspec.structs.replace(plain.options, engine=engine)
    )
    runtime = await LlamaServer().start(key, smollm2, settings_in(tmp_path), lambda _part: None)
    try:
        request = GenerateRequest(smollm2.id, TextPrompt("The capital of France is"), 8)
        prepared = await runtime.prepare(request)
        async with runtime.open(prepared, SlotUse(0, reuse=True)) as events:
            seen = [event async for event in events]
        assert isinstance(seen[-1], Finished)
        assert runtime.states is not None
        assert smollm2.kv is not None
        plan = KvPlan(512, 2, 64, engine.key_type, engine.value_type)
        cost = cost_of(smollm2.kv, plan)
        assert cost is not None
        assert cost.per_token <= runtime.states.token_bytes < cost.per_token * 1.5
    finally:
        await runtime.stop(5.0)
    for engine, why in (
        (Engine(arguments=("--numa", "x")), "llama_args are for a program"),
        (Engine(adapters=(ExtraFile(smollm2.path, ""),)), "load"),
    ):
        bad = msgspec.structs.replace(
            plain, options=msgspec.structs.replace(plain.options, engine=engine)
        )
        with pytest.raises(RoostError, match=why) as caught:
            await LlamaServer().start(bad, smollm2, settings_in(tmp_path), lambda _part: None)
        assert caught.value.failure.reason == "load_failed"
        assert str(tmp_path) not in caught.value.failure.message
    assert children() == []


async def test_contexts_share_weights_and_trim_their_own_past(
    smollm2: Manifest, tmp_path: Path
) -> None:
    """Two conversations in one process: each keeps what its next prompt begins with."""
    runtime = await start(smollm2, tmp_path)

    async def cached(tokens: tuple[int, ...], slot: int) -> int:
        request = GenerateRequest(smollm2.id, TokensPrompt(tokens), 1)
        prepared = await runtime.prepare(request)
        async with runtime.open(prepared, SlotUse(slot, reuse=True)) as events:
            seen = [event async for event in events]
        assert isinstance(seen[0], Started)
        return seen[0].cached_tokens

    try:
        one = tuple(range(1000, 1120))
        other = tuple(range(2000, 2090))
        assert await cached(one, 0) == 0
        assert await cached(other, 1) == 0
        # What differs is cut off, and the neighbour's past is another one's.
        assert await cached((*one[:70], *range(3000, 3040)), 0) == 70
        assert await cached((*other, 3000), 1) == len(other)
        assert await cached(one, 0) == 70
        # One process, so one model in memory.
        assert len(psutil.Process(runtime.pid).children(recursive=True)) == 1
    finally:
        await runtime.stop(5.0)
