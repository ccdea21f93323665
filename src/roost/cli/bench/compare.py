"""WIRING: `roost bench compare`: two servers in turn, and the ratio of their figures."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.bench import flags as bench_flags

if TYPE_CHECKING:
    from roost.bench.load.compare import Compared

DESCRIPTION = """\
Play a load on two servers in blocks A B B A, and print the ratio of the one at --url over the one
at --against for every figure, with the interval that holds 95 of 100 resampled ratios. Each pair of
blocks has words of its own. A key goes to --url only.
"""


def main(arguments: list[str]) -> int:
    """Compare; 1 if one of them answered nothing."""
    made = bench_flags.parser("compare", DESCRIPTION)
    bench_flags.add_load(made)
    made.add_argument("--against", required=True, metavar="URL", help="the server to compare with")
    rounds = "times A B B A (default: 4)"
    made.add_argument("--rounds", type=int, default=4, metavar="N", help=rounds)
    parsed = made.parse_args(arguments)
    from roost.bench.load.compare import Side, compare
    from roost.gateway.loop import run
    from roost.gateway.upstream.targets import parse_target

    with bench_flags.refusing():
        gates = bench_flags.gates_of(parsed)
        plan = bench_flags.plan_of(parsed, bench_flags.load_of(parsed))
        if parsed.rounds < 1:
            raise ValueError("--rounds has to be at least 1")
        sides = (
            Side(parse_target(f"against={parsed.against}", 1)),
            Side(*bench_flags.target_of(parsed)),
        )
    told = run(compare(sides, plan, parsed.rounds, shlex.join(arguments)))
    if parsed.json:
        options.print_json(told)
    else:
        print("\n".join(lines(told)))
    held = bench_flags.told_broken(gates, told.second[-1].figures)
    answered = all(any(one.figures.ok for one in side) for side in (told.first, told.second))
    return 0 if held and answered else 1


def lines(told: Compared) -> list[str]:
    """Say it for people, losses first."""
    from statistics import median

    from roost.bench.claims import table
    from roost.bench.load.gates import seen

    rows = []
    for name, ratio in told.ratios.items():
        theirs, ours = (
            median(value for one in side if (value := seen(name, one.figures)) is not None)
            for side in (told.first, told.second)
        )
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
        rows.append([name, f"{theirs:.3g}", f"{ours:.3g}", f"{ratio.value:.3f}", interval])
    first, second = told.lost["first"], told.lost["second"]
    heads = ("figure", "against", "url", "ratio", "95 of 100")
    said = f"{len(told.first)} blocks each; not answered whole: against {first}, url {second}"
    return [said, *(table(heads, rows).splitlines() if rows else ["no figure is known of both"])]
