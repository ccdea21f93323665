"""VALUE: what the coordinator shows of itself to people and metrics."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.about import NodeAbout
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import ServiceClass
from roost.core.snapshots import (
    LinkState,
    MemoryReport,
    ModelOffer,
    OrderView,
    PullView,
    RuntimeView,
    SessionsView,
)


class NodeView(msgspec.Struct, frozen=True):
    """One node as `/roost/v1/fleet` lists it.

    `in_flight` counts this gateway's leases there. `models`, `runtimes` and the telemetry are the
    node's last report, empty or None before its first. A node without a link is `dead`. One that
    `takes_wants` loads and evicts models by itself, within its limits, 0 for none.
    `kv_reserved_bytes` is what those leases may fill; None where a model's bytes are not known.
    """

    id: NodeId
    name: str
    state: LinkState
    in_flight: int
    draining: bool
    models: tuple[ModelOffer, ...] = ()
    runtimes: tuple[RuntimeView, ...] = ()
    max_in_flight: int = 0
    rss_bytes: int | None = None
    load_1m: float | None = None
    sessions: SessionsView | None = None
    pulls: tuple[PullView, ...] | None = None
    orders: tuple[OrderView, ...] | None = None
    about: NodeAbout | None = None
    takes_wants: bool = False
    max_runtimes: int = 0
    max_runtime_bytes: int = 0
    reported: bool = False
    memory: MemoryReport | None = None
    kv_reserved_bytes: int | None = None


class QueueView(msgspec.Struct, frozen=True):
    """One waiting request as `/roost/v1/queue` lists it; unknown figures are None.

    `cost_tokens` is what it will probably need, `left_s` what is left of its own deadline.
    """

    request: RequestId
    tenant: TenantId
    model: ModelId
    class_: ServiceClass
    position: int
    waited_s: float
    eta_s: float | None
    cost_tokens: float
    left_s: float | None


class SiteView(msgspec.Struct, frozen=True):
    """One node as a place for a model; unknown figures are None.

    `price_s` is what a runtime there costs, in seconds; `load_s` is the whole load in it, `wait_s`
    the wait for room, `evict_s` what the loss of the models in `evicts` will probably cost. `why`
    says what keeps the node from it: of a cold one why nobody can go now, of a closed one why it
    takes no work. `pinned`, `idle_s` and `unload_in_s` are of the runtime that is there.
    """

    node: NodeId
    state: Literal["ready", "loading", "cold", "closed"]
    progress: float | None
    load_s: float
    price_s: float | None
    wait_s: float | None
    evicts: tuple[ModelId, ...]
    evict_s: float
    why: str
    pinned: bool = False
    idle_s: float | None = None
    unload_in_s: float | None = None


class PlacementView(msgspec.Struct, frozen=True):
    """One model as `/roost/v1/placement` lists it: how many runtimes, and where.

    `wanted` counts those that are ready or loading too; `queue_s` is how long the `waiting`
    requests will take, None where nobody waits.
    """

    model: ModelId
    wanted: int
    ready: int
    loading: int
    waiting: int
    queue_s: float | None
    nodes: tuple[SiteView, ...] = ()


class Statistics(msgspec.Struct, frozen=True):
    """Gauges (`waiting`, `running`, `leases`, `nodes`, `homes`) and counters since the start.

    `running` counts requests on a node, `leases` capacity not yet given back: after a cancellation
    the second is the larger one until the node confirms. `in_flight` is leases by node.
    """

    waiting: int
    running: int
    leases: int
    in_flight: dict[NodeId, int]
    nodes: dict[LinkState, int]
    homes: int
    requests: int = 0
    finished: int = 0
    answered: dict[str, int] = {}
    clients_gone: int = 0
    dispatched: int = 0
    retried: int = 0
    replayed: int = 0
    bounced: int = 0
    warm: int = 0
    waiting_by_model: dict[ModelId, int] = {}
    breakers_opened: int = 0
    stopped: dict[str, int] = {}
