"""MACHINE: the reply to one turn, as text for a terminal and a line that says how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from roost.text.screen import in_one_line, screened

Ending: TypeAlias = Literal["", "stop", "length", "stopped", "failed"]

PACE_LEAST_S = 0.05
"""What comes in less came in one piece, and has no pace."""


class _Error(msgspec.Struct):
    message: str = ""


class Facts(msgspec.Struct, frozen=True):
    """How a turn was served, as far as the gateway has told."""

    node: str = ""
    placement: str = ""
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Event(msgspec.Struct):
    token: str = ""
    finished: bool = False
    reason: str = ""
    error: str = ""
    code: str = ""
    roost: Facts | None = None


class _Refusal(msgspec.Struct):
    error: str | _Error = ""
    message: str = ""
    reason: str = ""


class Answer:
    """Takes what comes of one reply; times are seconds of any clock that only goes on.

    `begun` once there is an answer and not a refusal; `failure` is what to tell where `ending` is
    "failed".
    """

    def __init__(self) -> None:
        self.ending: Ending = ""
        self.failure = ""
        self.begun = False
        self._request = ""
        self._facts = Facts()
        self._began_s = self._ended_s = 0.0
        self._spoke = False
        self._fresh = True

    @property
    def over(self) -> bool:
        """Whether the reply has said how it ended."""
        return bool(self.ending)

    def on_head(self, headers: Mapping[str, str]) -> None:
        """Take the reply's headers, their names in lower case."""
        cached = headers.get("x-roost-cached-tokens", "")
        self.begun = True
        self._request = in_one_line(headers.get("x-roost-request-id", ""))
        self._facts = Facts(
            node=headers.get("x-roost-node", ""),
            placement=headers.get("x-roost-placement", ""),
            cached_tokens=int(cached) if cached.isdecimal() and cached.isascii() else None,
        )

    def on_refused(self, status: int, body: bytes) -> None:
        """Take a reply that is no answer."""
        try:
            told = msgspec.json.decode(body, type=_Refusal)
        except msgspec.MsgspecError:
            told = _Refusal()
        error = told.error if isinstance(told.error, str) else told.error.message
        said = told.message or error or f"The gateway answered {status}."
        if told.reason == "session_full":
            said += " /new begins another conversation."
        self.on_failed(said)

    def on_event(self, data: bytes, now: float) -> str:
        """Take one event and return what of it is for the screen."""
        try:
            event = msgspec.json.decode(data, type=_Event)
        except msgspec.MsgspecError:
            self.on_failed("The gateway said something that is no answer.")
            return ""
        if event.roost is not None:
            self._facts = event.roost
        if event.error:
            self.on_failed(f"{event.error} ({event.code or event.reason}).")
        elif event.finished:
            self.ending = "length" if event.reason == "length" else "stop"
        return self._text(event.token, now) if event.token else ""

    def on_end(self) -> None:
        """The reply ended as replies do; a gateway may be told to send no last event."""
        self.ending = self.ending or "stop"

    def on_stopped(self) -> None:
        """The person has stopped it."""
        self.ending = self.ending or "stopped"

    def on_failed(self, failure: str) -> None:
        """It is not complete, for this reason."""
        if not self.ending:
            hint = f" `roost why {self._request}` may know more." if self._request else ""
            self.ending, self.failure = "failed", in_one_line(failure) + hint

    def close(self) -> str:
        """Return what brings the cursor to the beginning of a line."""
        return "" if self._fresh else "\n"

    def line(self) -> str:
        """Say in one line where the answer came from, what of it was cached, and how quick it was.

        "" where nobody has begun to answer.
        """
        parts = [*self._whereabouts(), *self._work(), *self._pace()]
        if self.ending == "length":
            parts.append("cut at --max-tokens")
        if self.ending == "stopped":
            parts.append("stopped")
        return " · ".join(parts)

    def _text(self, token: str, now: float) -> str:
        if not self._spoke:
            self._spoke, self._began_s = True, now
        self._ended_s = now
        shown = screened(token)
        self._fresh = shown.endswith("\n")
        return shown

    def _whereabouts(self) -> list[str]:
        facts = self._facts
        return [in_one_line(text) for text in (facts.node, facts.placement) if text]

    def _work(self) -> list[str]:
        facts, parts = self._facts, []
        if facts.cached_tokens is not None:
            parts.append(f"{facts.cached_tokens} tokens cached")
            if facts.prompt_tokens is not None:
                parts.append(f"{facts.prompt_tokens - facts.cached_tokens} prefilled")
        return parts

    def _pace(self) -> list[str]:
        """Count tokens; their pace is that from the first to the last, as it was seen here."""
        tokens, took_s = self._facts.completion_tokens, self._ended_s - self._began_s
        if tokens is None:
            return []
        if took_s < PACE_LEAST_S:
            return [f"{tokens} said"]
        return [f"{tokens} said, {(tokens - 1) / took_s:.1f} tokens/s"]
