"""DECIDER: a run as tables of text, losses included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from roost.bench.loads import LOADS, MANY, STEADY, Block
from roost.bench.numbers import Ratio, ratio_of_medians
from roost.bench.peers.deaths import Death

if TYPE_CHECKING:
    import random

OURS, NOBODY, PEER = "roost", "direct", "smg"
BAR_CPU_RATIO, BAR_ADDED_P50_MS, BAR_HELP_RATIO = 0.8, 1.0, 4.0
SMALL = 0.1
_COLUMNS = (
    *("variant", "CPU ms/req", "x calib", "CPU us/event", "req/s", "events/s"),
    *("first p50 +ms", "first p99 +ms", "total p50 +ms", "total p99 +ms", "failed"),
)


class Bar(msgspec.Struct, frozen=True):
    """One goal: what was measured, what it should be at most, and whether it is."""

    name: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.limit


def of(blocks: Sequence[Block], load: str, variant: str) -> list[Block]:
    """Select the blocks of one load and variant."""
    return [b for b in blocks if b.load == load and b.variant == variant]


def _mid(blocks: Sequence[Block], value: Callable[[Block], float]) -> float:
    return median(value(b) for b in blocks)


def row(blocks: Sequence[Block], bare: Sequence[Block]) -> list[str]:
    """Render one variant under one load; latencies are what it adds to asking the stub itself."""

    def added(value: Callable[[Block], float]) -> str:
        return f"{(_mid(blocks, value) - _mid(bare, value)) / 1000:+.3f}"

    cpu_ms = _mid(blocks, lambda b: b.cpu_ms)
    return [
        blocks[0].variant,
        f"{cpu_ms:.3f}",
        f"{_mid(blocks, lambda b: b.cpu_ms / b.calibration_ms):.4f}",
        _per_event(blocks),
        f"{_mid(blocks, lambda b: b.requests_per_s):.0f}",
        f"{_mid(blocks, lambda b: b.events_per_s):.0f}",
        added(lambda b: b.counted.first_p50_us),
        added(lambda b: b.counted.first_p99_us),
        added(lambda b: b.counted.total_p50_us),
        added(lambda b: b.counted.total_p99_us),
        str(sum(b.counted.failures for b in blocks)),
    ]


def _per_event(blocks: Sequence[Block]) -> str:
    """Say what an event costs in µs; those of answers that were not whole yet count too."""
    if not any(b.counted.events for b in blocks):
        return "-"
    cost = _mid(blocks, lambda b: b.cpu_ms * max(1, b.counted.requests) / max(1, b.counted.events))
    return f"{1000 * cost:.2f}"


def table(blocks: Sequence[Block], load: str, variants: Sequence[str]) -> str:
    """Render one load."""
    bare = of(blocks, load, NOBODY)
    rows = [row(of(blocks, load, v), bare) for v in variants if of(blocks, load, v)]
    widths = [max(len(line[i]) for line in (list(_COLUMNS), *rows)) for i in range(len(_COLUMNS))]
    lines = [_line(_COLUMNS, widths), _line(["-" * w for w in widths], widths)]
    return "\n".join([load, *lines, *(_line(r, widths) for r in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])


def cpu_ratio(blocks: Sequence[Block], load: str, peer: str, rng: random.Random) -> Ratio | None:
    """Return our CPU per request over a peer's, or None if one of them was not measured."""
    return _ratio(blocks, load, peer, lambda b: b.cpu_ms, rng)


def p99_ratio(blocks: Sequence[Block], load: str, peer: str, rng: random.Random) -> Ratio | None:
    """Return our 99th percentile up to the first byte over a peer's, or None without one."""
    return _ratio(blocks, load, peer, lambda b: b.counted.first_p99_us, rng)


def _ratio(
    blocks: Sequence[Block],
    load: str,
    peer: str,
    value: Callable[[Block], float],
    rng: random.Random,
) -> Ratio | None:
    ours, theirs = ([value(b) for b in of(blocks, load, who)] for who in (OURS, peer))
    return ratio_of_medians(ours, theirs, rng) if ours and theirs and min(theirs) > 0 else None


def ratios(blocks: Sequence[Block], variants: Sequence[str], rng: random.Random) -> str:
    """Render our CPU per request over every peer's, under every load."""
    lines = ["CPU per request, roost over …, with its 95 % interval"]
    for load in LOADS:
        for peer in variants:
            found = cpu_ratio(blocks, load.name, peer, rng)
            if peer not in {OURS, NOBODY} and found is not None:
                interval = f"{found.low:.2f} to {found.high:.2f}"
                lines.append(f"  {load.name:24} {peer:14} {found.value:.2f}  ({interval})")
    return "\n".join(lines)


_SIDES = (
    *("gateway", "CPU ms/request", "CPU us/event", "roost's CPU over its", "first byte p99 ms"),
    *("roost's p99 over its", "failed", "a stream whose server dies", "a chat after that"),
)


def side_by_side(
    blocks: Sequence[Block], fates: Sequence[Death], variants: Sequence[str], rng: random.Random
) -> str:
    """Render a table in Markdown: CPU at 16 connections, the rest at a fixed rate of streams.

    "failed" is what was not answered, or not in time, of all that was asked at that rate.
    """
    lines = [_cells(_SIDES), _cells(["---"] * len(_SIDES))]
    lines += [_cells(_side(blocks, fates, variant, rng)) for variant in variants]
    return "\n".join(lines)


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _side(
    blocks: Sequence[Block], fates: Sequence[Death], variant: str, rng: random.Random
) -> list[str]:
    many, steady = of(blocks, MANY, variant), of(blocks, STEADY, variant)
    fate = next((one for one in fates if one.variant == variant), None)
    ended = [fate.streams, fate.then] if fate else ["-", "-"]
    cpu_ms = _mid(many, lambda b: b.cpu_ms)
    p99_ms = _mid(steady, lambda b: b.counted.first_p99_us) / 1000
    failed = sum(b.counted.failures for b in steady)
    asked = failed + sum(b.counted.requests for b in steady)
    return [
        variant,
        f"{cpu_ms:.3f}",
        _per_event(many),
        _told(cpu_ratio(blocks, MANY, variant, rng), variant),
        f"{p99_ms:.2f}" if p99_ms else "-",
        _told(p99_ratio(blocks, STEADY, variant, rng), variant),
        f"{failed} of {asked}",
        *ended,
    ]


def _told(ratio: Ratio | None, variant: str) -> str:
    if ratio is None or variant == OURS:
        return "-"
    low, value, high = (
        f"{part:.2f}" if part >= SMALL else f"{part:.1g}"
        for part in (ratio.low, ratio.value, ratio.high)
    )
    return f"{value} ({low} to {high})"


def bars(blocks: Sequence[Block], help_ratio: float, rng: random.Random) -> list[Bar]:
    """Return the goals that this run can judge."""
    found = [Bar("`roost --help` over `python -c pass`", help_ratio, BAR_HELP_RATIO)]
    ours, bare = (of(blocks, LOADS[0].name, who) for who in (OURS, NOBODY))
    if ours and bare:
        middle = [_mid(who, lambda b: b.counted.first_p50_us) / 1000 for who in (ours, bare)]
        found.append(Bar("added p50 in ms at c=1", middle[0] - middle[1], BAR_ADDED_P50_MS))
    for load in LOADS:
        ratio = None if load.json or load.per_s else cpu_ratio(blocks, load.name, PEER, rng)
        if ratio is not None:
            name = f"CPU per request over {PEER}, {load.name}"
            found.append(Bar(name, ratio.value, BAR_CPU_RATIO))
    return found
