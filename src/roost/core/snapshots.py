"""VALUE: what one part tells another about itself; snapshots advise, only owners decide."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.core.ids import ModelId, RuntimeId

RuntimeState = Literal["absent", "loading", "ready", "failed", "stopping"]
LinkState = Literal["alive", "suspect", "stale", "dead"]


class SlotView(msgspec.Struct, frozen=True):
    """One slot: `busy` while a stream runs on it, `tokens` of KV it holds."""

    slot: int
    busy: bool
    tokens: int


class RuntimeView(msgspec.Struct, frozen=True):
    """One runtime, or the reason why there is none.

    `load_s` is the last load's duration; unknown figures are None, never 0.
    """

    model: ModelId
    backend: str
    state: RuntimeState
    runtime: RuntimeId | None = None
    slots: tuple[SlotView, ...] = ()
    ctx: int = 0
    load_s: float | None = None
    failure: str | None = None


class ModelOffer(msgspec.Struct, frozen=True):
    """A model this node could serve: `slots` and `ctx` tokens per slot once its runtime runs.

    `usable` is False after a load that failed and has not succeeded since. `backend` is the name of
    the one that runs it, "" where nobody knows. `kv_bytes` is what its runtime's KV cache takes,
    `kv_token_bytes` what each token takes of it; None where nobody knows.
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


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's whole report; a newer one replaces an older one.

    `in_flight` counts streams that hold or wait for a slot, `max_in_flight` is the node's own limit
    per model. `rss_bytes` and `load_1m` are telemetry; None where the platform does not tell.
    """

    models: tuple[ModelOffer, ...]
    runtimes: tuple[RuntimeView, ...]
    in_flight: int
    max_in_flight: int
    draining: bool = False
    rss_bytes: int | None = None
    load_1m: float | None = None
