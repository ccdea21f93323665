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

from roost.sim import etas, policies
from roost.sim import tape as tape_format
from roost.sim.batch import Job, cores, killed, played
from roost.sim.claims.checkers import CHECKERS
from roost.sim.mutants.catalogue import CATALOGUE
from roost.sim.play import Played, play
from roost.sim.scenario import Scenario

DESCRIPTION = """\
Play scenarios with seeds: the machines of roost with a simulated network, clock and compute, under
faults. A claim that does not hold is told with the command that plays it again.
"""


def scenarios() -> dict[str, Scenario]:
    """Every scenario that is shipped, by name, with its recorded traffic where it has any."""
    folder = files("roost.sim") / "scenarios"
    return {
        file.name.removesuffix(".toml"): _with_tape(
            msgspec.convert(tomllib.loads(file.read_text("utf-8")), Scenario)
        )
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def _with_tape(scenario: Scenario) -> Scenario:
    if scenario.tape is None:
        return scenario
    name = f"{scenario.tape.name}.jsonl"
    text = (files("roost.sim") / "recorded" / name).read_text("utf-8")
    tape = msgspec.structs.replace(scenario.tape, requests=tape_format.read(name, text))
    return msgspec.structs.replace(scenario, tape=tape)


def spread(names: Sequence[str], seeds: int, first: int) -> Iterator[tuple[str, int]]:
    """Deal seeds out to scenarios by turns."""
    for index in range(seeds):
        yield names[index % len(names)], first + index // len(names)


def replay(run: Played) -> str:
    """The one command that plays this run again, with its log."""
    return f"python -m roost.sim.run --scenario {run.scenario} --seed {run.seed} --log"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what was asked for and report."""
    known = scenarios()
    options = _options(list(known)).parse_args(arguments)
    if options.claims:
        return _claims(known)
    if options.mutants:
        return _sweep(known, options.mutants, options.jobs)
    if options.etas:
        etas.tabulate(options.etas, etas.worlds(known))
        return 0
    if options.policies:
        policies.tabulate(options.policies)
        return 0
    names = [options.scenario] if options.scenario else list(known)
    seeds, first = (1, options.seed) if options.seed is not None else (options.seeds, 1)
    began = time.perf_counter()
    runs = []
    jobs = [Job(known[name], name, seed) for name, seed in spread(names, seeds, first)]
    for one in _logged(jobs) if options.log else played(jobs, options.jobs):
        runs.append(one)
        tell(one, verbose=options.seed is not None or options.verbose)
    return sum_up(runs, time.perf_counter() - began)


def _logged(jobs: Sequence[Job]) -> Iterator[Played]:
    return (play(job.scenario, job.name, job.seed, keep_lines=True) for job in jobs)


def _options(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("roost sim", description=DESCRIPTION)
    parser.add_argument("--seeds", type=int, default=500, help="how many runs, over all scenarios")
    parser.add_argument("--jobs", type=int, default=cores(), help="how many processes")
    parser.add_argument("--scenario", choices=names, help="only this scenario")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--log", action="store_true", help="print the event log")
    parser.add_argument("--verbose", action="store_true", help="a line for every run")
    parser.add_argument("--claims", action="store_true", help="list scenarios and checkers")
    parser.add_argument("--mutants", type=int, metavar="SEEDS", help="sweep defective machines")
    parser.add_argument("--etas", type=int, metavar="SEEDS", help="how good foretold waits are")
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


def _sweep(known: dict[str, Scenario], seeds: int, processes: int) -> int:
    """Say which seeds find each mutant; status 1 if one survives them all."""
    began, survived = time.perf_counter(), 0
    tried = range(1, seeds + 1)
    verdicts = killed(
        [
            Job(known[mutant.scenario], mutant.scenario, seed, place)
            for place, mutant in enumerate(CATALOGUE)
            for seed in tried
        ],
        processes,
    )
    for mutant in CATALOGUE:
        killers = [seed for seed, dead in zip(tried, verdicts, strict=False) if dead]
        survived += not killers
        shown = ", ".join(map(str, killers[:5])) or "SURVIVED"
        _say(f"{mutant.name:44} {mutant.checker:26} {len(killers):4} of {seeds}: {shown}")
    _say(
        f"{len(CATALOGUE)} mutants, {survived} survived {seeds} seeds each; "
        f"{time.perf_counter() - began:.0f} s"
    )
    return 1 if survived else 0


def tell(run: Played, *, verbose: bool) -> None:
    """Report one run: its log if it was kept, what it violated, how to see that again."""
    for line in run.lines:
        sys.stdout.write(line)
    for violation in run.violations:
        _say(f"VIOLATED {violation.checker}: {violation.what}")
    if run.violations:
        _say(f"replay: {replay(run)}")
    if verbose:
        _say(
            f"{run.scenario} seed {run.seed}: log {run.digest}, "
            f"{run.completed} of {run.requests} requests complete, "
            f"{run.events} events in {run.simulated_s:.0f} simulated s"
        )


def sum_up(runs: Sequence[Played], wall_s: float) -> int:
    """Report all runs together; the exit status."""
    failed = sum(bool(run.violations) for run in runs)
    scenarios_played = len({run.scenario for run in runs})
    simulated_h = sum(run.simulated_s for run in runs) / 3600
    requests = sum(run.requests for run in runs)
    _say(
        f"{len(runs)} runs of {scenarios_played} scenarios, {failed} with violations, "
        f"{requests} requests; {simulated_h:.2f} simulated hours in {wall_s:.1f} s: "
        f"{simulated_h / (wall_s / 3600):.0f} simulated hours per hour"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
