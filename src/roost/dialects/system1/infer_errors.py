"""DECIDER: failures in the shape and with the reasons that clients of system 1 know."""

from __future__ import annotations

import msgspec

from roost.dialects.json_text import clean, escape_line_ends
from roost.errors import Failure, Fault

AT_CAPACITY = "System at capacity"
_encode = msgspec.json.Encoder().encode
_REASONS = {
    "no_nodes": "no_healthy_workers",
    "queue_full": "all_workers_at_capacity",
    "queue_timeout": "all_workers_at_capacity",
    "node_busy": "all_workers_decode_busy",
    "conversations_full": "system_sessions_full",
    "context_length_exceeded": "prompt_too_long",
}
_STATUSES = {"context_length_exceeded": 413}


class InferCase(msgspec.Struct, frozen=True):
    """What the failure alone does not say.

    `reason` is system 1's word for it where more is known than the failure tells, `tried` the nodes
    that were asked, in order. With `legacy_503` overload is told as system 1 did.
    """

    request_id: str
    reason: str = ""
    tried: tuple[str, ...] = ()
    legacy_503: bool = False


def status_of(failure: Failure, case: InferCase) -> int:
    """Give the HTTP status: 409 for what only a new conversation helps, 413 for one turn alone."""
    if case.reason == "session_full":
        return 409
    status = _STATUSES.get(failure.reason, failure.status)
    return 503 if status == 429 and case.legacy_503 else status


def error_body(failure: Failure, case: InferCase) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a failure before the first event."""
    status = status_of(failure, case)
    body: dict[str, object] = {
        "error": AT_CAPACITY if failure.kind.fault is Fault.CAPACITY else clean(failure.message),
        "reason": case.reason or _REASONS.get(failure.reason, failure.reason),
        "request_id": case.request_id,
    }
    if failure.kind.fault is Fault.CAPACITY:
        body["message"] = clean(failure.message)
    if failure.param is not None:
        body["param"] = failure.param
    if failure.kind.fault is Fault.PEER:
        body["tried"] = case.tried
    return status, escape_line_ends(_encode(body))
