"""Deaths come in every phase of a request's life, by the simulator's own record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from roost.core.ids import NodeId, RequestId
from roost.sim.faults import AFTERMATH_S
from roost.sim.history import History
from roost.sim.play import Parts, Stage
from roost.sim.run import scenarios

NAME = "phases"
SEEDS = range(1, 5)


class Death(NamedTuple):
    """When a node or a runtime of it was killed; `drained` says that it was being left."""

    at_s: float
    node: NodeId
    drained: bool = False


def deaths(history: History) -> Iterator[Death]:
    """Every kill of a run; a node that was drained is killed at the end of that."""
    for trouble in history.troubles:
        if trouble.kind in ("kill_node", "kill_runtime"):
            yield Death(trouble.since_s, trouble.node)
        elif trouble.kind == "drain_node" and trouble.until_s is not None:
            yield Death(trouble.until_s - AFTERMATH_S, trouble.node, drained=True)


def phases(history: History, death: Death) -> Iterator[str]:
    """Name the phase of each request that was there, or waited for a place, at a death."""
    for trace in history.traces.values():
        over_s = trace.over_s if trace.over_s is not None else history.ended_s
        if not trace.arrived_s <= death.at_s < over_s:
            continue
        opened = [one for one in trace.opened if one.at_s <= death.at_s]
        if not opened:
            yield "queue"
        elif opened[-1].node == death.node:
            yield "drain" if death.drained else worked(history, trace.request, death)


def worked(history: History, request: RequestId, death: Death) -> str:
    """Name what its node did for a request when it died: without a slot, it had to load first."""
    for run in reversed(history.runs):
        if (run.request, run.node) != (request, death.node) or run.began_s > death.at_s:
            continue
        if run.ended_s is not None and run.ended_s < death.at_s:
            return "end"
        computed = run.computed_s is not None and run.computed_s <= death.at_s
        return "decode" if computed else "prefill"
    return "load"


@pytest.mark.slow
def test_deaths_find_requests_in_every_phase() -> None:
    """Over some of the seeds whose claims are checked with those of all scenarios."""
    found: Counter[str] = Counter()
    for seed in SEEDS:
        stage = Stage(scenarios()[NAME], NAME, seed, Parts(), keep_lines=False)
        stage.play()
        for death in deaths(stage.history):
            found.update(phases(stage.history, death))
    assert set(found) == {"queue", "load", "prefill", "decode", "end", "drain"}, found
