"""DECIDER: the control protocol's envelope, its version, and its words for failures."""

from __future__ import annotations

import msgspec

from roost.dialects.json_text import clean
from roost.errors import Failure
from roost.gateway.front.rendering import JSON_BODY, Headers

MAJOR, MINOR = 1, 0
VERSION_HEADER = b"x-roost-protocol-version"
ROOT = "/roost/v1/"
VERBS = ("info", "capabilities", "memory", "runtimes", "observability")
PATHS = frozenset(f"{ROOT}{verb}".encode() for verb in VERBS)
HANDOFFS = frozenset({f"{ROOT}prefill".encode(), f"{ROOT}decode".encode()})
_STATES = f"{ROOT}states/".encode()
HEADERS: Headers = [
    *JSON_BODY,
    (VERSION_HEADER, b"%d.%d" % (MAJOR, MINOR)),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]
"""Of every answer of the protocol that is not a failure."""

LIMITS: dict[str, int] = {
    "max_page_size": 100,
    "max_state_ids_per_operation": 100,
    "max_expert_ids_per_operation": 256,
    "max_request_bytes": 1_048_576,
    "max_handoff_bytes": 4096,
    "max_ttl_seconds": 2_592_000,
}
_CODES = {
    "bad_request": "invalid_request",
    "method_not_allowed": "invalid_request",
    "state_busy": "conflict",
    "node_busy": "resource_exhausted",
    "rate_limit_exceeded": "resource_exhausted",
    "node_lost": "unavailable",
    "storage_error": "internal",
}
_PROTOCOL = {"major": MAJOR, "minor": MINOR}


def is_control(path: bytes) -> bool:
    """Whether an address, without its base and its query, is of this protocol."""
    return path.rstrip(b"/") in PATHS | HANDOFFS or (path + b"/").startswith(_STATES)


def answer(data: object, request_id: str) -> bytes:
    """Put an answer into the envelope."""
    return msgspec.json.encode({"protocol": _PROTOCOL, "request_id": request_id, "data": data})


def refusal(failure: Failure, request_id: str) -> bytes:
    """Put a failure into the envelope."""
    error = {
        "code": _CODES.get(failure.reason, failure.reason),
        "message": clean(failure.message),
        "retryable": failure.kind.retryable,
    }
    return msgspec.json.encode({"protocol": _PROTOCOL, "request_id": request_id, "error": error})


def incompatible(header: bytes | None) -> Failure | None:
    """Say why an asked version cannot be spoken; None for none, or for any 1.x."""
    if header is None:
        return None
    major = header.decode("latin-1").strip().partition(".")[0]
    if major == str(MAJOR):
        return None
    message = f"The control protocol here is {MAJOR}.{MINOR}; ask for that or for none."
    return Failure("incompatible_protocol", message)
