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
    from collections.abc import Callable

    from roost.bench.chaos.play import Plan
    from roost.bench.chaos.promises import Verdict
    from roost.bench.chaos.seen import Seen, Struck

DESCRIPTION = """\
Start a gateway and three nodes on this machine, ask them all the time, and meanwhile kill, stop,
drain and flood them, restart the gateway, fill its disk and take its port. Every promise of
GUARANTEES.md that such faults can try gets a verdict: kept, broken, or untried. Order and times
come out of --seed: the same seed is the same schedule. Nothing that runs already is touched; models
are scripted, so none is needed. With --minutes rounds go on for so long, of the faults that nobody
dies of, and what every process holds is compared, later with sooner. With --beside the faults that
apply are done to other gateways as well, each before three servers of roost, and their verdicts
stand beside. Exit code 1: a promise was broken, by roost itself.
"""
SEEDS = 2**32
PACE_MAX_S, MINUTES_MAX = 600.0, 10_080.0


def main(arguments: list[str]) -> int:
    """Play a schedule; 1 if a promise was broken."""
    parsed = _parser().parse_args(arguments)
    from roost.bench.chaos.columns import broken_lines, side_by_side
    from roost.bench.chaos.promises import verdicts
    from roost.bench.chaos.words import lines

    plan, names = _plan(parsed), _beside(parsed)
    if not parsed.json:
        print(f"seed {plan.seed}: {_schedule(plan)}", flush=True)
    if parsed.plan:
        if parsed.json:
            # Rounds that go on until the time is over have no end to print.
            strikes = None if plan.minutes else plan.strikes
            options.print_json({"plan": plan, "schedule": strikes})
        return 0
    seen = _played(plan, quiet=parsed.json)
    found = verdicts(seen)
    if parsed.out:
        _keep(Path(parsed.out), plan, seen)
    if not parsed.json:
        print("\n".join(lines(seen, found)))
    others = _others(parsed, plan, names)
    if parsed.json:
        beside = {"beside": others} if names else {}
        options.print_json({**_json(plan, seen, found), **beside})
    elif others:
        columns = {"roost": found, **others}
        print("\n".join(["", side_by_side(columns), *broken_lines(others)]))
    return 1 if any(one.kept == "broken" for one in found) else 0


def _parser() -> options.Parser:
    made = options.Parser(prog="roost chaos", description=DESCRIPTION)
    add = made.add_argument
    add("--seed", type=int, metavar="N", help="the schedule's; by default another one each time")
    add("--only", default="", metavar="FAULT,…", help="these faults alone")
    add("--rounds", type=int, metavar="N", help="how often each fault (default: 1)")
    add("--minutes", type=float, default=0.0, metavar="M", help="rounds for so long, and a watch")
    add("--pace", type=float, default=2.0, metavar="S", help="between faults, about (default: 2)")
    add("--rate", type=float, default=8.0, metavar="R", help="chats a second (default: 8)")
    add("--beside", default="", metavar="NAME,…", help="other gateways too, before servers; or all")
    add("--peers", type=Path, metavar="DIR", help="a virtual environment with such gateways")
    add("--plan", action="store_true", help="print the schedule, and do nothing")
    add("--out", metavar="FILE", help="write all that was seen, every answer included")
    add("--json", action="store_true", help="print verdicts as one JSON object")
    return made


def _plan(parsed: Namespace) -> Plan:
    """Make the plan; `bad_request` for what is no fault or out of range."""
    from roost.bench.chaos.play import ROUNDS_MAX, SOAK, Plan
    from roost.bench.chaos.schedule import FAULTS

    wanted = [part.strip() for part in parsed.only.split(",") if part.strip()]
    if wrong := sorted(set(wanted) - set(FAULTS)):
        message = f"There is no fault {', '.join(wrong)}; there are {', '.join(FAULTS)}."
        raise fail("bad_request", message)
    rounds = 1 if parsed.rounds is None else parsed.rounds
    if not 1 <= rounds <= ROUNDS_MAX:
        raise fail("bad_request", f"--rounds is from 1 to {ROUNDS_MAX}.")
    if not 0 <= parsed.minutes <= MINUTES_MAX:
        raise fail("bad_request", f"--minutes is above 0 and at most {MINUTES_MAX:g}.")
    if parsed.minutes and parsed.rounds is not None:
        raise fail("bad_request", "Rounds are counted by --rounds, or end after --minutes.")
    if parsed.minutes and parsed.beside:
        raise fail("bad_request", "Other gateways are tried by --rounds, and not for --minutes.")
    if parsed.minutes and "stampede" in wanted:
        raise fail("bad_request", "Each stampede needs a model of its own: --rounds, no --minutes.")
    if not 0 < parsed.pace <= PACE_MAX_S:
        raise fail("bad_request", f"--pace is above 0 and at most {PACE_MAX_S:g} seconds.")
    if not 0 < parsed.rate <= 1000:
        raise fail("bad_request", "--rate is above 0 and at most 1000 chats a second.")
    every = SOAK if parsed.minutes else FAULTS
    faults = tuple(fault for fault in FAULTS if fault in (wanted or every))
    seed = random.randrange(SEEDS) if parsed.seed is None else parsed.seed
    return Plan(seed, faults, rounds, parsed.pace, parsed.rate, minutes=parsed.minutes)


def _beside(parsed: Namespace) -> list[str]:
    """Name the other gateways; `bad_request` for what nobody knows."""
    from roost.bench.chaos.fronts import FRONTS

    if parsed.beside == "all":
        return list(FRONTS)
    wanted = [part.strip() for part in parsed.beside.split(",") if part.strip()]
    if wrong := sorted(set(wanted) - set(FRONTS)):
        message = f"No gateway {', '.join(wrong)} is known; there are {', '.join(FRONTS)}, and all."
        raise fail("bad_request", message)
    return wanted


def _others(parsed: Namespace, plan: Plan, names: list[str]) -> dict[str, list[Verdict]]:
    """Do the same to other gateways, one after the other; who is not installed is told."""
    from roost.bench.chaos.columns import front_verdicts
    from roost.bench.chaos.play import play_before
    from roost.bench.chaos.words import struck
    from roost.gateway.loop import run

    found = {}
    for name in names:
        if not parsed.json:
            print(f"\n{name}", flush=True)
        seen = run(play_before(plan, name, parsed.peers, _teller(struck, quiet=parsed.json)))
        if seen is not None:
            found[name] = front_verdicts(seen)
        elif not parsed.json:
            print("  is not installed, or does not answer", flush=True)
    return found


def _teller(words: Callable[[Struck], str], *, quiet: bool) -> Callable[[Struck], None]:
    def told(one: Struck) -> None:
        if not quiet:
            print(words(one), flush=True)

    return told


def _schedule(plan: Plan) -> str:
    from roost.bench.chaos.words import planned

    if plan.minutes:
        return f"{', '.join(plan.faults)}, again and again for {plan.minutes:g} minutes"
    rows = [(one.pause_s, one.fault, one.member, one.lasts_s) for one in plan.strikes]
    return f"{len(rows)} faults\n{planned(rows)}"


def _played(plan: Plan, *, quiet: bool) -> Seen:
    from roost.bench.chaos.play import play
    from roost.bench.chaos.words import struck
    from roost.bench.processes import ends_by_term
    from roost.gateway.loop import run

    if sys.platform != "linux":
        raise fail("unsupported", "roost chaos needs Linux: it looks at processes in /proc.")
    ends_by_term()
    return run(play(plan, _teller(struck, quiet=quiet)))


def _keep(file: Path, plan: Plan, seen: Seen) -> None:
    import msgspec

    file.write_bytes(msgspec.json.encode({"plan": plan, "seen": seen}) + b"\n")


def _json(plan: Plan, seen: Seen, found: list[Verdict]) -> dict[str, object]:
    import msgspec

    told = {"plan": plan, "strikes": seen.strikes, "held": seen.held, "promises": found}
    data: dict[str, object] = msgspec.to_builtins(told)
    counts = {"chats": len(seen.spoken), "turns": sum(len(talk.read) for talk in seen.talked)}
    return {**data, **counts}
