"""WIRING: `roost bench stress`: a ramp of users, up to where a server refuses most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli.bench import flags as bench_flags
from roost.cli.bench.levels import played

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from roost.bench.load.levels import Step
    from roost.bench.load.plan import Closed

DESCRIPTION = """\
Let more and more users ask again and again: --step of them, then twice as many, up to
--max-concurrency, and no further than the first level at which so large a share was refused. That
level is the knee. Refusals are what is looked for, and no failure.
"""
LEVELS_MAX = 1000


def main(arguments: list[str]) -> int:
    """Ramp; 1 if a bound was broken at any level, or nothing was answered."""
    made = bench_flags.parser("stress", DESCRIPTION)
    most = "users at most (default: 32)"
    made.add_argument("--max-concurrency", type=int, default=32, metavar="N", help=most)
    more = "users more at each level (default: 4)"
    made.add_argument("--step", type=int, default=4, metavar="N", help=more)
    ends = "requests of a level, two of each user at least (default: 16)"
    made.add_argument("--requests-per-step", type=int, default=16, metavar="N", help=ends)
    share = "refused where it ends (default: 0.5)"
    made.add_argument("--stop-reject-rate", type=float, default=0.5, metavar="X", help=share)
    bench_flags.add_rest(made)
    parsed = made.parse_args(arguments)
    share_max = parsed.stop_reject_rate

    def told(steps: Sequence[Step]) -> tuple[dict[str, object], list[str]]:
        """Name the knee."""
        found = knee(steps, share_max)
        return {"knee": found}, [said(found, steps)]

    return played(parsed, loads_of, told)


def loads_of(parsed: Namespace) -> list[Closed]:
    """Make the load of each level; `ValueError` for levels that are none."""
    from roost.bench.load.plan import Closed

    if not 1 <= parsed.step <= parsed.max_concurrency:
        raise ValueError("--step has to be at least 1, and --max-concurrency not below it")
    if parsed.max_concurrency > LEVELS_MAX * parsed.step:
        raise ValueError(f"more than {LEVELS_MAX} levels: give a larger --step")
    if parsed.requests_per_step < 1:
        raise ValueError("--requests-per-step has to be at least 1")
    if not 0 < parsed.stop_reject_rate <= 1:
        raise ValueError("--stop-reject-rate has to be above 0, and 1 at most")
    levels = range(parsed.step, parsed.max_concurrency + 1, parsed.step)
    return [Closed(users, parsed.requests_per_step, parsed.duration) for users in levels]


def knee(steps: Sequence[Step], share: float) -> int | None:
    """Return the first level whose share of refusals reached that; None where none did."""
    from roost.bench.load.gates import seen

    refused = ((step, seen("reject_rate", step.result.figures) or 0.0) for step in steps)
    return next((int(step.level) for step, rate in refused if rate >= share), None)


def said(found: int | None, steps: Sequence[Step]) -> str:
    """Say where the knee is."""
    if found is None:
        return f"no knee up to {steps[-1].level:g} users"
    return f"knee: {found} users"
