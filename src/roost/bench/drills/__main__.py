"""WIRING: `python -m roost.bench.drills`: run drills, print what they found, fail if one did."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Protocol

import msgspec

from roost.bench.claims import Report
from roost.bench.drills import (
    aborts,
    deaths,
    drain,
    failover,
    outlive,
    slow_client,
    stampede,
    sweep,
    ties,
    unequal,
)
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Stage, many_calls, on_stage
from roost.bench.numbers import calibration
from roost.bench.processes import ends_by_term
from roost.gateway.loop import run


class Drill(Protocol):
    """Does something on a stage, and says what came of it."""

    def __call__(self, stage: Stage, plan: Plan) -> Awaitable[Report]:
        """Do it."""
        ...


DRILLS: dict[str, Drill] = {
    "sweep-one": sweep.one_server,
    "sweep-three": sweep.three_servers,
    "ties": ties.servers,
    "failover-nodes": failover.nodes,
    "failover-servers": failover.servers,
    "unequal": unequal.nodes,
    "slow-client-served": slow_client.served,
    "slow-client-upstream": slow_client.upstream,
    "deaths": deaths.nodes,
    "drain-nodes": drain.nodes,
    "drain-servers": drain.servers,
    "stampede": stampede.nodes,
    "outlive": outlive.nodes,
    "aborts-nodes": aborts.nodes,
    "aborts-servers": aborts.servers,
}
REAL: dict[str, Drill] = {
    "sweep-one": sweep.one_server,
    "deaths": deaths.nodes,
    "outlive": outlive.nodes,
}


async def play(drill: Drill, plan: Plan, real: Path | None = None) -> Report:
    """Run one drill on a stage of its own."""
    many_calls()
    return await on_stage(partial(drill, plan=plan), plan.bound_s, real)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drills that are named, or all; status 1 if a claim of one did not hold."""
    parser = argparse.ArgumentParser(prog="python -m roost.bench.drills", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="DRILL", help=", ".join({**DRILLS, **REAL}))
    parser.add_argument("--short", action="store_true", help="seconds in place of a minute")
    parser.add_argument("--real", type=Path, metavar="GGUF", help="drills on llama.cpp instead")
    parser.add_argument("--json", type=Path, help="also write every report to this file")
    options = parser.parse_args(arguments)
    known = REAL if options.real else DRILLS
    if wrong := set(options.names) - set(known):
        parser.error(f"no such drill: {', '.join(sorted(wrong))}")
    ends_by_term()
    sys.stdout.write(f"calibration loop {calibration(process_time):.1f} ms\n")
    reports = []
    for name in options.names or known:
        report = run(play(known[name], Plan(options.short), options.real))
        sys.stdout.write(f"\n{name}\n{report.text()}\n")
        sys.stdout.flush()
        reports.append(report)
    if options.json:
        options.json.write_bytes(msgspec.json.encode(reports))
    return 0 if all(report.passed for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
