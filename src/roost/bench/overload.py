"""WIRING: `make bench-overload`: `roost serve` at many times what it can do, and back.

Arrivals come in an open loop whose times are fixed in advance. Slots are scripted and exact, so
what is lost is lost by roost. Figures are ratios, and the calibration loop says what a millisecond
is worth here and now.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import process_time

import msgspec

from roost.bench.claims import (
    Check,
    Report,
    at_least,
    at_most,
    ms,
    none_of,
    quantile,
    table,
)
from roost.bench.drills.answers import Answer
from roost.bench.drills.arrivals import closed_loop, open_loop, open_steps
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.stage import Running, Stage, on_stage
from roost.bench.numbers import calibration
from roost.bench.processes import ends_by_term
from roost.gateway.loop import run

SLOTS, QUEUE = 4, 16
PIECES, GAP_MS = 5, 20.0
LEVELS = (1.0, 2.0, 5.0, 10.0)
GOODPUT_BAR, REFUSAL_BAR_MS, RECOVERY_BAR = 0.85, 5.0, 0.98
CALM, STORM = 0.7, 10.0
RECOVER_S = 5.0
BOUND_S = 900.0
WARM_SHARE = 0.2
REFUSER = "roost.bench.drills.refuser"


class Times(msgspec.Struct, frozen=True):
    """Seconds of each part."""

    level_s: float = 8.0
    calm_s: float = 5.0
    storm_s: float = 20.0
    after_s: float = 8.0


SHORT = Times(level_s=0.4, calm_s=0.4, storm_s=0.3, after_s=0.5)


class Level(msgspec.Struct, frozen=True):
    """One offered load; `goodput` is whole answers per second while it was offered."""

    times: float
    asked: int
    goodput: float
    refused: int
    other: int
    hinted: int
    refusal_p50_s: float
    refusal_p99_s: float
    refusal_due_p99_s: float
    served_p99_s: float
    lag_p99_s: float


class Load:
    """A server and what is asked of it."""

    def __init__(self, stage: Stage, server: Running) -> None:
        self._dice = random.Random(9)
        self._stage = stage
        self.server = server

    def chat(self, _number: int) -> Chat:
        """Ask for a tenth of a second of a slot."""
        return self._chat(self.server.port)

    def _chat(self, port: int) -> Chat:
        return Chat(port, self._stage.model, scripted(self._dice, PIECES, GAP_MS))

    async def floor(self, per_s: float, seconds: float) -> list[float]:
        """Seconds that refusals take at this rate where a server does nothing but refuse."""
        refuser = self._stage.run([sys.executable, "-u", "-m", REFUSER], "server")
        port = int((await refuser.says(r"refuses on (\d+)"))[1])
        answers = await open_loop(lambda _: self._chat(port), per_s, seconds)
        return [a.ended_s - a.sent_s for a in answers]

    async def capacity(self, seconds: float) -> float:
        """Measure whole answers per second when twice as many clients as slots ask in turn."""
        answers = await closed_loop(self.chat, 2 * SLOTS, seconds)
        return goodput(answers, min(a.due_s for a in answers), seconds)

    async def level(self, times: float, capacity: float, seconds: float) -> Level:
        """Offer so many times the capacity."""
        answers = await open_loop(self.chat, times * capacity, seconds)
        await self.server.quiet()
        refused = [a for a in answers if a.status == 429]
        served = [a.latency_s for a in answers if a.end == "complete"]
        waits = [a.ended_s - a.sent_s for a in refused]
        return Level(
            times,
            len(answers),
            goodput(answers, answers[0].due_s, seconds),
            len(refused),
            len(answers) - len(refused) - len(served),
            sum(a.retry_after.isdigit() for a in refused),
            quantile(waits, 0.5),
            quantile(waits, 0.99),
            quantile([a.latency_s for a in refused], 0.99),
            quantile(served, 0.99),
            quantile([a.lag_s for a in answers], 0.99),
        )


def goodput(answers: Sequence[Answer], begin_s: float, seconds: float) -> float:
    """Return whole answers per second while load was offered, its first fifth left out."""
    low, high = begin_s + WARM_SHARE * seconds, begin_s + seconds
    whole = sum(a.end == "complete" and low <= a.ended_s < high for a in answers)
    return whole / (high - low)


def recovery(answers: Sequence[Answer], back_s: float) -> list[float]:
    """Return the share that was served of what was due in each second after `back_s`."""
    after = [a for a in answers if a.due_s >= back_s]
    seconds: dict[int, list[bool]] = {}
    for answer in after:
        seconds.setdefault(int(answer.due_s - back_s), []).append(answer.end == "complete")
    return [sum(one) / len(one) for _, one in sorted(seconds.items())]


async def measure(stage: Stage, times: Times) -> Report:
    """Measure capacity, then every level, then the storm and what comes after."""
    flags = ("--slots", str(SLOTS), "--queue-length", str(QUEUE))
    server = stage.serve("server", *flags)
    await server.serves()
    load = Load(stage, server)
    await load.capacity(0.3)
    capacity = await load.capacity(times.level_s)
    await server.quiet()
    levels = [await load.level(level, capacity, times.level_s) for level in LEVELS]
    floor = await load.floor(LEVELS[-1] * capacity, times.level_s)
    steps = (
        (CALM * capacity, times.calm_s),
        (STORM * capacity, times.storm_s),
        (CALM * capacity, times.after_s),
    )
    answers = await open_steps(load.chat, steps)
    view = await server.settled()
    back_s = answers[0].due_s + times.calm_s + times.storm_s
    before = [a.end == "complete" for a in answers if a.due_s < answers[0].due_s + times.calm_s]
    curve = [share / (sum(before) / len(before)) for share in recovery(answers, back_s)]
    return _report(capacity, levels, floor, curve, view.held)


def _report(
    capacity: float, levels: list[Level], floor: list[float], curve: list[float], held: int
) -> Report:
    peak = max(capacity, *(level.goodput for level in levels))
    loop_ms = calibration(process_time)
    heads = (
        *("offered", "asked", "goodput", "of peak", "refused", "other", "p50 ms", "p99 ms"),
        *("p99 x calib", "from due", "client lag", "served p99"),
    )
    rows = [
        [
            *(f"{one.times:g}x", str(one.asked), f"{one.goodput:.1f}/s"),
            *(f"{one.goodput / peak:.3f}", str(one.refused), str(one.other)),
            *(ms(one.refusal_p50_s), ms(one.refusal_p99_s)),
            f"{1000 * one.refusal_p99_s / loop_ms:.2f}",
            *(ms(one.refusal_due_p99_s), ms(one.lag_p99_s), ms(one.served_p99_s)),
        ]
        for one in levels
    ]
    worst_ms = 1000 * levels[-1].refusal_p99_s
    late = next((n for n in range(len(curve)) if min(curve[n:]) >= RECOVERY_BAR), len(curve))
    checks = [
        at_least(f"goodput at {one.times:g}x over peak", one.goodput / peak, GOODPUT_BAR)
        for one in levels[1:]
    ]
    hinted = sum(one.hinted for one in levels)
    refused = sum(one.refused for one in levels)
    checks += [
        at_most("refusal at 10x, p99", worst_ms, REFUSAL_BAR_MS, " ms"),
        Check("every refusal says when to come back", hinted == refused, f"{hinted} of {refused}"),
        none_of("neither served nor refused", sum(one.other for one in levels)),
        at_most(f"back at {RECOVERY_BAR} of before after", late, RECOVER_S, " s"),
        Check("it came back at all", late < len(curve), f"{curve[-1]:.3f} of before at the end"),
        none_of("held afterwards", held),
    ]
    figures = {f"goodput_{one.times:g}x": one.goodput / peak for one in levels}
    figures |= {f"refusal_p99_ms_{one.times:g}x": 1000 * one.refusal_p99_s for one in levels}
    figures |= {"refusal_floor_p99_ms": 1000 * quantile(floor, 0.99)}
    figures |= {"capacity_per_s": capacity, "calibration_ms": loop_ms, "recovered_s": float(late)}
    ideal = 1000 * SLOTS / (PIECES * GAP_MS)
    tables = (
        f"capacity {capacity:.1f} per second, {capacity / ideal:.3f} of what {SLOTS} slots can do",
        f"queue {QUEUE}; calibration loop {loop_ms:.1f} ms; refusals from sending, all in ms",
        table(heads, rows),
        _floor_line(floor, levels[-1]),
        "served of what was due, over before, by second after the storm: "
        + " ".join(f"{share:.2f}" for share in curve),
    )
    return Report("overload", tables, figures, tuple(checks))


def _floor_line(floor: list[float], level: Level) -> str:
    p99_s = quantile(floor, 0.99)
    return (
        f"a server that only refuses, asked as often as at {level.times:g}x: "
        f"p50 {ms(quantile(floor, 0.5))} ms, p99 {ms(p99_s)} ms; "
        f"roost's p99 is {level.refusal_p99_s / max(1e-6, p99_s):.2f} of it"
    )


async def play(times: Times) -> Report:
    """Measure on a stage of its own."""
    return await on_stage(partial(measure, times=times), BOUND_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m roost.bench.overload", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a few seconds, for tests")
    parser.add_argument("--storm-s", type=float, default=Times().storm_s, help="seconds at 10x")
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    options = parser.parse_args(arguments)
    times = SHORT if options.short else Times(storm_s=options.storm_s)
    ends_by_term()
    report = run(play(times))
    sys.stdout.write(report.text() + "\n")
    if options.json:
        options.json.write_bytes(msgspec.json.encode(report))
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
