"""WIRING: `roost bench sweep`: one load after the other, each heavier than the one before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.bench import flags as bench_flags

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from roost.bench.load.levels import Step
    from roost.bench.load.plan import Closed, Open

DESCRIPTION = """\
Play a load at one level after the other: --rates of open loops, or --levels of users who ask again
and again. With --stop-reject-rate it ends at the first level whose share of refusals reaches that.
"""
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


def main(arguments: list[str]) -> int:
    """Sweep; 1 if a bound was broken at any level, or nothing was answered."""
    made = bench_flags.parser("sweep", DESCRIPTION)
    made.add_argument("--rates", metavar="R,R,…", help="requests a second of open loops")
    made.add_argument("--levels", metavar="N,N,…", help="users of closed loops")
    most = "ends a level of users; 0 is none (default: 0)"
    made.add_argument("--requests", type=int, default=0, metavar="N", help=most)
    rest = "seconds between levels (default: 0)"
    made.add_argument("--cooldown", type=float, default=0.0, metavar="S", help=rest)
    share = "end where so many are refused"
    made.add_argument("--stop-reject-rate", type=float, default=2.0, metavar="X", help=share)
    parsed = made.parse_args(arguments)
    from roost.bench.load.levels import Where, sweep
    from roost.gateway.loop import run

    with bench_flags.refusing():
        loads = loads_of(parsed)
        plan = bench_flags.plan_of(parsed, loads[0])
        gates = bench_flags.gates_of(parsed)
        where = Where(*bench_flags.target_of(parsed), parsed.cooldown)
    watched = sys.stderr.isatty() and not parsed.json
    steps = run(sweep(where, plan, loads, parsed.stop_reject_rate, shown if watched else quiet))
    if parsed.json:
        levels = [{"level": step.level, **step.result.flat()} for step in steps]
        options.print_json({"levels": levels})
    else:
        print("\n".join(lines(steps)))
    held = [bench_flags.told_broken(gates, step.result.figures) for step in steps]
    return 0 if all(held) and any(step.result.figures.ok for step in steps) else 1


def loads_of(parsed: Namespace) -> list[Open | Closed]:
    """Make a load of each level; `ValueError` for none, for both kinds and for what is no level."""
    from roost.bench.load.plan import Closed, Open

    if (parsed.rates is None) == (parsed.levels is None):
        raise ValueError("one of --rates and --levels says what is swept")
    text = parsed.rates or parsed.levels or ""
    try:
        levels = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError("levels are numbers with commas between them") from None
    if not all(0 < level < float("inf") for level in levels) or parsed.cooldown < 0:
        raise ValueError("levels have to be above 0, and --cooldown not below it")
    if parsed.rates is not None:
        arrivals, burst, most = parsed.arrivals, parsed.burst, parsed.users_max
        return [Open(rate, parsed.duration, arrivals, burst, most) for rate in levels]
    if any(level != int(level) for level in levels) or parsed.requests < 0:
        raise ValueError("--levels are whole users, and --requests not below 0")
    return [Closed(int(users), parsed.requests, parsed.duration) for users in levels]


def lines(steps: Sequence[Step]) -> list[str]:
    """Say it for people, latencies in ms."""
    from roost.bench.drills.report import table

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
