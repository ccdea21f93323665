"""WIRING: `python -m roost.bench.hosted`: a hosted library beside the same library called directly.

Both have the model in a process of their own, the same tokens to go on from and the same number of
threads, and are asked in turn, in blocks A B B A: one stream, and four. The library alone takes
four in turn, as a host does; what it could do with a batch of four that begin and end together is
told as well, and is no bar.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import msgspec

from roost.backends.base import Prepared, Runtime, SlotUse, StartSettings
from roost.backends.hosted.frames import Load
from roost.backends.registry import HOSTED, look, make, traits
from roost.bench.bare import Work
from roost.bench.claims import Check, Report, at_least, table
from roost.bench.numbers import calibration, interleaved, ratio_of_medians
from roost.core.events import Finished
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, Sampling, TokensPrompt
from roost.store.home import Home
from roost.store.models.registry import ModelStore

STREAMS = 4
CTX, BATCH = 512, 128
PROMPT_TOKENS = 24
LINE_MAX_BYTES = 1_048_576
BAR = 0.95


class Setup(msgspec.Struct, frozen=True):
    """How often A B B A is played, how long an answer is, and with how many threads."""

    rounds: int = 3
    tokens: int = 64
    threads: int = 1


class Both(NamedTuple):
    """One model, hosted and bare, ready for work."""

    model: Manifest
    runtime: Runtime
    bare: asyncio.subprocess.Process


def prompts(model: Manifest, count: int) -> tuple[tuple[int, ...], ...]:
    """Give prompts of one length, always the same."""
    dice = random.Random(count)
    most = max(2, model.vocab_size)
    return tuple(tuple(dice.randrange(1, most) for _ in range(PROMPT_TOKENS)) for _ in range(count))


@asynccontextmanager
async def started(model: Manifest, backend: str, setup: Setup) -> AsyncIterator[Both]:
    """Load a model twice."""
    options = RuntimeOptions(CTX, STREAMS, BATCH, setup.threads, device="cpu")
    key = RuntimeKey(backend, model.id, model.digest, options)
    pipe = asyncio.subprocess.PIPE
    argv = (sys.executable, "-P", "-m", "roost.bench.bare", _adapter(backend))
    with tempfile.TemporaryDirectory() as folder:
        settings = StartSettings(folder, f"{folder}/log")
        runtime = await make(backend).start(key, model, settings, lambda _: None)
        # In a session of its own, as the host is: schedulers share a busy machine out by sessions.
        bare = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, limit=LINE_MAX_BYTES, start_new_session=True
        )
        try:
            await _asked(bare, Load(model.path, CTX, STREAMS, BATCH, setup.threads, "cpu"))
            yield Both(model, runtime, bare)
        finally:
            bare.kill()
            await bare.wait()
            await runtime.stop(5.0)


async def _asked(bare: asyncio.subprocess.Process, order: Load | Work) -> float:
    assert bare.stdin is not None, "it was started with a pipe"
    assert bare.stdout is not None, "it was started with a pipe"
    bare.stdin.write(msgspec.json.encode(order) + b"\n")
    line = await bare.stdout.readline()
    if not line:
        raise RuntimeError("the library alone has ended")
    return float(line)


async def hosted_s(both: Both, count: int, tokens: int) -> float:
    """Time so many streams at once through the host."""
    ready = []
    for prompt in prompts(both.model, count):
        sampling = Sampling(temperature=0.0)
        request = GenerateRequest(
            *(both.model.id, TokensPrompt(prompt), tokens), sampling=sampling, ignore_eos=True
        )
        ready.append(await both.runtime.prepare(request))
    began_s = perf_counter()
    said = await asyncio.gather(
        *(_said(both.runtime, prepared, slot) for slot, prepared in enumerate(ready))
    )
    took_s = perf_counter() - began_s
    assert said == [tokens] * count, f"{said} tokens came"
    return took_s


async def _said(runtime: Runtime, prepared: Prepared, slot: int) -> int:
    async with runtime.open(prepared, SlotUse(slot, reuse=False)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event.usage.completion_tokens
    return 0


async def compared(both: Both, setup: Setup) -> dict[str, list[float]]:
    """Give tokens per second of every block, by who and how many."""
    rates: dict[str, list[float]] = {}

    async def played(who: str, count: int) -> float:
        if who == "hosted":
            return await hosted_s(both, count, setup.tokens)
        work = Work(prompts(both.model, count), setup.tokens, who == "batch")
        return await _asked(both.bare, work)

    for count in (1, STREAMS):
        names = ["alone", "hosted", *(["batch"] if count > 1 else [])]
        for who in names:
            await played(who, count)
        for who in interleaved(names, setup.rounds):
            rate = count * setup.tokens / await played(who, count)
            rates.setdefault(f"{who} {count}", []).append(rate)
    return rates


def judged(model: Manifest, backend: str, rates: dict[str, list[float]]) -> Report:
    """Compare what came of one model."""
    rows, figures, checks = [], {}, list[Check]()
    for count in (1, STREAMS):
        alone, hosted = rates[f"alone {count}"], rates[f"hosted {count}"]
        ratio = ratio_of_medians(hosted, alone, random.Random(5))
        batch = rates.get(f"batch {count}")
        rows.append(
            [
                *(backend, str(count), f"{median(alone):.1f}", f"{median(hosted):.1f}"),
                f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})",
                f"{median(batch):.1f}" if batch else "",
            ]
        )
        figures[f"{count} hosted over alone"] = ratio.value
        checks.append(at_least(f"{backend}, streams: {count}", ratio.value, BAR))
    heads = ("library", "streams", "alone, tokens/s", "hosted", "ratio, 95 of 100", "a batch")
    return Report(f"hosted {model.id}", (table(heads, rows),), figures, tuple(checks))


async def measure(models: Sequence[Manifest], setup: Setup) -> list[Report]:
    """Compare every model, one after the other."""
    reports = []
    for model in models:
        for name in HOSTED:
            if model.format in _formats(name):
                async with started(model, name, setup) as both:
                    reports.append(judged(model, name, await compared(both, setup)))
    return reports


def _formats(backend: str) -> tuple[str, ...]:
    """Say what a library reads that is installed here and has a loop of its own."""
    if not look()[backend].usable or not hasattr(
        importlib.import_module(_adapter(backend)), "bare"
    ):
        return ()
    return next(trait.formats for trait in traits() if trait.name == backend)


def _adapter(backend: str) -> str:
    """Name the module that drives a library."""
    loader: str = importlib.import_module(f"roost.backends.{backend}").LIBRARY.loader
    return loader.partition(":")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell; the status says whether every bar was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, help="a ROOST_HOME with models that are folders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(argv)
    models = ModelStore(Home.open(Path(arguments.home))).list()
    setup = Setup(arguments.rounds, arguments.tokens, arguments.threads)
    before_ms = calibration(perf_counter)
    reports = asyncio.run(measure(models, setup))
    if not reports:
        sys.stdout.write("no model there is a folder that a library here reads\n")
        return 1
    for report in reports:
        sys.stdout.write(f"{report.text()}\n")
    sys.stdout.write(f"calibration {before_ms:.1f} ms, then {calibration(perf_counter):.1f} ms\n")
    return int(not all(report.passed for report in reports))


if __name__ == "__main__":
    sys.exit(main())
