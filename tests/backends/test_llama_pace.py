"""A step takes about as long as it may: measured once, smaller where a machine is slow."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.backends.llama.prefills import PREFILLS_MIN, STEP_MIN, step_for
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.engine import Engine
from roost.core.model import RuntimeKey
from roost.core.request import GenerateRequest, TextPrompt
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in


@pytest.mark.parametrize(
    ("ms_per_token", "budget_ms", "most", "step"),
    [
        (4.2, 300, 256, 64),
        (4.69, 300, 256, 32),
        (1.0, 300, 256, 256),
        (1.2, 300, 256, 128),
        (0.0, 300, 256, 256),
        (1.0, 300, 200, 200),
        (1.6, 300, 200, 128),
        (1000.0, 300, 256, STEP_MIN),
        (1000.0, 300, 16, 16),
        (0.1, 60_000, 4096, 4096),
    ],
)
def test_steps_fit_their_budget(ms_per_token: float, budget_ms: int, most: int, step: int) -> None:
    """The largest power of two that fits, all that was asked for if that does, never too few."""
    assert step_for(ms_per_token, budget_ms, most) == step


def key(budget_ms: int) -> RuntimeKey:
    """Give a key with this budget and steps of 256 tokens."""
    found = key_of("llama_server", ctx=1024)
    engine = Engine(step_budget_ms=budget_ms)
    return msgspec.structs.replace(
        found, options=msgspec.structs.replace(found.options, engine=engine)
    )


async def steps(folder: Path, runtime: LlamaRuntime) -> tuple[int | None, list[int]]:
    """Give the steps that a runtime tells, and those of all programs that were started for it."""
    told = (await runtime.telemetry()).step_tokens
    await runtime.stop(2.0)
    log = (folder / "runtime.log").read_text()
    starts = [line for line in log.splitlines() if line.startswith("arguments: ")]
    words = [json.loads(line.partition(" ")[2]) for line in starts]
    return told, [int(one[one.index("--batch-size") + 1]) for one in words]


@pytest.mark.slow
async def test_a_slow_machine_takes_smaller_steps(tmp_path: Path) -> None:
    """Measured at the first load, which starts the program again; remembered for the next one."""
    manifest, settings = fake_manifest(tmp_path, prefill_ms=0.5), settings_in(tmp_path)
    progress: list[float] = []
    server = LlamaServer(str(FAKE))
    runtime = await server.start(key(50), manifest, settings, progress.append)
    assert await steps(tmp_path, runtime) == (64, [256, 64])
    assert progress == sorted(progress)
    known = msgspec.structs.replace(settings, step_tokens=64)
    again = await server.start(key(50), manifest, known, lambda _part: None)
    assert await steps(tmp_path, again) == (64, [256, 64, 64])


@pytest.mark.slow
async def test_a_quick_machine_takes_what_was_asked_for(tmp_path: Path) -> None:
    """One start, whether the steps are short enough or nobody cares."""
    manifest, settings = fake_manifest(tmp_path), settings_in(tmp_path)
    server = LlamaServer(str(FAKE))
    runtime = await server.start(key(300), manifest, settings, lambda _part: None)
    assert await steps(tmp_path, runtime) == (256, [256])
    runtime = await server.start(key(0), manifest, settings, lambda _part: None)
    assert await steps(tmp_path, runtime) == (256, [256, 256])


@pytest.mark.slow
async def test_prefills_of_a_machine_that_was_busy_at_the_load_say_more(tmp_path: Path) -> None:
    """A runtime tells which steps would fit, once it has seen enough; it goes on with its own."""
    manifest, settings = fake_manifest(tmp_path), settings_in(tmp_path)
    small = msgspec.structs.replace(settings, step_tokens=32)
    runtime = await LlamaServer(str(FAKE)).start(key(300), manifest, small, lambda _part: None)
    assert (await runtime.telemetry()).fitting_tokens is None
    for turn in range(PREFILLS_MIN):
        prompt = TextPrompt(f"{turn} " + "word " * 100)
        prepared = await runtime.prepare(GenerateRequest(runtime.key.model, prompt, max_tokens=1))
        async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
            async for _ in events:
                pass
    told = await runtime.telemetry()
    assert (told.step_tokens, told.fitting_tokens) == (32, 256)
    await runtime.stop(2.0)
