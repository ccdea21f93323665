"""DECIDER: the heartbeat of system 1's workers, both ways.

    POST /coordinator/health/heartbeat
    {"worker_id", "worker_url", "timestamp": epoch ms,
     "health": {"alive", "active_sessions", "kv_cache_bytes", "draining"?}}

Additions of ours, each of which may be missing: `models` (names, or objects with `id`, `ctx` and
`kv_token_bytes`), `slots`, `sampling`, `key`, `engine`, `version`.
"""

from __future__ import annotations

import re

import msgspec

from roost.core.ids import ModelId
from roost.core.worker import WorkerBeat, WorkerHealth, WorkerModel
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.errors import RoostError, fail

ACK = b'{"ack":true}'
MODELS_MAX = 256
NAME_MAX = 256
KEY_MAX = 512
COUNT_MAX = 2**53
SLOTS_MAX = 1024
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_encode = msgspec.json.Encoder().encode


class Skew(msgspec.Struct, frozen=True):
    """How far a heartbeat's clock may be from ours: `late_s` behind it and `early_s` before it."""

    late_s: float = 30.0
    early_s: float = 5.0


def read_heartbeat(body: bytes, now_unix_s: float, skew: Skew) -> WorkerBeat:
    """Read a heartbeat; `bad_request` for a clock that is off, then for fields that are missing.

    The clock comes first, as in system 1: what is too old says nothing about now.
    """
    sent = parse_object(body)
    if not _is_fresh(sent.get("timestamp"), now_unix_s, skew):
        raise fail("bad_request", "Stale or invalid timestamp", param="timestamp")
    worker, url = sent.get("worker_id"), sent.get("worker_url")
    health = sent.get("health")
    if not (worker and url and isinstance(health, dict)):
        raise fail("bad_request", "Missing required fields")
    if not isinstance(worker, str) or not _ID.fullmatch(worker):
        wanted = "1 to 128 letters, digits, dots, colons, dashes or underscores"
        raise fields.wrong("worker_id", wanted, worker)
    return WorkerBeat(
        worker=worker,
        url=_short(sent, "worker_url", 2048),
        health=_health(health),
        models=_models(sent),
        slots=fields.whole(sent, "slots", 1, SLOTS_MAX) or 0,
        sampling=bool(fields.flag(sent, "sampling")),
        key=_short(sent, "key", KEY_MAX),
        engine=_short(sent, "engine", 64),
        version=_short(sent, "version", 64),
    )


def heartbeat_body(beat: WorkerBeat, now_unix_s: float) -> bytes:
    """Write a heartbeat."""
    return _encode(
        {
            "worker_id": beat.worker,
            "worker_url": beat.url,
            "timestamp": int(now_unix_s * 1000),
            "health": beat.health,
            "models": [
                {"id": one.model, "ctx": one.ctx, "kv_token_bytes": one.kv_token_bytes}
                for one in beat.models
            ],
            "slots": beat.slots or None,
            "sampling": beat.sampling,
            "key": beat.key or None,
            "engine": beat.engine or None,
            "version": beat.version or None,
        }
    )


def _is_fresh(at_ms: object, now_s: float, skew: Skew) -> bool:
    if isinstance(at_ms, bool) or not isinstance(at_ms, (int, float)):
        return False
    # Compared as it is: a large int has no float, and NaN fails every range.
    return 1000 * (now_s - skew.late_s) <= at_ms <= 1000 * (now_s + skew.early_s)


def _health(sent: JsonObject) -> WorkerHealth:
    alive = fields.flag(sent, "alive", "health.")
    return WorkerHealth(
        alive=alive is not False,
        active_sessions=fields.whole(sent, "active_sessions", 0, COUNT_MAX) or 0,
        kv_cache_bytes=fields.whole(sent, "kv_cache_bytes", 0, COUNT_MAX) or 0,
        draining=bool(fields.flag(sent, "draining", "health.")),
    )


def _models(sent: JsonObject) -> tuple[WorkerModel, ...]:
    listed = sent.get("models")
    if listed is None:
        return ()
    if not isinstance(listed, list) or len(listed) > MODELS_MAX:
        raise fields.wrong("models", f"a list of at most {MODELS_MAX} models", listed)
    models = [_model(one) for one in listed]
    return tuple({one.model: one for one in models}.values())


def _model(value: object) -> WorkerModel:
    if isinstance(value, str):
        value = {"id": value}
    if not isinstance(value, dict):
        raise fields.wrong("models", "names, or objects with an 'id'", value)
    name = _short(value, "id", NAME_MAX)
    if not name:
        raise fields.wrong("models", "names, or objects with an 'id'", name)
    return WorkerModel(
        ModelId(name),
        fields.whole(value, "ctx", 0, COUNT_MAX) or 0,
        fields.whole(value, "kv_token_bytes", 0, COUNT_MAX),
    )


def _short(sent: JsonObject, name: str, most: int) -> str:
    """Read a line of text; "" where there is none."""
    text = fields.text(sent, name) or ""
    if len(text) > most or not text.isprintable():
        raise _too_long(name, most)
    return text


def _too_long(name: str, most: int) -> RoostError:
    message = f"'{name}' must be one line of at most {most} characters."
    return fail("bad_request", message, param=name)
