"""WIRING: `roost bench sweep`: one load after the other, each heavier than the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli.bench import flags as bench_flags
from roost.cli.bench.levels import played

if TYPE_CHECKING:
    from argparse import Namespace

    from roost.bench.load.plan import Closed, Open

DESCRIPTION = """\
Play a load at one level after the other: --rates of open loops, or --levels of users who ask again
and again. With --stop-reject-rate it ends at the first level whose share of refusals reaches that.
"""


def main(arguments: list[str]) -> int:
    """Sweep; 1 if a bound was broken at any level, or nothing was answered."""
    made = bench_flags.parser("sweep", DESCRIPTION)
    made.add_argument("--rates", metavar="R,R,…", help="requests a second of open loops")
    made.add_argument("--levels", metavar="N,N,…", help="users of closed loops")
    most = "ends a level of users, who ask twice at least; 0 is none (default: 0)"
    made.add_argument("--requests", type=int, default=0, metavar="N", help=most)
    bench_flags.add_rest(made)
    share = "end where so many are refused"
    made.add_argument("--stop-reject-rate", type=float, default=2.0, metavar="X", help=share)
    parsed = made.parse_args(arguments)
    return played(parsed, loads_of)


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
    if not all(0 < level < float("inf") for level in levels):
        raise ValueError("levels have to be above 0")
    if parsed.rates is not None:
        arrivals, burst, most = parsed.arrivals, parsed.burst, parsed.users_max
        return [Open(rate, parsed.duration, arrivals, burst, most) for rate in levels]
    if any(level != int(level) for level in levels) or parsed.requests < 0:
        raise ValueError("--levels are whole users, and --requests not below 0")
    return [Closed(int(users), parsed.requests, parsed.duration) for users in levels]
