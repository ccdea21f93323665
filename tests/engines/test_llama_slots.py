"""The real llama.cpp with all slots in use: who comes begins, and copied weights say the same."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.base import SlotUse
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.events import Delta, Finished
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.node.machine import machine
from roost.node.machine.cores import cores_to_stay_on
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.backends.subjects import settings_in
from tests.children import children
from tests.smollm2 import smollm2_path

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]
SLOTS, ROUNDS, TOKENS = 8, 20, 16
CORES = cores_to_stay_on(machine.processor(), machine.cores())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The real model, as it is installed."""
    store = ModelStore(Home.open(tmp_path_factory.mktemp("home")))
    return store.add_file(smollm2_path(), link=True)


async def start(model: Manifest, folder: Path, copy_max_bytes: int) -> LlamaRuntime:
    """Start the real server with all its slots."""
    settings = msgspec.structs.replace(settings_in(folder), copy_max_bytes=copy_max_bytes)
    key = RuntimeKey("llama_server", model.id, model.digest, RuntimeOptions(512, SLOTS, 64))
    return await LlamaServer().start(key, model, settings, lambda _part: None)


async def say(runtime: LlamaRuntime, slot: int, order: list[str]) -> str:
    """Complete a text, and note when it speaks first and when it has ended."""
    prompt, greedy = TextPrompt(f"Bird {slot} flew over the river"), Sampling(temperature=0.0)
    request = GenerateRequest(model=runtime.key.model, prompt=prompt, sampling=greedy)
    request = msgspec.structs.replace(request, max_tokens=TOKENS, ignore_eos=True)
    prepared = await runtime.prepare(request)
    text = ""
    async with runtime.open(prepared, SlotUse(slot, reuse=True)) as events:
        async for event in events:
            if isinstance(event, Delta):
                if not text:
                    order.append("speaks")
                text += event.text
            elif isinstance(event, Finished):
                order.append("ends")
    return text


async def test_nobody_on_a_free_slot_waits_for_another_to_end(
    model: Manifest, tmp_path: Path
) -> None:
    """Twenty times eight at once: all have begun to speak before the first has ended.

    With threads that are started on demand one in eight waited for as long as the others took, in
    every sixth round.
    """
    runtime = await start(model, tmp_path, 0)
    try:
        for _ in range(ROUNDS):
            order: list[str] = []
            await asyncio.gather(*(say(runtime, slot, order) for slot in range(SLOTS)))
            assert order == ["speaks"] * SLOTS + ["ends"] * SLOTS
    finally:
        await runtime.stop(5.0)
    assert children() == []


async def test_weights_that_are_copied_are_no_pages_of_a_file_and_say_the_same(
    model: Manifest, tmp_path: Path
) -> None:
    """What a node may copy it copies, and the answers are the same to the last letter."""
    said, mapped = [], []
    for copy_max_bytes in (0, model.size_bytes):
        runtime = await start(model, tmp_path, copy_max_bytes)
        try:
            said.append([await say(runtime, slot, []) for slot in range(2)])
            mapped.append((await runtime.telemetry()).mapped_bytes or 0)
        finally:
            await runtime.stop(5.0)
    assert said[0] == said[1]
    assert mapped[1] < model.size_bytes / 2 < model.size_bytes <= mapped[0]


async def test_threads_that_compute_stay_each_on_its_core(model: Manifest, tmp_path: Path) -> None:
    """In prefill and decode alike; those that talk go where there is room."""
    settings = msgspec.structs.replace(settings_in(tmp_path), cores=CORES)
    key = RuntimeKey("llama_server", model.id, model.digest, RuntimeOptions(512, SLOTS, 64))
    runtime = await LlamaServer().start(key, model, settings, lambda _part: None)
    try:
        await say(runtime, 0, [])
        (program,) = psutil.Process(runtime.pid).children()
        where = {frozenset(os.sched_getaffinity(thread.id)) for thread in program.threads()}
        # Of a machine where threads move anyway, only that they may.
        assert where == {frozenset([core]) for core in CORES} | {frozenset(machine.cores().ids)}
    finally:
        await runtime.stop(2.0)
