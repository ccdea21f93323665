"""MACHINE: the events of one stream become the reply of /coordinator/infer.

    data: {"token": "…", "seq": 0}          one for each piece of text, counted from 0
    data: {"finished": true, "reason": "stop", "seq": n}

What was dropped for a slow reader leaves a gap in `seq` and is counted in the last event. An answer
that is cut ends in one event that has `error` as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roost.core.events import Delta, Failed, Finished, StreamEvent
from roost.dialects.json_text import encode_text, escape_line_ends
from roost.dialects.openai.envelope import Fact
from roost.errors import Failure
from roost.text import sse

LOST = "Worker connection lost during decode"
FAILED = "Worker decode failed"
_encode = msgspec.json.Encoder().encode


class InferStream:
    """Encodes one reply; `terminal` False leaves out what early clients do not know."""

    def __init__(self, *, terminal: bool = True) -> None:
        self._terminal = terminal
        self._seq = 0
        self._dropped = 0
        self._roost: dict[str, Fact] = {}
        self.ended = False

    @property
    def broken(self) -> bool:
        """Whether its end was a failure: an answer is text, and all of it is of use."""
        return False

    def head(self) -> bytes:
        """Give nothing: there is no event in front of the text."""
        return b""

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if isinstance(event, Delta):
            return self._token(event.text)
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: some clients take every clean one for success."""
        return False

    def skipped(self, count: int) -> None:
        """Leave out the numbers of so many pieces that are not sent."""
        self._seq += count
        self._dropped += count

    def finish(self, finished: Finished) -> bytes:
        """Give the last event of a complete answer."""
        if self._roost:
            usage = finished.usage
            self._roost |= {"prompt_tokens": usage.prompt_tokens}
            self._roost |= {"completion_tokens": usage.completion_tokens}
        return self._end({}, finished.reason)

    def error(self, failure: Failure) -> bytes:
        """Give the last event of an answer that is cut."""
        text = LOST if failure.reason == "node_lost" else FAILED
        cancelled = failure.reason == "cancelled"
        return self._end(
            {"error": text, "code": failure.reason}, "cancelled" if cancelled else "error"
        )

    def comment(self, text: str) -> bytes:
        """Give a comment that keeps a waiting connection alive."""
        return b"" if self.ended else sse.encode_comment(text)

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the last event."""
        self._roost = dict(facts)

    def _token(self, text: str) -> bytes:
        if self.ended or not text:
            return b""
        encoded = b'data: {"token":%b,"seq":%d}\n\n' % (encode_text(text), self._seq)
        self._seq += 1
        return encoded

    def _end(self, error: dict[str, str], reason: str) -> bytes:
        if self.ended:
            return b""
        self.ended = True
        last: dict[str, object] = {**error}
        if self._terminal:
            last |= {"finished": True, "reason": reason, "seq": self._seq}
            last |= {"dropped": self._dropped} if self._dropped else {}
            last |= {"roost": self._roost} if self._roost else {}
        return sse.encode_data(escape_line_ends(_encode(last))) if last else b""
