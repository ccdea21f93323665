"""DECIDER: a run as tables of text, losses included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from roost.bench.loads import LOADS, Block
from roost.bench.numbers import Ratio, ratio_of_medians

if TYPE_CHECKING:
    import random

OURS, NOBODY, PEER = "roost", "direct", "smg"
BAR_CPU_RATIO, BAR_ADDED_P50_MS, BAR_HELP_RATIO = 0.8, 1.0, 4.0
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
    per_request = _mid(blocks, lambda b: b.counted.events / max(1, b.counted.requests))
    return [
        blocks[0].variant,
        f"{cpu_ms:.3f}",
        f"{_mid(blocks, lambda b: b.cpu_ms / b.calibration_ms):.4f}",
        f"{1000 * cpu_ms / per_request:.2f}" if per_request else "-",
        f"{_mid(blocks, lambda b: b.requests_per_s):.0f}",
        f"{_mid(blocks, lambda b: b.events_per_s):.0f}",
        added(lambda b: b.counted.first_p50_us),
        added(lambda b: b.counted.first_p99_us),
        added(lambda b: b.counted.total_p50_us),
        added(lambda b: b.counted.total_p99_us),
        str(sum(b.counted.failures for b in blocks)),
    ]


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
    ours, theirs = ([b.cpu_ms for b in of(blocks, load, who)] for who in (OURS, peer))
    return ratio_of_medians(ours, theirs, rng) if ours and theirs and min(theirs) > 0 else None


def ratios(blocks: Sequence[Block], variants: Sequence[str], rng: random.Random) -> str:
    """Render our CPU per request over every peer's, under every load."""
    lines = ["CPU per request, roost over …, with its 95 % interval"]
    for load in LOADS:
        for peer in variants:
            found = cpu_ratio(blocks, load.name, peer, rng)
            if peer not in {OURS, NOBODY} and found is not None:
                interval = f"{found.low:.2f} to {found.high:.2f}"
                lines.append(f"  {load.name:24} {peer:12} {found.value:.2f}  ({interval})")
    return "\n".join(lines)


def bars(blocks: Sequence[Block], help_ratio: float, rng: random.Random) -> list[Bar]:
    """Return the goals that this run can judge."""
    found = [Bar("`roost --help` over `python -c pass`", help_ratio, BAR_HELP_RATIO)]
    ours, bare = (of(blocks, LOADS[0].name, who) for who in (OURS, NOBODY))
    if ours and bare:
        middle = [_mid(who, lambda b: b.counted.first_p50_us) / 1000 for who in (ours, bare)]
        found.append(Bar("added p50 in ms at c=1", middle[0] - middle[1], BAR_ADDED_P50_MS))
    for load in LOADS:
        ratio = None if load.json else cpu_ratio(blocks, load.name, PEER, rng)
        if ratio is not None:
            name = f"CPU per request over {PEER}, {load.name}"
            found.append(Bar(name, ratio.value, BAR_CPU_RATIO))
    return found
