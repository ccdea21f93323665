"""WIRING: `roost bench capacity`: the most users that a server carries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.bench import flags as bench_flags
from roost.cli.bench.levels import lines as rows
from roost.cli.bench.levels import quiet, shown

if TYPE_CHECKING:
    from roost.bench.load.levels import Capacity, Step

DESCRIPTION = """\
Look for the most users who can ask again and again: up to where a tenth is refused (admission), and
up to where errors, refusals or waiting are too many (slo; --fail-on sets other bounds for it), and
up to where the server is full by its own word or loses a quarter and refuses none (physical).
Levels are doubled until all are broken, and what lies between is halved, each level played
--repeats times. Nobody knows the capacity of a server whose highest level broke nothing.
"""


def main(arguments: list[str]) -> int:
    """Search; 1 if nothing was answered at all."""
    made = bench_flags.parser("capacity", DESCRIPTION)
    most = "users at most (default: 64)"
    made.add_argument("--users-most", type=int, default=64, metavar="N", help=most)
    ends = "requests of a level, two of each user at least (default: 16)"
    made.add_argument("--requests", type=int, default=16, metavar="N", help=ends)
    often = "plays of a fine level (default: 3)"
    made.add_argument("--repeats", type=int, default=3, metavar="N", help=often)
    step = "how fine (default: 1)"
    made.add_argument("--refine-step", type=int, default=1, metavar="N", help=step)
    bench_flags.add_rest(made)
    look = "between looks at how full it is (default: 2)"
    made.add_argument("--stats-poll-interval-s", type=float, default=2.0, metavar="S", help=look)
    parsed = made.parse_args(arguments)
    from roost.bench.load.levels import BOUNDS, PHYSICAL, Where, capacity
    from roost.bench.load.plan import Closed
    from roost.bench.load.search import Search
    from roost.gateway.loop import run

    with bench_flags.refusing():
        bench_flags.check_numbers(parsed)
        if parsed.requests < 1:
            raise ValueError("--requests has to be at least 1")
        if not 0 < parsed.stats_poll_interval_s < float("inf"):
            raise ValueError("--stats-poll-interval-s has to be above 0")
        gates = bench_flags.gates_of(parsed)
        bounds = {**BOUNDS, **({"slo": gates} if gates else {})}
        search = Search((*bounds, PHYSICAL), parsed.users_most, parsed.repeats, parsed.refine_step)
        plan = bench_flags.plan_of(parsed, Closed(1, parsed.requests, parsed.duration))
        where = Where(*bench_flags.target_of(parsed), parsed.cooldown, parsed.stats_poll_interval_s)
    watched = sys.stderr.isatty() and not parsed.json
    told = run(capacity(where, plan, search, bounds, shown if watched else quiet))
    if parsed.json:
        levels = [_level(step) for step in told.steps]
        options.print_json({"users": told.users, "unbroken": told.unbroken, "levels": levels})
    else:
        print("\n".join(lines(told)))
    return 0 if any(step.result.figures.ok for step in told.steps) else 1


def _level(step: Step) -> dict[str, object]:
    pressure = {"sessions_pct": step.pressure.sessions_pct, "kv_pct": step.pressure.kv_pct}
    return {"level": step.level, "pressure": pressure, **step.result.flat()}


def lines(told: Capacity) -> list[str]:
    """Say it for people."""
    said = [
        f"{name}: at least {users} users" if name in told.unbroken else f"{name}: {users} users"
        for name, users in told.users.items()
    ]
    return [*rows(told.steps), *said]
