"""DECIDER: the worker's routes of system 1 as a coordinator speaks them: bodies out, answers in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from roost.core.events import FinishReason
from roost.core.ids import ModelId
from roost.core.request import Message, Sampling
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.system1.worker import Mode
from roost.errors import Failure, RoostError

RECENT = "[RECENT MESSAGES]"
_SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
_GONE = frozenset({"session_gone", "model_mismatch"})
_TOO_LONG = frozenset({"session_full", "prompt_too_long", "session_kv_cache_too_large"})
_NO_ROOM = frozenset({429, 503})
_BUSY = frozenset(
    {"session_busy", "node_busy", "conversation_busy", "draining", "starting", "overloaded"}
)
_encode = msgspec.json.Encoder().encode


class Prefilled(msgspec.Struct, frozen=True):
    """What a prefill did: tokens of the whole session, and how many of them needed no computing."""

    total_tokens: int
    cached_tokens: int


class Denied(msgspec.Struct, frozen=True):
    """A worker does not do it."""

    status: int
    reason: str = ""
    retry_after_s: int | None = None

    @property
    def gone(self) -> bool:
        """Whether the session is not what it was taken for any more."""
        return self.status == 404 or self.reason in _GONE

    @property
    def no_room(self) -> bool:
        """Whether it may do it later, and nothing has changed."""
        return self.status in _NO_ROOM or self.reason in _BUSY

    @property
    def failure(self) -> Failure:
        """The same in the words of a node."""
        if self.reason in _TOO_LONG or self.status == 413:
            text = "The conversation does not fit the worker's context."
            return Failure("context_length_exceeded", text)
        if self.no_room:
            text = "The worker has no room for this now."
            return Failure("node_busy", text, retry_after_s=self.retry_after_s)
        if self.status in {401, 403}:
            return Failure("upstream_error", "The worker does not take this gateway's key.")
        if self.status >= 500:
            return Failure("runtime_error", f"The worker failed (status {self.status}).")
        return Failure("upstream_error", f"The worker refused with status {self.status}.")


class Token(msgspec.Struct, frozen=True):
    """A piece of an answer and its number, from 0."""

    text: str
    seq: int


class Over(msgspec.Struct, frozen=True):
    """The end of an answer, by the worker's own word; `tokens` is None where it does not count."""

    reason: FinishReason
    tokens: int | None = None


Said: TypeAlias = Token | Over | Failure


def prefill_body(asked: tuple[str, ModelId, Mode], prompt: str, max_tokens: int) -> bytes:
    """Ask for a turn to be put into a session of this name, for this model, in this mode."""
    session, model, mode = asked
    return _encode(
        {
            "session_id": session,
            "prompt": prompt,
            "model": model,
            "max_tokens": max_tokens,
            "mode": mode,
        }
    )


def decode_body(
    session: str, max_tokens: int, sampling: Sampling, stop: Sequence[str] = ()
) -> bytes:
    """Ask for an answer; what nobody asked for is left out, for workers that know only two."""
    body: dict[str, object] = {"session_id": session, "max_tokens": max_tokens}
    wishes = msgspec.structs.asdict(sampling)
    body |= {name: value for name, value in wishes.items() if value not in (None, ())}
    if stop:
        body["stop"] = list(stop)
    return _encode(body)


def new_prompt(messages: Sequence[Message]) -> str:
    """Write a whole conversation as the first prompt of a session, a new message last.

    A worker knows what it was told itself; what others have said it can only be told as text.
    """
    new = messages[-1].content if messages[-1].role == "user" else None
    past = messages if new is None else messages[:-1]
    if new is not None and not past:
        return new
    lines = [f"{_SPEAKERS[one.role]}: {one.content}" for one in past]
    return "\n".join([RECENT, *lines, *([] if new is None else ["", new])])


def read_prefilled(body: bytes) -> Prefilled | None:
    """Read an answer to a prefill; None for what is none.

    Of a worker that does not tell what it had cached, that is what it did not have to add.
    """
    sent = _object(body)
    total, added = _count(sent, "total_tokens_est"), _count(sent, "tokens_added")
    if total is None or added is None:
        return None
    cached = _count(sent, "cached_tokens")
    return Prefilled(total, min(total, max(0, total - added) if cached is None else cached))


def read_denied(status: int, body: bytes, retry_after: str) -> Denied:
    """Read any other answer."""
    reason = _object(body).get("reason")
    wait = retry_after.strip()
    wait_s = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 4 else 0
    known = reason if isinstance(reason, str) else ""
    return Denied(status, known, min(wait_s, 120) if wait_s else None)


def read_said(data: bytes) -> Said:
    """Read one event of an answer."""
    sent = _object(data)
    if sent.get("error") or sent.get("reason") in ("error", "cancelled"):
        denied = Denied(500, str(sent.get("code", "")))
        return Denied(503).failure if denied.no_room else denied.failure
    if sent.get("finished"):
        extra = sent.get("roost")
        tokens = _count(extra, "completion_tokens") if isinstance(extra, dict) else None
        return Over("length" if sent.get("reason") == "length" else "stop", tokens)
    text, seq = sent.get("token"), _count(sent, "seq")
    if not isinstance(text, str) or seq is None:
        return Failure("upstream_error", "The worker sent an event that is none of its protocol.")
    return Token(text, seq)


def _object(body: bytes) -> JsonObject:
    try:
        return parse_object(body)
    except RoostError:
        return {}


def _count(sent: JsonObject, name: str) -> int | None:
    value = sent.get(name)
    number = isinstance(value, int) and not isinstance(value, bool)
    return value if number and isinstance(value, int) and 0 <= value < 2**53 else None
