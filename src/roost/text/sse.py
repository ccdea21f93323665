"""MACHINE: server-sent events in both directions: bytes to events under a size limit, and back.

Reading follows the WHATWG rules for event streams: CRLF, LF or CR end a line, a blank line ends an
event, comments and unknown fields are skipped, an event without data is none, a byte order mark at
the very beginning is dropped. Data stays bytes, because what follows is a JSON parser that checks
UTF-8 itself.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from roost.errors import Failure

_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True):
    """One event: its data lines joined by LF, its type ("" for `message`) and the last id sent."""

    data: bytes
    event: str = ""
    id: str = ""


SseItem: TypeAlias = SseEvent | Failure


class SseParser:
    """An incremental parser that holds at most one event of `max_event_bytes` bytes.

    Work is linear in the bytes pushed, however small the pieces are.
    """

    def __init__(self, max_event_bytes: int) -> None:
        if max_event_bytes < 1:
            raise ValueError("max_event_bytes must be at least 1")
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = self._id = ""
        self._begun = self._skip_lf = self._failed = False
        self._head = b""

    def push(self, data: bytes) -> list[SseItem]:
        """Take a piece and return the events it completes.

        An event over the limit yields an `upstream_error` failure as the last item of all.
        """
        if self._is_whole_event(data):
            return [SseEvent(data[6:-2], "", self._id)]
        data = self._unmarked(data)
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if self._failed or not data:
            return []
        lines = data.splitlines()
        last = data[-1:]
        self._skip_lf = last == b"\r"
        rest = b"" if last in b"\r\n" else lines.pop()
        found: list[SseItem] = []
        for line in lines:
            found += self._on_line(self._completed(line))
            if self._failed:
                return found
        self._line += rest
        if self._size + len(self._line) > self._max_event_bytes:
            found.append(self._overflow())
        return found

    def finish(self) -> bool:
        """Say whether the stream ended inside an event, which a reader then has to discard."""
        return bool(self._head or self._line or self._data or self._event)

    def _is_whole_event(self, data: bytes) -> bool:
        """Whether this is one line of data and its end, with nothing before it: most pieces are."""
        is_between = self._begun and not (self._skip_lf or self._line or self._data or self._event)
        return (
            is_between
            and not (self._size or self._failed)
            and data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n\n")
            and b"\r" not in data
            and len(data) - 2 <= self._max_event_bytes
        )

    def _unmarked(self, data: bytes) -> bytes:
        """Drop the mark at the beginning; hold back what may be the first part of one."""
        if self._begun:
            return data
        data = self._head + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._begun, self._head = True, b""
        return data.removeprefix(_BOM)

    def _completed(self, line: bytes) -> bytes:
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        return line

    def _on_line(self, line: bytes) -> list[SseItem]:
        if not line:
            return self._dispatch()
        if self._size + len(line) > self._max_event_bytes:
            return [self._overflow()]
        # Comments keep a connection alive: thousands may stand in front of one event.
        if line.startswith(b":"):
            return []
        self._size += len(line)
        name, _, value = line.partition(b":")
        self._on_field(name, value.removeprefix(b" "))
        return []

    def _on_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")

    def _dispatch(self) -> list[SseItem]:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        return [SseEvent(b"\n".join(data), event, self._id)] if data else []

    def _overflow(self) -> Failure:
        self._failed = True
        self._line.clear()
        self._data, self._event = [], ""
        limit = self._max_event_bytes
        return Failure("upstream_error", f"The upstream sent an event of over {limit} bytes.")


def encode_data(data: bytes) -> bytes:
    """Frame `data` as an event; line ends inside it become separate data lines."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_lines(data))
    return b"data: " + data + b"\n\n"


def blocks(data: bytes) -> list[bytes]:
    """Split what the functions here have made into its events and comments, each whole."""
    return [block + b"\n\n" for block in data.split(b"\n\n")[:-1]]


def encode_comment(text: str = "") -> bytes:
    """Frame `text` as a comment, which readers skip: a sign of life for proxies and time limits."""
    return b"".join(b": " + line + b"\n" for line in _lines(text.encode())) + b"\n"


def _lines(data: bytes) -> list[bytes]:
    """Split at line ends, keeping an empty last line, which `splitlines` would drop."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
