"""DECIDER: the fleet in the words of system 1: workers, their health, and the totals.

Two kinds of workers stand side by side. A node of roost dials in, so it has no address; a session
there is a place that holds KV: a slot with tokens in it. A worker of system 1 says what it holds
when it is asked. What is not known is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from roost.core.snapshots import LinkState, ModelOffer, RuntimeView
from roost.core.worker import WorkerBeat, WorkerStatus
from roost.dialects.json_body import JsonObject, parse_object
from roost.errors import RoostError

_STATUS: dict[LinkState, WorkerStatus] = {
    "alive": "alive",
    "suspect": "stale",
    "stale": "stale",
    "dead": "dead",
}
NOT_CONNECTED = "This worker is not connected."
NO_ANSWER = "This worker did not tell its sessions in time."
_LISTED_MAX = 10_000
_encode = msgspec.json.Encoder().encode


class Held(msgspec.Struct, frozen=True):
    """What a worker holds: its sessions as they are listed, and room for how many and how much."""

    sessions: tuple[JsonObject, ...] = ()
    sessions_max: int = 0
    kv_max_bytes: int = 0
    error: str = ""


class Worker(msgspec.Struct, frozen=True):
    """One worker as it is told; `heard_unix_ms` is None where it has no link."""

    id: str
    url: str | None
    status: WorkerStatus
    heard_unix_ms: int | None
    in_flight: int
    active_sessions: int
    kv_cache_bytes: int | None
    draining: bool
    held: Held


class Caps(msgspec.Struct, frozen=True):
    """Caps on streams over the fleet and on a node; 0 is none."""

    decodes: int
    decodes_per_worker: int


class Holdings(msgspec.Struct, frozen=True):
    """What a node reports of its models and runtimes."""

    models: tuple[ModelOffer, ...]
    runtimes: tuple[RuntimeView, ...]


def node_worker(
    name: str, state: LinkState, holdings: Holdings, *, in_flight: int, draining: bool
) -> Worker:
    """A node of roost, of which nothing has been heard yet."""
    sessions = _node_sessions(name, holdings)
    return Worker(
        id=name,
        url=None,
        status=_STATUS[state],
        heard_unix_ms=None,
        in_flight=in_flight,
        active_sessions=len(sessions),
        kv_cache_bytes=_node_kv_bytes(holdings),
        draining=draining,
        held=Held(
            sessions=sessions,
            sessions_max=sum(len(one.slots) for one in holdings.runtimes),
            kv_max_bytes=_node_kv_max(holdings),
            error=NOT_CONNECTED,
        ),
    )


def heard(worker: Worker, unix_ms: int | None) -> Worker:
    """The same node, heard of at this time; None where it has no link."""
    error = NOT_CONNECTED if unix_ms is None else ""
    held = msgspec.structs.replace(worker.held, error=error)
    return msgspec.structs.replace(worker, heard_unix_ms=unix_ms, held=held)


def system_1_worker(
    beat: WorkerBeat, status: WorkerStatus, unix_ms: int, *, in_flight: int
) -> Worker:
    """A worker of system 1 by its last heartbeat; what it holds it has to be asked for."""
    return Worker(
        id=beat.worker,
        url=beat.url,
        status=status,
        heard_unix_ms=unix_ms,
        in_flight=in_flight,
        active_sessions=beat.health.active_sessions,
        kv_cache_bytes=beat.health.kv_cache_bytes,
        draining=beat.health.draining,
        held=Held(error="" if status == "alive" else NOT_CONNECTED),
    )


def read_held(worker: str, body: bytes) -> Held:
    """Read an answer to GET /worker/sessions; with an `error` if it is none."""
    try:
        sent = parse_object(body)
    except RoostError:
        return Held(error=NO_ANSWER)
    listed = sent.get("sessions")
    if not isinstance(listed, list) or len(listed) > _LISTED_MAX:
        return Held(error=NO_ANSWER)
    sessions = tuple(_told(worker, one) for one in listed if isinstance(one, dict))
    return Held(sessions, _count(sent, "max_sessions"), _count(sent, "max_kv_cache_bytes"))


def holding(worker: Worker, held: Held) -> Worker:
    """The same worker, with what it has been asked for."""
    return msgspec.structs.replace(worker, held=held)


def workers_body(workers: Sequence[Worker]) -> bytes:
    """Answer GET /coordinator/health/workers."""
    listed = [
        _known(worker) | {"lastHeartbeat": worker.heard_unix_ms, "status": worker.status}
        for worker in workers
    ]
    return _encode({"workers": listed, "counts": _counts(workers), "total": len(workers)})


def available_body(workers: Sequence[Worker]) -> bytes:
    """Answer GET /coordinator/health/workers/available: those that are alive."""
    alive = [_known(worker) for worker in workers if worker.status == "alive"]
    return _encode({"workers": alive, "count": len(alive)})


def stats_body(workers: Sequence[Worker], caps: Caps, at_unix_ms: int) -> bytes:
    """Answer GET /coordinator/stats."""
    listed = []
    for worker in workers:
        facts = _known(worker) | {
            "status": worker.status,
            "lastHeartbeat": worker.heard_unix_ms,
            "sessions": worker.held.sessions,
        }
        if worker.held.error:
            facts["sessions_error"] = worker.held.error
        listed.append(facts)
    return _encode(
        {"fetched_at": at_unix_ms, "cluster": _cluster(workers, caps), "workers": listed}
    )


def _cluster(workers: Sequence[Worker], caps: Caps) -> dict[str, object]:
    alive = [worker for worker in workers if worker.status == "alive"]
    sessions = sum(worker.active_sessions for worker in alive)
    places = sum(worker.held.sessions_max for worker in alive)
    kv_bytes = sum(worker.kv_cache_bytes or 0 for worker in alive)
    kv_most = sum(worker.held.kv_max_bytes for worker in alive)
    decodes = sum(worker.in_flight for worker in workers)
    return {
        **_counts(workers),
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
        "alive": worker.status == "alive",
        "active_sessions": worker.active_sessions,
        "kv_cache_bytes": worker.kv_cache_bytes,
        "draining": worker.draining,
    }
    return {"id": worker.id, "url": worker.url, "health": health}


def _told(worker: str, sent: JsonObject) -> JsonObject:
    """What is passed on of a session: its fields, and whose it is; never a word of it."""
    names = ("session_id", "model", "max_tokens", "kv_cache_bytes", "idle_ms")
    return {name: sent.get(name) for name in names} | {"worker_id": worker}


def _count(sent: JsonObject, name: str) -> int:
    value = sent.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def _node_sessions(name: str, holdings: Holdings) -> tuple[JsonObject, ...]:
    cost = _token_bytes(holdings)
    return tuple(
        {
            "session_id": f"{runtime.runtime}/{slot.slot}",
            "model": runtime.model,
            "max_tokens": runtime.ctx,
            "kv_cache_bytes": _times(slot.tokens, cost.get(runtime.model)),
            "idle_ms": 0 if slot.busy else None,
            "worker_id": name,
        }
        for runtime in holdings.runtimes
        for slot in runtime.slots
        if slot.tokens or slot.busy
    )


def _node_kv_bytes(holdings: Holdings) -> int | None:
    """Bytes of KV that hold something; None where a model's cost is not known."""
    cost = _token_bytes(holdings)
    held = [
        _times(slot.tokens, cost.get(runtime.model))
        for runtime in holdings.runtimes
        for slot in runtime.slots
    ]
    return None if None in held else sum(one or 0 for one in held)


def _node_kv_max(holdings: Holdings) -> int:
    loaded = {runtime.model for runtime in holdings.runtimes if runtime.state == "ready"}
    return sum(offer.kv_bytes or 0 for offer in holdings.models if offer.model in loaded)


def _token_bytes(holdings: Holdings) -> dict[str, int]:
    return {
        offer.model: offer.kv_token_bytes
        for offer in holdings.models
        if offer.kv_token_bytes is not None
    }


def _times(tokens: int, each: int | None) -> int | None:
    return None if each is None else tokens * each


def _counts(workers: Sequence[Worker]) -> dict[str, int]:
    counts = Counter(worker.status for worker in workers)
    return {status: counts[status] for status in ("alive", "stale", "dead")}


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
