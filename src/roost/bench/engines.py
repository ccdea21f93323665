"""WIRING: `python -m roost.bench.engines`: the engines of this machine on their models.

Each model that is installed and can be run here, by the backend that `auto` takes for it: how long
it takes to load, what its process takes then, how fast it computes a prompt, and how fast it goes
on from there. One after the other, through the contract that a node uses, with the same tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec

from roost.backends.base import Runtime, SlotUse, StartSettings
from roost.backends.choosing import Subject
from roost.backends.registry import chosen, here, make
from roost.bench.claims import table
from roost.bench.numbers import calibration
from roost.core.choice import AUTO
from roost.core.events import Delta, Finished
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, Sampling, TokensPrompt
from roost.store.home import Home
from roost.store.models.registry import ModelStore

CTX, BATCH = 1024, 128
MB = 1_000_000


class Setup(msgspec.Struct, frozen=True):
    """How many tokens a prompt has and an answer, how often, and with how many threads."""

    prompt: int = 256
    tokens: int = 32
    rounds: int = 3
    threads: int = 0


class Row(msgspec.Struct, frozen=True):
    """One engine on one model; rates are tokens per second."""

    backend: str
    model: str
    load_s: float
    rss_mb: float
    prefill: float
    decode: float


async def measured(model: Manifest, backend: str, setup: Setup) -> Row:
    """Load a model, and have it answer."""
    options = RuntimeOptions(CTX, 1, BATCH, setup.threads, device="cpu")
    key = RuntimeKey(backend, model.id, model.digest, options)
    with tempfile.TemporaryDirectory() as folder:
        settings = StartSettings(folder, f"{folder}/log")
        began_s = perf_counter()
        runtime = await make(backend).start(key, model, settings, lambda _: None)
        load_s = perf_counter() - began_s
        try:
            rates = [
                await _answered(runtime, model, setup, number) for number in range(setup.rounds)
            ]
            told = await runtime.telemetry()
        finally:
            await runtime.stop(5.0)
    prefill, decode = (median(column) for column in zip(*rates, strict=True))
    return Row(backend, str(model.id), load_s, (told.rss_bytes or 0) / MB, prefill, decode)


async def _answered(
    runtime: Runtime, model: Manifest, setup: Setup, number: int
) -> tuple[float, float]:
    """Give the rates of a prompt and of its answer, measured where the tokens arrive."""
    dice = random.Random(number)
    tokens = tuple(dice.randrange(1, model.vocab_size) for _ in range(setup.prompt))
    request = GenerateRequest(
        *(model.id, TokensPrompt(tokens), setup.tokens),
        sampling=Sampling(temperature=0.0),
        ignore_eos=True,
        return_tokens=True,
    )
    prepared = await runtime.prepare(request)
    began_s = perf_counter()
    arrived_s: list[float] = []
    async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        async for event in events:
            if isinstance(event, Delta):
                arrived_s += [perf_counter()] * event.tokens
            elif isinstance(event, Finished):
                break
    first_s, last_s = arrived_s[0], arrived_s[-1]
    return setup.prompt / (first_s - began_s), (len(arrived_s) - 1) / (last_s - first_s)


async def measure(models: Sequence[Manifest], setup: Setup) -> list[Row]:
    """Measure every model that a real engine here runs."""
    rows = []
    for model in models:
        choice = chosen(AUTO, Subject(model.id, model.format, model.tasks), here())
        if choice.backend and model.vocab_size and not model.remote:
            rows.append(await measured(model, choice.backend, setup))
    return rows


def text(rows: Sequence[Row]) -> str:
    """Lay them out for people, the quickest to decode first."""
    heads = ("backend", "model", "load, s", "memory, MB", "prefill, tokens/s", "decode, tokens/s")
    cells = [
        [
            *(one.backend, one.model, f"{one.load_s:.1f}", f"{one.rss_mb:.0f}"),
            *(f"{one.prefill:.0f}", f"{one.decode:.1f}"),
        ]
        for one in sorted(rows, key=lambda one: -one.decode)
    ]
    return table(heads, cells)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, help="a ROOST_HOME with one model in many forms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args(argv)
    setup = Setup(rounds=arguments.rounds, threads=arguments.threads)
    before_ms = calibration(perf_counter)
    models = ModelStore(Home.open(Path(arguments.home))).list()
    rows = asyncio.run(measure(models, setup))
    sys.stdout.write(f"{text(rows)}\n")
    sys.stdout.write(f"calibration {before_ms:.1f} ms, then {calibration(perf_counter):.1f} ms\n")
    return int(not rows)


if __name__ == "__main__":
    sys.exit(main())
