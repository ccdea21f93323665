"""DECIDER: the bodies of a worker's routes in the protocol of system 1, both ways.

POST   /worker/prefill         {session_id, prompt, model, max_tokens, mode?}
POST   /worker/decode          {session_id, max_tokens}
GET    /worker/sessions        what there is, never what was said
DELETE /worker/sessions/{id}
GET    /worker/health
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ModelId
from roost.core.request import Sampling
from roost.dialects import fields
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.json_text import clean, escape_line_ends
from roost.dialects.openai import options as shared
from roost.dialects.system1.infer import missing, read_prompt
from roost.errors import Failure, Fault

Mode: TypeAlias = Literal["create", "continue"]
Denial: TypeAlias = Literal[
    "invalid_mode",
    "model_mismatch",
    "session_gone",
    "session_full",
    "session_busy",
    "nothing_to_decode",
    "prompt_too_long",
    "max_sessions_exceeded",
    "session_kv_cache_too_large",
    "total_kv_cache_exceeded",
]
"""Why a worker does not do what is asked, in system 1's words and two of our own."""

DENIALS: dict[Denial, tuple[int, str]] = {
    "invalid_mode": (400, "'mode' must be create or continue."),
    "model_mismatch": (400, "The session belongs to another model."),
    "session_gone": (404, "There is no such session. Create it."),
    "session_full": (409, "The session has no room for this. Begin a new one."),
    "session_busy": (409, "The session is at work. Ask again when that has ended."),
    "nothing_to_decode": (409, "The answer is complete. Prefill the next turn."),
    "prompt_too_long": (413, "The prompt alone is over the context budget."),
    "max_sessions_exceeded": (503, "This worker has as many sessions as it may."),
    "session_kv_cache_too_large": (503, "The session would need more KV than one may have."),
    "total_kv_cache_exceeded": (503, "This worker's sessions have as much KV as they may."),
}
_SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KNOWN_MODES = ("create", "continue")
_encode = msgspec.json.Encoder().encode


class PrefillAsked(msgspec.Struct, frozen=True):
    """A turn's text to be put into a session."""

    session: str
    prompt: str
    model: ModelId
    max_tokens: int
    mode: Mode


class DecodeAsked(msgspec.Struct, frozen=True):
    """An answer wanted from a session; sampling and stop strings are additions of ours."""

    session: str
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...]


class Prefilled(msgspec.Struct, frozen=True):
    """What a prefill did: exact counts, by the runtime's own word.

    `total_tokens_est` is called so by system 1 and is no estimate. `cached_tokens` of them needed
    no computing.
    """

    tokens_added: int
    total_tokens_est: int
    cached_tokens: int
    status: Literal["ok"] = "ok"


class SessionLine(msgspec.Struct, frozen=True):
    """One session in a list."""

    session_id: str
    model: ModelId
    max_tokens: int
    kv_cache_bytes: int
    idle_ms: int
    tokens: int


class Totals(msgspec.Struct, frozen=True):
    """A worker's load and its limits; sessions of all owners."""

    active_sessions: int
    total_kv_cache_bytes: int
    max_sessions: int
    max_kv_cache_bytes: int


def read_prefill(body: bytes) -> PrefillAsked | Denial:
    """Read a prefill; `bad_request` names a field that is missing or wrong."""
    sent = parse_object(body)
    session = _session(sent)
    prompt, model = read_prompt(sent)
    most = _max_tokens(sent)
    mode = sent.get("mode", "create")
    if mode not in _KNOWN_MODES:
        return "invalid_mode"
    return PrefillAsked(session, prompt, model, most, "create" if mode == "create" else "continue")


def read_decode(body: bytes) -> DecodeAsked:
    """Read a decode; `bad_request` names a field that is missing or wrong."""
    sent = parse_object(body)
    session, most = _session(sent), _max_tokens(sent)
    return DecodeAsked(session, most, shared.read_sampling(sent), shared.read_stop(sent))


def prefilled_body(done: Prefilled) -> bytes:
    """Answer a prefill."""
    return _encode(done)


def sessions_body(lines: Sequence[SessionLine], totals: Totals) -> bytes:
    """Answer GET /worker/sessions, sorted by id."""
    listed = sorted(lines, key=lambda line: line.session_id)
    return _encode({"sessions": listed, **msgspec.structs.asdict(totals)})


def health_body(totals: Totals, *, draining: bool) -> bytes:
    """Answer GET /worker/health."""
    return _encode(
        {
            "alive": True,
            "active_sessions": totals.active_sessions,
            "kv_cache_bytes": totals.total_kv_cache_bytes,
            "draining": draining,
        }
    )


def denial_body(denial: Denial) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a denial."""
    status, text = DENIALS[denial]
    return status, _encode({"error": text, "reason": denial})


def failure_body(failure: Failure) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a failure; 500 for those of the engine."""
    body: dict[str, object] = {"error": clean(failure.message), "reason": failure.reason}
    if failure.param is not None:
        body["param"] = failure.param
    own = failure.kind.fault in (Fault.PEER, Fault.OURS)
    return 500 if own else failure.status, escape_line_ends(_encode(body))


def _session(sent: JsonObject) -> str:
    session = fields.text(sent, "session_id")
    if not session:
        raise missing("session_id")
    if not _SESSION_ID.fullmatch(session):
        wanted = "1 to 128 letters, digits, dots, colons, dashes or underscores"
        raise fields.wrong("session_id", wanted, session)
    return session


def _max_tokens(sent: JsonObject) -> int:
    if not sent.get("max_tokens"):
        raise missing("max_tokens")
    most = fields.whole(sent, "max_tokens", 1, None)
    assert most is not None, "it is there"
    return min(most, shared.MAX_TOKENS_CAP)
