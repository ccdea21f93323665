"""DECIDER: the fleet in the words of system 1: workers, their health, and the totals.

A session there is a place that holds KV here: a slot with tokens in it. Nodes dial in, so they have
no address; what is not known is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.core.snapshots import LinkState, ModelOffer, RuntimeView

Status = Literal["alive", "stale", "dead"]
_STATUS: dict[LinkState, Status] = {
    "alive": "alive",
    "suspect": "stale",
    "stale": "stale",
    "dead": "dead",
}
_encode = msgspec.json.Encoder().encode


class Worker(msgspec.Struct, frozen=True):
    """What is known of one node; `heard_unix_ms` is None where it has no link."""

    id: str
    state: LinkState
    heard_unix_ms: int | None
    in_flight: int
    draining: bool
    models: tuple[ModelOffer, ...]
    runtimes: tuple[RuntimeView, ...]


class Caps(msgspec.Struct, frozen=True):
    """Caps on streams over the fleet and on a node; 0 is none."""

    decodes: int
    decodes_per_worker: int


def workers_body(workers: Sequence[Worker]) -> bytes:
    """Answer GET /coordinator/health/workers."""
    counts = Counter(_STATUS[worker.state] for worker in workers)
    listed = [
        _known(worker) | {"lastHeartbeat": worker.heard_unix_ms, "status": _STATUS[worker.state]}
        for worker in workers
    ]
    return _encode({"workers": listed, "counts": _counts(counts), "total": len(workers)})


def available_body(workers: Sequence[Worker]) -> bytes:
    """Answer GET /coordinator/health/workers/available: those that are alive."""
    alive = [_known(worker) for worker in workers if _STATUS[worker.state] == "alive"]
    return _encode({"workers": alive, "count": len(alive)})


def stats_body(workers: Sequence[Worker], caps: Caps, at_unix_ms: int) -> bytes:
    """Answer GET /coordinator/stats."""
    listed = []
    for worker in workers:
        facts = _known(worker) | {
            "status": _STATUS[worker.state],
            "lastHeartbeat": worker.heard_unix_ms,
            "sessions": _sessions(worker),
        }
        if worker.heard_unix_ms is None:
            facts["sessions_error"] = "This worker is not connected."
        listed.append(facts)
    return _encode(
        {"fetched_at": at_unix_ms, "cluster": _cluster(workers, caps), "workers": listed}
    )


def _cluster(workers: Sequence[Worker], caps: Caps) -> dict[str, object]:
    alive = [worker for worker in workers if _STATUS[worker.state] == "alive"]
    sessions = sum(len(_sessions(worker)) for worker in alive)
    places = sum(len(one.slots) for worker in alive for one in worker.runtimes)
    kv_bytes = sum(_kv_bytes(worker) or 0 for worker in alive)
    kv_most = sum(_kv_most(worker) for worker in alive)
    decodes = sum(worker.in_flight for worker in workers)
    return {
        **_counts(Counter(_STATUS[worker.state] for worker in workers)),
        "total_sessions": sessions,
        "total_kv_cache_bytes": kv_bytes,
        "max_total_sessions": places,
        "max_total_kv_cache_bytes": kv_most,
        "session_capacity_pct": _percent(sessions, places),
        "kv_cache_capacity_pct": _percent(kv_bytes, kv_most),
        "in_flight_decodes": decodes,
        "max_in_flight_decodes": caps.decodes or None,
        "max_in_flight_decodes_per_worker": caps.decodes_per_worker or None,
        "in_flight_decode_capacity_pct": _percent(decodes, caps.decodes),
        "in_flight_decodes_per_worker": {worker.id: worker.in_flight for worker in workers},
    }


def _known(worker: Worker) -> dict[str, object]:
    health = {
        "alive": _STATUS[worker.state] == "alive",
        "active_sessions": len(_sessions(worker)),
        "kv_cache_bytes": _kv_bytes(worker),
        "draining": worker.draining,
    }
    return {"id": worker.id, "url": None, "health": health}


def _sessions(worker: Worker) -> list[dict[str, object]]:
    cost = _token_bytes(worker)
    return [
        {
            "session_id": f"{runtime.runtime}/{slot.slot}",
            "model": runtime.model,
            "max_tokens": runtime.ctx,
            "kv_cache_bytes": _times(slot.tokens, cost.get(runtime.model)),
            "idle_ms": 0 if slot.busy else None,
            "worker_id": worker.id,
        }
        for runtime in worker.runtimes
        for slot in runtime.slots
        if slot.tokens or slot.busy
    ]


def _kv_bytes(worker: Worker) -> int | None:
    """Bytes of KV that hold something; None where a model's cost is not known."""
    cost = _token_bytes(worker)
    held = [
        _times(slot.tokens, cost.get(runtime.model))
        for runtime in worker.runtimes
        for slot in runtime.slots
    ]
    return None if None in held else sum(one or 0 for one in held)


def _kv_most(worker: Worker) -> int:
    loaded = {runtime.model for runtime in worker.runtimes if runtime.state == "ready"}
    return sum(offer.kv_bytes or 0 for offer in worker.models if offer.model in loaded)


def _token_bytes(worker: Worker) -> dict[str, int]:
    return {
        offer.model: offer.kv_token_bytes
        for offer in worker.models
        if offer.kv_token_bytes is not None
    }


def _times(tokens: int, each: int | None) -> int | None:
    return None if each is None else tokens * each


def _counts(counts: Counter[Status]) -> dict[str, int]:
    return {status: counts[status] for status in ("alive", "stale", "dead")}


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
