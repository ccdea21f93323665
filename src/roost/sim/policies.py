"""SHELL: `python -m roost.sim.run --policies SEEDS`: policies under equal traffic."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import get_args

import msgspec

from roost.fleet.settings import Policy
from roost.sim.history import History
from roost.sim.play import Parts, Stage
from roost.sim.scenario import Machines, Scenario, Traffic

UNEQUAL = (
    Machines(count=2, slots=4),
    Machines(count=1, slots=4, slower=4.0),
    Machines(count=1, slots=4, slower=0.5),
)
EQUAL = (Machines(count=4, slots=4),)
_BASE = Traffic(rate_per_s=1.4, turns=(1, 4), words=(40, 300), max_tokens=(8, 60))
WORLDS: dict[str, Scenario] = {
    "equal nodes": Scenario("", 240.0, EQUAL, _BASE),
    "unequal nodes": Scenario("", 240.0, UNEQUAL, _BASE),
    "shared prefixes": Scenario(
        "",
        240.0,
        EQUAL,
        msgspec.structs.replace(_BASE, prefixes=12, prefix_words=900, words=(10, 60)),
    ),
    "unequal, shared, long tail": Scenario(
        "",
        240.0,
        UNEQUAL,
        msgspec.structs.replace(_BASE, prefixes=12, prefix_words=900, long_answers=0.1),
    ),
}


class Result(msgspec.Struct, frozen=True):
    """One policy in one world, over all seeds: seconds, and how many requests were complete."""

    ttft_p50_s: float
    ttft_p95_s: float
    total_p50_s: float
    total_p95_s: float
    completed: int


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def played(world: Scenario, name: str, policy: Policy, seed: int) -> History:
    """The history of one run."""
    fleet = msgspec.structs.replace(world.fleet, policy=policy)
    scenario = msgspec.structs.replace(world, fleet=fleet)
    stage = Stage(scenario, name, seed, Parts(), keep_lines=False)
    stage.play()
    return stage.history


def result(histories: Sequence[History]) -> Result:
    """What clients saw."""
    traces = [trace for history in histories for trace in history.traces.values()]
    first = [t.first_byte_s - t.arrived_s for t in traces if t.first_byte_s is not None]
    whole = [
        t.over_s - t.arrived_s
        for t in traces
        if t.over_s is not None and any(kind == "complete" for kind, _ in t.endings)
    ]
    return Result(
        percentile(first, 0.5),
        percentile(first, 0.95),
        percentile(whole, 0.5),
        percentile(whole, 0.95),
        len(whole),
    )


def tabulate(seeds: int, worlds: Mapping[str, Scenario] = MappingProxyType(WORLDS)) -> None:
    """Print a table in Markdown, over seeds 1 up to `seeds`."""
    sys.stdout.write(
        "| world | policy | TTFT p50 s | TTFT p95 s | total p50 s | total p95 s | complete |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for name, world in worlds.items():
        for policy in get_args(Policy):
            one = result([played(world, name, policy, seed) for seed in range(1, seeds + 1)])
            sys.stdout.write(
                f"| {name} | `{policy}` | {one.ttft_p50_s:.2f} | {one.ttft_p95_s:.2f} "
                f"| {one.total_p50_s:.2f} | {one.total_p95_s:.2f} | {one.completed} |\n"
            )
