"""WIRING: `roost chaos`: faults done to a fleet that it starts, and which promises were kept."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    from argparse import Namespace

    from roost.bench.chaos.play import Plan
    from roost.bench.chaos.promises import Verdict
    from roost.bench.chaos.seen import Seen, Struck

DESCRIPTION = """\
Start a gateway and three nodes on this machine, ask them all the time, and meanwhile kill, stop,
drain and flood them, restart the gateway, fill its disk and take its port. Every promise of
GUARANTEES.md that such faults can try gets a verdict: kept, broken, or untried. Order and times
come out of --seed: the same seed is the same schedule. Nothing that runs already is touched; models
are scripted, so none is needed. Exit code 1: a promise was broken.
"""
SEEDS = 2**32
ROUNDS_MAX, PACE_MAX_S = 1000, 600.0


def main(arguments: list[str]) -> int:
    """Play a schedule; 1 if a promise was broken."""
    parsed = _parser().parse_args(arguments)
    from roost.bench.chaos.promises import verdicts
    from roost.bench.chaos.words import lines

    plan = _plan(parsed)
    if not parsed.json:
        print(f"seed {plan.seed}: {_schedule(plan)}", flush=True)
    if parsed.plan:
        return 0
    seen = _played(plan, quiet=parsed.json)
    found = verdicts(seen)
    if parsed.out:
        _keep(Path(parsed.out), plan, seen)
    if parsed.json:
        options.print_json(_json(plan, seen, found))
    else:
        print("\n".join(lines(seen, found)))
    return 1 if any(one.kept == "broken" for one in found) else 0


def _parser() -> options.Parser:
    made = options.Parser(prog="roost chaos", description=DESCRIPTION)
    add = made.add_argument
    add("--seed", type=int, metavar="N", help="the schedule's; by default another one each time")
    add("--only", default="", metavar="FAULT,…", help="these faults alone")
    add("--rounds", type=int, default=1, metavar="N", help="how often each fault (default: 1)")
    add("--pace", type=float, default=2.0, metavar="S", help="between faults, about (default: 2)")
    add("--rate", type=float, default=8.0, metavar="R", help="chats a second (default: 8)")
    add("--plan", action="store_true", help="print the schedule, and do nothing")
    add("--out", metavar="FILE", help="write all that was seen, every answer included")
    add("--json", action="store_true", help="print verdicts as one JSON object")
    return made


def _plan(parsed: Namespace) -> Plan:
    """Make the plan; `bad_request` for what is no fault or out of range."""
    from roost.bench.chaos.play import Plan
    from roost.bench.chaos.schedule import FAULTS

    wanted = [part.strip() for part in parsed.only.split(",") if part.strip()]
    if wrong := sorted(set(wanted) - set(FAULTS)):
        message = f"There is no fault {', '.join(wrong)}; there are {', '.join(FAULTS)}."
        raise fail("bad_request", message)
    if not 1 <= parsed.rounds <= ROUNDS_MAX:
        raise fail("bad_request", f"--rounds is from 1 to {ROUNDS_MAX}.")
    if not 0 < parsed.pace <= PACE_MAX_S:
        raise fail("bad_request", f"--pace is above 0 and at most {PACE_MAX_S:g} seconds.")
    if not 0 < parsed.rate <= 1000:
        raise fail("bad_request", "--rate is above 0 and at most 1000 chats a second.")
    faults = tuple(fault for fault in FAULTS if not wanted or fault in wanted)
    seed = random.randrange(SEEDS) if parsed.seed is None else parsed.seed
    return Plan(seed, faults, parsed.rounds, parsed.pace, parsed.rate)


def _schedule(plan: Plan) -> str:
    from roost.bench.chaos.words import planned

    rows = [(one.pause_s, one.fault, one.member, one.lasts_s) for one in plan.strikes]
    return f"{len(rows)} faults\n{planned(rows)}"


def _played(plan: Plan, *, quiet: bool) -> Seen:
    from roost.bench.chaos.play import play
    from roost.bench.chaos.words import struck
    from roost.bench.processes import ends_by_term
    from roost.gateway.loop import run

    def told(one: Struck) -> None:
        if not quiet:
            print(struck(one), flush=True)

    if sys.platform != "linux":
        raise fail("unsupported", "roost chaos needs Linux: it looks at processes in /proc.")
    ends_by_term()
    return run(play(plan, told))


def _keep(file: Path, plan: Plan, seen: Seen) -> None:
    import msgspec

    file.write_bytes(msgspec.json.encode({"plan": plan, "seen": seen}) + b"\n")


def _json(plan: Plan, seen: Seen, found: list[Verdict]) -> dict[str, object]:
    import msgspec

    told = {"plan": plan, "strikes": seen.strikes, "held": seen.held, "promises": found}
    data: dict[str, object] = msgspec.to_builtins(told)
    counts = {"chats": len(seen.spoken), "turns": sum(len(talk.read) for talk in seen.talked)}
    return {**data, **counts}
