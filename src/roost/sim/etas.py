"""SHELL: `python -m roost.sim.run --etas SEEDS`: how good the waiting times are that are foretold.

What each request is told when it begins to wait is held against how long it then waited.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from roost.fleet.effects import Effect, Waiting
from roost.sim.gateway.front import Front
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.parts import FrontParts
from roost.sim.play import Parts, Stage
from roost.sim.policies import EQUAL, UNEQUAL, percentile
from roost.sim.scenario import Machines, Scenario, Traffic
from roost.sim.world import World

CLOSE = 0.3
"""A wait is foretold well if it is off by less than this share of what it was."""
NOTABLE_S = 2.0

_BASE = Traffic(rate_per_s=8.0, turns=(1, 1), words=(40, 300), max_tokens=(8, 60))


def _world(machines: tuple[Machines, ...], traffic: Traffic = _BASE, **changes: float) -> Scenario:
    return Scenario("", 120.0, machines, msgspec.structs.replace(traffic, **changes))


def worlds(known: Mapping[str, Scenario]) -> dict[str, Scenario]:
    """Crowded fleets: made traffic, and recorded traffic on a quarter of the machines."""
    made = {
        "equal, 1.1 times too much": _world(EQUAL),
        "equal, twice too much": _world(EQUAL, rate_per_s=15.0),
        "unequal": _world(UNEQUAL, rate_per_s=9.0),
        "one answer in ten long": _world(EQUAL, rate_per_s=6.0, long_answers=0.1),
        "ten tenants": _world(EQUAL, rate_per_s=10.0, tenants=10),
        "three classes": _world(EQUAL, rate_per_s=10.0, agent=0.3, bulk=0.3),
        "two slots": _world((Machines(count=1),), rate_per_s=1.2),
    }
    recorded = {
        name: msgspec.structs.replace(one, machines=(Machines(count=1, slots=4),), faults=())
        for name, one in known.items()
        if one.tape is not None and one.tape.name.startswith("azure")
    }
    return made | recorded | {"flood": known["flood"]}


class Noting(Front):
    """A gateway that notes what was foretold to whom first."""

    def __init__(self, world: World, parts: FrontParts, ledger: Ledger) -> None:
        super().__init__(world, parts, ledger)
        self.told: dict[str, tuple[float, float | None]] = {}

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Waiting):
            self.told.setdefault(effect.request, (self._world.now, effect.eta_s))
        super()._perform(effect)


def waits(scenario: Scenario, name: str, seed: int) -> list[tuple[float, float | None]]:
    """Seconds waited and seconds foretold (None where nothing was) of all who got a place."""
    stage = Stage(scenario, name, seed, Parts(front=Noting), keep_lines=False)
    stage.play()
    assert isinstance(stage.front, Noting), "it was asked for"
    found = []
    for request, trace in stage.history.traces.items():
        told = stage.front.told.get(request)
        if told is not None and trace.opened:
            found.append((trace.opened[0].at_s - told[0], told[1]))
    return found


def share_close(pairs: list[tuple[float, float | None]]) -> float:
    """The share of those that were foretold something that was foretold well; 0 for none."""
    known = [(took_s, told_s) for took_s, told_s in pairs if told_s is not None]
    close = sum(abs(told_s - took_s) <= CLOSE * took_s for took_s, told_s in known)
    return close / max(1, len(known))


def tabulate(seeds: int, over: Mapping[str, Scenario]) -> None:
    """Print a table in Markdown, over seeds 1 up to `seeds`."""
    sys.stdout.write(
        "| world | waited | told nothing | within 30 % | of waits over 2 s | told / waited p50 |\n"
        "|---|---|---|---|---|---|\n"
    )
    everybody: list[tuple[float, float | None]] = []
    for name, world in over.items():
        pairs = [pair for seed in range(1, seeds + 1) for pair in waits(world, name, seed)]
        everybody += pairs
        sys.stdout.write(_row(name, pairs))
    sys.stdout.write(_row("all", everybody))


def _row(name: str, pairs: list[tuple[float, float | None]]) -> str:
    long = [pair for pair in pairs if pair[0] >= NOTABLE_S]
    times = [told_s / took_s for took_s, told_s in long if told_s is not None]
    silent = sum(told_s is None for _, told_s in pairs)
    return (
        f"| {name} | {len(pairs)} | {silent} | {share_close(pairs):.2f} "
        f"| {share_close(long):.2f} | {percentile(times, 0.5):.2f} |\n"
    )
