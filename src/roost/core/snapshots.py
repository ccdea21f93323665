"""VALUE: what one part tells another about itself; snapshots advise, only owners decide."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.about import NodeAbout, RuntimeVitals
from roost.core.engine import Mode
from roost.core.ids import ModelId, RuntimeId
from roost.core.request import Scope
from roost.errors import Failure

RuntimeState = Literal["absent", "loading", "ready", "failed", "stopping"]
LinkState = Literal["alive", "suspect", "stale", "dead"]
NoRoom = Literal["", "leaving", "young", "busy", "too_large"]
"""Why one more runtime does not fit: those that have to go are on their way out, have not been
resident long enough, or are in use; or the model alone is over the limit."""


class SlotView(msgspec.Struct, frozen=True):
    """One slot: `busy` while a stream runs on it, `tokens` of KV it holds."""

    slot: int
    busy: bool
    tokens: int


class RuntimeView(msgspec.Struct, frozen=True):
    """One runtime, or the reason why there is none.

    `load_s` is the last load's duration; unknown figures are None, never 0. `progress` is how far a
    load has come (0..1), `resident_s` how long the runtime has been ready, `idle_s` how long it has
    had nothing to do, and `evict_in_s` when it may make room for another model; None while it is in
    use. `waiting` streams wait for it. `loading_s` is how long a load under way has taken so far.
    A `pinned` one stays until it is unloaded by hand, another goes in `unload_in_s` if nobody uses
    it; None while it is in use, or if it is to stay.
    `vitals` are of one that is ready; None from a node that does not count them.
    """

    model: ModelId
    backend: str
    state: RuntimeState
    runtime: RuntimeId | None = None
    slots: tuple[SlotView, ...] = ()
    ctx: int = 0
    load_s: float | None = None
    failure: str | None = None
    progress: float | None = None
    resident_s: float | None = None
    idle_s: float | None = None
    evict_in_s: float | None = None
    waiting: int = 0
    loading_s: float | None = None
    pinned: bool = False
    unload_in_s: float | None = None
    vitals: RuntimeVitals | None = None


class LoadView(msgspec.Struct, frozen=True):
    """What it would take to load a model that does not simply fit.

    The runtimes of `evicts` would go. `why` is "" if they can at once; otherwise `in_s` is when
    they can, None where nobody knows.
    """

    model: ModelId
    evicts: tuple[ModelId, ...] = ()
    why: NoRoom = ""
    in_s: float | None = None


PullStage = Literal["waiting", "asking", "downloading", "unpacking", "checking", "done", "failed"]


class SessionsView(msgspec.Struct, frozen=True):
    """Conversations whose KV a node has put aside: in memory, on disk, and the bytes of both.

    The rest counts since the node's start: `parks` into files, `restores` into slots, `failures` of
    either, what was `forgotten` for want of room or after too long, and `moving_s`, the seconds
    that requests have waited for all that. `dormant` ones are of no runtime that lives now, and
    `quarantined` files did not verify. `persistence` is what they outlive; "" from a node that does
    not say so, and does not understand `StateOrder`.
    """

    ram: int = 0
    disk: int = 0
    ram_bytes: int = 0
    disk_bytes: int = 0
    parks: int = 0
    restores: int = 0
    failures: int = 0
    forgotten: int = 0
    moving_s: float = 0.0
    dormant: int = 0
    quarantined: int = 0
    persistence: str = ""


class PullView(msgspec.Struct, frozen=True):
    """A model that a node fetches because its gateway's operators want it, or has fetched.

    `job` is the name that the gateway gave it. `done_bytes` and `total_bytes` are of its `stage`,
    None where nobody knows. `model` is what came of it, `failure` why nothing did, in words.
    """

    job: str
    source: str
    stage: PullStage
    done_bytes: int = 0
    total_bytes: int | None = None
    model: str = ""
    failure: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage in ("done", "failed")


Pressure = Literal["unknown", "normal", "soft", "hard", "emergency"]
PRESSURES: tuple[Pressure, ...] = ("unknown", "normal", "soft", "hard", "emergency")
"""In their order."""


class DeviceView(msgspec.Struct, frozen=True):
    """One memory of a node, in bytes: what it has, and what programs can still have of it.

    `managed_bytes` is what runtimes that are ready take, as measured or else as calculated, and
    `reserved_bytes` what is kept for those that are being loaded; None where one is not known.
    """

    name: str
    capacity_bytes: int | None = None
    available_bytes: int | None = None
    managed_bytes: int | None = None
    reserved_bytes: int | None = None
    pressure: Pressure = "unknown"


class MemoryReport(msgspec.Struct, frozen=True):
    """A node's memories, and what was done when they ran short since its start.

    `passes` were made; they `demoted` conversations out of memory and `evicted` idle runtimes.
    `refused` models got no room all the same.
    """

    devices: tuple[DeviceView, ...]
    passes: int = 0
    demoted: int = 0
    evicted: int = 0
    refused: int = 0


OrderKind = Literal["load", "unload", "pin", "unpin"]


class OrderView(msgspec.Struct, frozen=True):
    """What an operator asked a node to do with a model, and what came of it.

    `job` is the name that the gateway gave it. It is over once it is `done`, or has failed with
    `failure`.
    """

    job: str
    model: ModelId
    what: OrderKind
    done: bool = False
    failure: Failure | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.done or self.failure is not None


class ModelOffer(msgspec.Struct, frozen=True):
    """A model this node could serve: `slots` and `ctx` tokens per slot once its runtime runs.

    `usable` is False after a load that failed and has not succeeded since. `backend` is the name of
    the one that runs it, "" where nobody knows. `kv_bytes` is what its runtime's KV cache takes,
    `kv_token_bytes` what each token takes of it; None where nobody knows. `digest` is equal where
    weights, template, tokeniser and backend are: there, one continues what another began; "" where
    nobody knows. `serves` is what can be asked of it. `key` names the exact runtime that serves it:
    as long as that is equal, one that runs is as good as a new one; "" where nobody knows.
    `workspace_bytes` is its scratch space, and
    `measured_bytes` what a runtime of it was seen to take in all, here and with these options.
    `device` is the memory that takes it, and `architecture` the name of the model's kind, "" where
    nobody knows.
    `mode` is what its runtime is for; a node that does not say so knows nothing but texts, and is
    asked for nothing else. `vector_sizes` are how many numbers its vectors have, and fewer that
    they can be cut to; () where nobody knows.
    """

    model: ModelId
    slots: int
    ctx: int
    usable: bool = True
    created_unix_s: int = 0
    size_bytes: int = 0
    has_chat: bool = True
    max_token_bytes: int = 0
    backend: str = ""
    kv_bytes: int | None = None
    kv_token_bytes: int | None = None
    digest: str = ""
    serves: Scope = "all"
    key: str = ""
    workspace_bytes: int | None = None
    measured_bytes: int | None = None
    device: str = "host"
    architecture: str = ""
    mode: Mode = "generate"
    vector_sizes: tuple[int, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's whole report; a newer one replaces an older one.

    `in_flight` counts streams that hold or wait for a slot, `max_in_flight` is the node's own limit
    per model. `rss_bytes` and `load_1m` are telemetry; None where the platform does not tell.
    `loads` has the models without a runtime for which there is no room just so; None from a node
    that neither counts room nor understands `Want`. `max_runtimes` and `max_runtime_bytes` are its
    limits, 0 for none. `sessions` is what it has put aside. `vacant` says that it keeps nothing
    idle, because every gateway has asked for that; None from a node that does not understand it.
    `pulls` are models that it fetches or has fetched for operators; None from one that does not.
    `memory` is None from one that does not measure it.
    `orders` are what operators asked it to load, unload or keep; None from one that takes none.
    `about` is what it says of its machine and engines; None from one that does not, or not yet.
    """

    models: tuple[ModelOffer, ...]
    runtimes: tuple[RuntimeView, ...]
    in_flight: int
    max_in_flight: int
    draining: bool = False
    rss_bytes: int | None = None
    load_1m: float | None = None
    loads: tuple[LoadView, ...] | None = None
    max_runtimes: int = 0
    max_runtime_bytes: int = 0
    sessions: SessionsView = SessionsView()
    vacant: bool | None = None
    pulls: tuple[PullView, ...] | None = None
    orders: tuple[OrderView, ...] | None = None
    about: NodeAbout | None = None
    memory: MemoryReport | None = None
