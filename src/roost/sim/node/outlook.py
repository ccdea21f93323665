"""DECIDER: which nodes run, load or could load a model, by what they reported and were sent.

Written apart from the fleet's own rules for it, so that both have to agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import NodeStatus

Outlook: TypeAlias = Literal["ready", "coming", "cold", "stopping"]


def outlook(report: NodeStatus, model: ModelId, *, sent: bool) -> Outlook:
    """How far a node's runtime is; `sent` says that a request or a wish for it is under way."""
    states = {view.model: view.state for view in report.runtimes}
    state = states.get(model, "absent")
    if state == "ready":
        return "ready"
    if state == "stopping":
        return "stopping"
    return "coming" if sent or state == "loading" else "cold"


def evicts(report: NodeStatus, model: ModelId) -> tuple[ModelId, ...]:
    """Whose runtimes would go for one of this model."""
    return next((load.evicts for load in report.loads or () if load.model == model), ())


def has_space(report: NodeStatus, model: ModelId) -> bool:
    """Whether the node has room for the model, or knows when it will."""
    load = next((load for load in report.loads or () if load.model == model), None)
    return load is None or load.why == "" or load.in_s is not None


def with_work(outlooks: Mapping[NodeId, Outlook], replicas: int) -> set[NodeId]:
    """Where requests may go while at most `replicas` nodes load at a time; 0 is no limit."""
    at = {which: {n for n, one in outlooks.items() if one == which} for which in outlooks.values()}
    ready, coming, cold = at.get("ready", set()), at.get("coming", set()), at.get("cold", set())
    if not replicas:
        return ready | coming | cold
    if ready:
        return ready
    return coming if len(coming) >= replicas else coming | cold
