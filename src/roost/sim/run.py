"""SHELL: `python -m roost.sim.run`: plays scenarios with seeds, tells how to replay a failure.

Exit status 0 when every claim held, 1 when one did not, 2 when the arguments make no sense.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files

import msgspec

from roost.sim import policies
from roost.sim.catalogue import CATALOGUE, found
from roost.sim.checkers import CHECKERS
from roost.sim.play import Played, play
from roost.sim.scenario import Scenario

DESCRIPTION = """\
Play scenarios with seeds: the machines of roost with a simulated network, clock and compute, under
faults. A claim that does not hold is told with the command that plays it again.
"""


def scenarios() -> dict[str, Scenario]:
    """Every scenario that is shipped, by name."""
    folder = files("roost.sim") / "scenarios"
    return {
        file.name.removesuffix(".toml"): msgspec.convert(
            tomllib.loads(file.read_text("utf-8")), Scenario
        )
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def spread(names: Sequence[str], seeds: int, first: int) -> Iterator[tuple[str, int]]:
    """Deal seeds out to scenarios by turns."""
    for index in range(seeds):
        yield names[index % len(names)], first + index // len(names)


def replay(played: Played) -> str:
    """The one command that plays this run again, with its log."""
    return f"python -m roost.sim.run --scenario {played.scenario} --seed {played.seed} --log"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what was asked for and report."""
    known = scenarios()
    options = _options(list(known)).parse_args(arguments)
    if options.claims:
        return _claims(known)
    if options.mutants:
        return _sweep(known, options.mutants)
    if options.policies:
        policies.tabulate(options.policies)
        return 0
    names = [options.scenario] if options.scenario else list(known)
    seeds, first = (1, options.seed) if options.seed is not None else (options.seeds, 1)
    began = time.perf_counter()
    runs = []
    for name, seed in spread(names, seeds, first):
        runs.append(play(known[name], name, seed, keep_lines=options.log))
        tell(runs[-1], verbose=options.seed is not None or options.verbose)
    return sum_up(runs, time.perf_counter() - began)


def _options(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("roost sim", description=DESCRIPTION)
    parser.add_argument("--seeds", type=int, default=200, help="how many runs, over all scenarios")
    parser.add_argument("--scenario", choices=names, help="only this scenario")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--log", action="store_true", help="print the event log")
    parser.add_argument("--verbose", action="store_true", help="a line for every run")
    parser.add_argument("--claims", action="store_true", help="list scenarios and checkers")
    parser.add_argument("--mutants", type=int, metavar="SEEDS", help="sweep defective machines")
    parser.add_argument("--policies", type=int, metavar="SEEDS", help="compare routing policies")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _claims(known: dict[str, Scenario]) -> int:
    for name, scenario in known.items():
        _say(f"scenario  {name:26} {scenario.claim}")
    for checker in CHECKERS:
        _say(f"checker   {checker.name:26} {checker.claim}")
    return 0


def _sweep(known: dict[str, Scenario], seeds: int) -> int:
    """Say which seeds find each mutant; status 1 if one survives them all."""
    survived = 0
    for mutant in CATALOGUE:
        killers = list(found(mutant, known, range(1, seeds + 1)))
        survived += not killers
        shown = ", ".join(map(str, killers[:5])) or "SURVIVED"
        _say(f"{mutant.name:44} {mutant.checker:26} {len(killers):4} of {seeds}: {shown}")
    _say(f"{len(CATALOGUE)} mutants, {survived} survived {seeds} seeds each")
    return 1 if survived else 0


def tell(played: Played, *, verbose: bool) -> None:
    """Report one run: its log if it was kept, what it violated, how to see that again."""
    for line in played.lines:
        sys.stdout.write(line)
    for violation in played.violations:
        _say(f"VIOLATED {violation.checker}: {violation.what}")
    if played.violations:
        _say(f"replay: {replay(played)}")
    if verbose:
        _say(
            f"{played.scenario} seed {played.seed}: log {played.digest}, "
            f"{played.completed} of {played.requests} requests complete, "
            f"{played.events} events in {played.simulated_s:.0f} simulated s"
        )


def sum_up(runs: Sequence[Played], wall_s: float) -> int:
    """Report all runs together; the exit status."""
    failed = [played for played in runs if played.violations]
    simulated_h = sum(played.simulated_s for played in runs) / 3600
    requests = sum(played.requests for played in runs)
    _say(
        f"{len(runs)} runs, {len(failed)} with violations, {requests} requests; "
        f"{simulated_h:.2f} simulated hours in {wall_s:.1f} s: "
        f"{simulated_h / (wall_s / 3600):.0f} simulated hours per hour"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
