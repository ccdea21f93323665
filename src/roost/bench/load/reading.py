"""MACHINE: reads the answer to one streamed chat, and judges how it ended.

It is told of bytes and of their times, and asks nobody for them. A stream counts as whole when a
choice has finished, `[DONE]` was sent, no error was told, and HTTP said that this is all. Servers
and proxies that lose an answer often manage three of the four.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from roost.bench.load.sample import Outcome, Sample
from roost.text.sse import SseEvent, SseParser

EVENT_MAX_BYTES = 1 << 20
SHED = frozenset({429, 503, 529})
ERROR_BODY_MAX_BYTES = 1 << 16


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: object = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    text: str | None = None
    finish_reason: str | None = None

    @property
    def speaks(self) -> bool:
        """Whether there is something of an answer in it."""
        delta = self.delta
        said = self.text or delta.content or delta.reasoning_content
        return bool(said or delta.tool_calls)


class _Error(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None


class _Facts(msgspec.Struct):
    """What roost tells about a request; other servers tell nothing of it."""

    placement: str = ""
    node: str = ""
    queue_ms: float | None = None


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    error: _Error | str | None = None
    roost: _Facts | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Reading:
    """The answer to one request that was due at `due_s` and sent at `sent_s`."""

    def __init__(self, model: str, due_s: float, sent_s: float) -> None:
        self._model = model
        self._due_s = due_s
        self._late_s = sent_s - due_s
        self._events = SseParser(EVENT_MAX_BYTES)
        self._status = 0
        self._retry_after = self._error = ""
        self._refusal = b""
        self._spoke_s: list[float] = []
        self._usage = _Usage()
        self._facts = _Facts()
        self._finished = self._done = False
        self.text = ""

    def on_head(self, status: int, retry_after: str = "") -> None:
        """Take the status."""
        self._status, self._retry_after = status, retry_after

    def on_data(self, data: bytes, now_s: float) -> None:
        """Take a piece of the body, however it is cut."""
        if self._status != 200:
            self._refusal = (self._refusal + data)[:ERROR_BODY_MAX_BYTES]
            return
        for item in self._events.push(data):
            if not isinstance(item, SseEvent):
                self._error = self._error or "event_too_long"
            elif item.data == b"[DONE]":
                self._done = True
            else:
                self._on_chunk(item.data, now_s)

    def _on_chunk(self, data: bytes, now_s: float) -> None:
        try:
            chunk = _decode(data)
        except msgspec.MsgspecError:
            self._error = self._error or "bad_event"
            return
        if chunk.error is not None:
            self._error = self._error or f"error_event:{_code(chunk.error)}"
        if any(choice.speaks for choice in chunk.choices):
            self._spoke_s.append(now_s)
            self.text += "".join(c.text or c.delta.content or "" for c in chunk.choices)
        self._finished = self._finished or any(c.finish_reason for c in chunk.choices)
        self._usage = chunk.usage or self._usage
        self._facts = chunk.roost or self._facts

    def ended(self, now_s: float, *, whole: bool, why: str = "") -> Sample:
        """Judge it; `whole` if HTTP said that this was all, else `why` it ended."""
        outcome, reason = self._judged(why, whole=whole)
        usage, spoke = self._usage, self._spoke_s
        details, queue_ms = usage.prompt_tokens_details, self._facts.queue_ms
        return Sample(
            self._model,
            self._due_s,
            self._late_s,
            now_s - self._due_s,
            outcome,
            reason,
            self._status,
            spoke[0] - self._due_s if spoke else None,
            tuple(b - a for a, b in pairwise(spoke)),
            len(spoke),
            usage.prompt_tokens,
            None if details is None else details.cached_tokens,
            usage.completion_tokens,
            None if queue_ms is None else queue_ms / 1000,
            self._facts.placement,
            self._facts.node,
            self._retry_after,
        )

    def _judged(self, why: str, *, whole: bool) -> tuple[Outcome, str]:
        if self._status in SHED:
            return "shed", f"status_{self._status}"
        if self._status and self._status != 200:
            return "failed", f"status_{self._status}:{_told(self._refusal)}".rstrip(":")
        if self._error:
            return "failed", self._error
        if not whole:
            return "failed", why or "cut"
        if not self._finished:
            return "failed", "no_finish_reason"
        return ("ok", "") if self._done else ("failed", "no_done")


def _code(error: _Error | str) -> str:
    if isinstance(error, str):
        return "unnamed"
    return str(error.code or error.type or "unnamed")


def _told(body: bytes) -> str:
    try:
        error = _decode(body).error
    except msgspec.MsgspecError:
        return ""
    return "" if error is None else _code(error)
