"""WIRING: one load after the other, each heavier than the one before, played and told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.bench import flags as bench_flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from roost.bench.load.levels import Step
    from roost.bench.load.plan import Closed, Open

HEADS = (
    "level",
    "ok",
    "shed",
    "failed",
    "TTFT p50",
    "p95",
    "p99",
    "e2e p99",
    "tokens/s",
    "goodput",
)


def played(
    parsed: Namespace,
    loads_of: Callable[[Namespace], Sequence[Open | Closed]],
    more: Callable[[Sequence[Step]], tuple[dict[str, object], list[str]]] = lambda _: ({}, []),
) -> int:
    """Play and tell; 1 if a bound was broken at any level, or nothing was answered.

    `more` is what else is told of all levels: fields for the JSON object, and lines for people.
    """
    from roost.bench.load.levels import Where, sweep
    from roost.gateway.loop import run

    with bench_flags.refusing():
        bench_flags.check_numbers(parsed)
        loads = loads_of(parsed)
        plan = bench_flags.plan_of(parsed, loads[0])
        gates = bench_flags.gates_of(parsed)
        where = Where(*bench_flags.target_of(parsed), parsed.cooldown)
    watched = sys.stderr.isatty() and not parsed.json
    steps = run(sweep(where, plan, loads, parsed.stop_reject_rate, shown if watched else quiet))
    fields, last = more(steps)
    if parsed.json:
        levels = [{"level": step.level, **step.result.flat()} for step in steps]
        options.print_json({**fields, "levels": levels})
    else:
        print("\n".join([*lines(steps), *last]))
    held = [bench_flags.told_broken(gates, step.result.figures) for step in steps]
    return 0 if all(held) and any(step.result.figures.ok for step in steps) else 1


def lines(steps: Sequence[Step]) -> list[str]:
    """Say it for people, latencies in ms."""
    from roost.bench.claims import table

    return table(HEADS, [_row(step) for step in steps]).splitlines()


def _row(step: Step) -> list[str]:
    from roost.bench.load.gates import seen

    told = step.result.figures
    names = ("p50_ttft_ms", "p95_ttft_ms", "p99_ttft_ms", "p99_e2e_ms", "tokens_per_s")
    values = (seen(name, told) for name in (*names, "goodput_per_s"))
    figures = ["?" if value is None else f"{value:.4g}" for value in values]
    return [f"{step.level:g}", str(told.ok), str(told.shed), str(told.failed), *figures]


def shown(step: Step) -> None:
    """Tell whoever watches that a level is over."""
    told = step.result.figures
    counts = f"{told.ok} ok, {told.shed} shed, {told.failed} failed"
    print(f"{step.level:g}: {counts}", file=sys.stderr, flush=True)


def quiet(_: Step) -> None:
    """Tell nobody."""
