"""WIRING: `make bench-gateway`: what a gateway costs, side by side in one run.

The gateway has core 0; the load generator and the stub server share core 1, both in C, so that they
are not what is measured. Every variant stays up while blocks alternate A B … B A; figures are
medians of blocks, and every ratio has a bootstrap interval. CPU is the scheduler's count for the
gateway's processes and threads; it moves less under noise than latency does. At the end every
variant stands before a server that is killed in mid-stream.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from roost.bench import report
from roost.bench.loads import EVENTS, GAP_US, LOADS, Block, Counted, Load
from roost.bench.numbers import calibration, interleaved
from roost.bench.peers import asking, deaths
from roost.bench.peers.deaths import Death
from roost.bench.peers.entries import PEERS
from roost.bench.peers.starting import version
from roost.bench.processes import (
    GATEWAY_CORE,
    LOAD_CORE,
    cpu_s,
    end,
    ends_by_term,
    first_line,
    pinned,
    python,
    wait_answering,
)
from roost.bench.variants import VARIANTS, Running, Scene

QUICK_BLOCK_S, LONG_BLOCK_S = 0.35, 5.0
QUICK_ROUNDS, LONG_ROUNDS = 2, 4
WARM_S = 0.2
START_S = 60.0


def say(text: str = "") -> None:
    """Write a line of the report."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def build(folder: Path) -> Path:
    """Compile the load generator; exits with a hint where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        sys.exit("bench: a C compiler is needed for the load generator (for example: gcc)")
    program = folder / "wire_load"
    source = Path(__file__).with_name("wire_load.c")
    subprocess.run([compiler, "-O2", "-o", program, source], check=True)
    return program


class Bench:
    """One run: what is up, and how to load it."""

    def __init__(self, program: Path, scenes: dict[bool, Scene]) -> None:
        self._program = program
        self._scenes = scenes
        self._running: dict[tuple[str, bool], Running] = {}

    def start(self, names: Sequence[str], stack: ExitStack) -> dict[str, str]:
        """Start variants in front of both stubs; return what was missing or did not answer."""
        missing: dict[str, str] = {}
        for name in names:
            for paced, scene in self._scenes.items():
                running = VARIANTS[name](scene)
                if running is None:
                    missing[name] = "not installed"
                    continue
                stack.callback(running.stop)
                self._running[name, paced] = running
        for (name, _), running in self._running.items():
            if not wait_answering(running.port, self._scenes[True].key, START_S):
                missing[name] = f"did not answer within {START_S:g} s"
        return missing

    def settings(self, name: str) -> str:
        """Return what a variant was told."""
        return self._running[name, True].settings

    def block(self, name: str, load: Load, seconds: float) -> Block:
        """Load one variant for some seconds."""
        running = self._running[name, load.paced]
        loop_ms = calibration(time.process_time)
        before = cpu_s(running.process.pid) if running.process else 0.0
        counted = self._load(running.port, load, seconds)
        used_s = (cpu_s(running.process.pid) if running.process else 0.0) - before
        cpu_ms = 1000 * used_s / max(1, counted.requests)
        return Block(name, load.name, counted, cpu_ms, loop_ms)

    def _load(self, port: int, load: Load, seconds: float) -> Counted:
        key, shape = self._scenes[load.paced].key, "json" if load.json else "stream"
        kind = ["rate", str(port), str(load.per_s)] if load.per_s else []
        words = kind or ["load", str(port), str(load.connections)]
        process = pinned([str(self._program), *words, str(seconds), key, shape], LOAD_CORE)
        try:
            line = first_line(process, seconds + 10)
        finally:
            end(process)
        return msgspec.json.decode(line, type=Counted)


@contextmanager
def stubs(program: Path, folder: Path, peers: Path | None) -> Iterator[dict[bool, Scene]]:
    """Run the stub twice: with paced events and flat out."""
    key = secrets.token_hex(16)
    with ExitStack() as stack:
        scenes = {}
        for paced in (True, False):
            gap_us = GAP_US if paced else 0
            port = stub(program, (EVENTS, gap_us), stack)
            own = folder / ("paced" if paced else "flat")
            own.mkdir()
            scenes[paced] = Scene(port, own, key, gap_us, peers)
        yield scenes


def stub(program: Path, numbers: Sequence[int], stack: ExitStack) -> int:
    """Start the stub with so many events, so far apart, and when it dies; return its port."""
    process = pinned([str(program), "stub", "0", *map(str, numbers)], LOAD_CORE)
    stack.callback(end, process)
    return msgspec.json.decode(first_line(process, 5), type=dict[str, int])["port"]


def died(name: str, program: Path, scene: Scene) -> Death | None:
    """Stand a variant before a server of its own, and see what becomes of streams when that dies.

    None for a variant that brings its own server along, and for one that did not answer.
    """
    with ExitStack() as stack:
        port = stub(program, deaths.STUB, stack)
        folder = scene.folder / f"{name}-dies"
        folder.mkdir()
        folder.chmod(0o755)
        running = VARIANTS[name](Scene(port, folder, scene.key, deaths.GAP_US, scene.peers))
        if running is None:
            return None
        stack.callback(running.stop)
        if running.behind is not None or not wait_answering(running.port, scene.key, START_S):
            return None
        return asyncio.run(asking.seen(name, running.port, scene.key))


def help_ratio(times: int = 5) -> float:
    """Return how many times longer `roost --help` takes than Python doing nothing."""
    commands = ([python(), "-m", "roost", "--help"], [python(), "-c", "pass"])
    took = [[_timed(command) for _ in range(times)] for command in commands]
    return min(took[0]) / min(took[1])


def _timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    about = (__doc__ or "").partition(": ")[2]
    parser = argparse.ArgumentParser(prog="roost bench gateway", description=about)
    parser.add_argument("--long", action="store_true", help="more and longer blocks (minutes)")
    parser.add_argument("--rounds", type=int, help="rounds of A B … B A per load")
    parser.add_argument("--block-s", type=float, help="seconds per block")
    parser.add_argument("--peers", type=Path, help="a virtual environment with other gateways")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), help="only these, and direct")
    parser.add_argument("--json", type=Path, help="also write every block to this file")
    parser.add_argument("--strict", action="store_true", help="fail if a goal is missed")
    return parser.parse_args(arguments)


def measure(
    bench: Bench, names: Sequence[str], loads: Sequence[Load], rounds: int, block_s: float
) -> list[Block]:
    """Run all blocks of all loads."""
    blocks = []
    for load in loads:
        for name in names:
            bench.block(name, load, WARM_S)
        blocks += [bench.block(name, load, block_s) for name in interleaved(names, rounds)]
    return blocks


def run(options: argparse.Namespace) -> list[report.Bar]:
    """Measure, print, and return the goals with what came of them."""
    rounds = options.rounds or (LONG_ROUNDS if options.long else QUICK_ROUNDS)
    block_s = options.block_s or (LONG_BLOCK_S if options.long else QUICK_BLOCK_S)
    wanted = ["direct", *(n for n in options.only or VARIANTS if n != "direct")]
    loads = [load for load in LOADS if load.quick or options.long]
    load_before = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # nginx starts as root here and there, and then works as somebody else.
        folder.chmod(0o755)
        program = build(folder)
        scenes = stack.enter_context(stubs(program, folder, options.peers))
        bench = Bench(program, scenes)
        missing = bench.start(wanted, stack)
        names = [name for name in wanted if name not in missing]
        blocks = measure(bench, names, loads, rounds, block_s)
        settings = {name: bench.settings(name) for name in names}
        fates = [found for name in names if (found := died(name, program, scenes[True]))]
    if options.json:
        options.json.write_bytes(msgspec.json.encode(blocks))
    versions = {name: version(name, options.peers) for name in names if name in PEERS}
    say(
        f"{os.cpu_count()} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after;"
        f" gateway on core {GATEWAY_CORE}, C stub and client on core {LOAD_CORE};"
        f" {2 * rounds} blocks of {block_s:g} s each; {EVENTS} events {GAP_US} us apart if paced"
    )
    for name, words in {**settings, **missing}.items():
        say(f"  {name:12} {words}" + (f"; {versions[name]}" if versions.get(name) else ""))
    for load in loads:
        say("\n" + report.table(blocks, load.name, names))
    # The interval is resampled; the same blocks give the same interval.
    dice = random.Random(0)
    say("\n" + report.ratios(blocks, names, dice) + "\n")
    say(report.side_by_side(blocks, fates, names, random.Random(0)) + "\n")
    return report.bars(blocks, help_ratio(), dice)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the goals come last."""
    options = parse(arguments)
    ends_by_term()
    bars = run(options)
    for bar in bars:
        say(
            f"{'met   ' if bar.met else 'MISSED'} {bar.name}: {bar.value:.2f} (at most {bar.limit})"
        )
    return int(options.strict and not all(bar.met for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
