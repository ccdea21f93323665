"""WIRING: `python -m roost.bench.hosted`: a hosted library beside the same library called directly.

Both have the model in a process of their own, the same tokens to go on from and the same number of
threads, and are asked in turn, in blocks A B B A: one stream, and four. The library alone takes
four in turn, as a host does; what it could do with a batch of four that begin and end together is
told as well, and is no bar. Processor time of a token is told beside the rates: others on the
machine lengthen a second, and much less a millisecond of work.
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
from time import perf_counter, process_time
from typing import NamedTuple

import msgspec

from roost.backends.base import Prepared, SlotUse, StartSettings
from roost.backends.hosted.frames import Load
from roost.backends.hosted.runtime import HostedRuntime
from roost.backends.processes.huge_pages import with_huge_pages
from roost.backends.registry import HOSTED, library, look, make, traits
from roost.bench.bare import Work
from roost.bench.claims import Check, Report, at_least, table
from roost.bench.numbers import Ratio, calibration, interleaved, ratio_of_medians
from roost.bench.processes import cpu_s
from roost.config.read import read_environment
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
    """How often A B B A is played, how long an answer is, and with how many threads.

    Both are started `starts` times: two equal processes differ by a tenth, by where in memory their
    weights have come to lie. `alike` gives the library alone what else a host gives its child.
    """

    rounds: int = 3
    tokens: int = 64
    threads: int = 1
    starts: int = 3
    alike: bool = False


class Both(NamedTuple):
    """One model, hosted and bare, ready for work."""

    model: Manifest
    runtime: HostedRuntime
    bare: asyncio.subprocess.Process


class Block(NamedTuple):
    """One block: tokens a second, and milliseconds of processor that a token took.

    `library_ms` is of the process that has the library, `node_ms` of the one that asked it.
    """

    rate: float
    library_ms: float
    node_ms: float


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
        assert isinstance(runtime, HostedRuntime), "nothing else is measured here"
        # In a session of its own, as the host is: schedulers share a busy machine out by sessions.
        environ = read_environment()
        if setup.alike:
            environ |= with_huge_pages(environ)
        bare = await asyncio.create_subprocess_exec(
            *argv,
            stdin=pipe,
            stdout=pipe,
            limit=LINE_MAX_BYTES,
            start_new_session=True,
            env=environ,
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


async def _said(runtime: HostedRuntime, prepared: Prepared, slot: int) -> int:
    async with runtime.open(prepared, SlotUse(slot, reuse=False)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event.usage.completion_tokens
    return 0


async def compared(both: Both, setup: Setup) -> dict[str, list[Block]]:
    """Give every block, by who and how many."""
    blocks: dict[str, list[Block]] = {}
    for count in (1, STREAMS):
        names = ["alone", "hosted", *(["batch"] if count > 1 else [])]
        for who in names:
            await _played(both, setup, who, count)
        for who in interleaved(names, setup.rounds):
            block = await _played(both, setup, who, count)
            blocks.setdefault(f"{who} {count}", []).append(block)
    return blocks


async def _played(both: Both, setup: Setup, who: str, count: int) -> Block:
    """Have one of them say what it is asked for, and account for it."""
    hosted = who == "hosted"
    pid = both.runtime.pid if hosted else both.bare.pid
    before = cpu_s(pid), process_time()
    if hosted:
        took_s = await hosted_s(both, count, setup.tokens)
    else:
        work = Work(prompts(both.model, count), setup.tokens, who == "batch")
        took_s = await _asked(both.bare, work)
    node_s = process_time() - before[1]
    tokens = count * setup.tokens
    return Block(tokens / took_s, (cpu_s(pid) - before[0]) * 1000 / tokens, node_s * 1000 / tokens)


def judged(model: Manifest, backend: str, blocks: dict[str, list[Block]]) -> Report:
    """Compare what came of one model."""
    rates, work, figures, checks = [], [], {}, list[Check]()
    for count in (1, STREAMS):
        alone, hosted = blocks[f"alone {count}"], blocks[f"hosted {count}"]
        ratio = _ratio(hosted, alone, "rate")
        batch = blocks.get(f"batch {count}", ())
        told = [f"{_median(who, 'rate'):.1f}" if who else "" for who in (alone, hosted, batch)]
        rates.append([backend, str(count), *told[:2], _told(ratio), told[2]])
        figures[f"{count} hosted over alone"] = ratio.value
        checks.append(at_least(f"{backend}, streams: {count}", ratio.value, BAR))
        spent = [f"{_median(who, 'library_ms'):.2f}" for who in (alone, hosted)]
        more = _ratio(hosted, alone, "library_ms")
        work.append([backend, str(count), *spent, _told(more), f"{_median(hosted, 'node_ms'):.2f}"])
        figures[f"{count} work of hosted over alone"] = more.value
    heads = ("library", "streams", "alone, tokens/s", "hosted", "ratio, 95 of 100", "a batch")
    costs = ("library", "streams", "alone, CPU ms/token", "hosted", "ratio, 95 of 100", "node")
    tables = table(heads, rates), table(costs, work)
    return Report(f"hosted {model.id}", tables, figures, tuple(checks))


def _median(blocks: Sequence[Block], what: str) -> float:
    return float(median(getattr(block, what) for block in blocks))


def _ratio(ours: Sequence[Block], theirs: Sequence[Block], what: str) -> Ratio:
    ours_s, theirs_s = ([getattr(block, what) for block in who] for who in (ours, theirs))
    return ratio_of_medians(ours_s, theirs_s, random.Random(5))


def _told(ratio: Ratio) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


async def measure(models: Sequence[Manifest], setup: Setup) -> list[Report]:
    """Compare every model, one after the other."""
    return [
        judged(model, name, await _blocks(model, name, setup))
        for model in models
        for name in HOSTED
        if model.format in _formats(name)
    ]


async def _blocks(model: Manifest, backend: str, setup: Setup) -> dict[str, list[Block]]:
    """Give the blocks of all starts."""
    blocks: dict[str, list[Block]] = {}
    for _ in range(setup.starts):
        async with started(model, backend, setup) as both:
            for who, more in (await compared(both, setup)).items():
                blocks.setdefault(who, []).extend(more)
    return blocks


def _formats(backend: str) -> tuple[str, ...]:
    """Say what a library reads that is installed here and has a loop of its own."""
    if not look()[backend].usable or not hasattr(
        importlib.import_module(_adapter(backend)), "bare"
    ):
        return ()
    return next(trait.formats for trait in traits() if trait.name == backend)


def _adapter(backend: str) -> str:
    """Name the module that drives a library."""
    return library(backend).loader.partition(":")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell; the status says whether every bar was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, help="a ROOST_HOME with models that are folders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--alike", action="store_true", help="huge pages for the library alone too")
    arguments = parser.parse_args(argv)
    models = ModelStore(Home.open(Path(arguments.home))).list()
    wanted = vars(arguments)
    setup = Setup(**{name: wanted[name] for name in Setup.__struct_fields__})
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
