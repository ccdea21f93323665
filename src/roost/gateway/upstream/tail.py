"""MACHINE: cuts a stream of events only between events, without looking into them.

If a server is cut off in mid-event, half an event must not have gone out: what follows it, the
error event, would be glued to it. So the unfinished end of what has arrived is held back; in the
usual case, where every read ends with an event, that is nothing.
"""

from __future__ import annotations

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_FINAL = (
    *(b"data: [DONE]", b"data:[DONE]", b"event: message_stop", b"event:message_stop"),
    *(b"event: response.completed", b"event: response.incomplete", b"event: response.failed"),
    *(b"event:response.completed", b"event:response.incomplete", b"event:response.failed"),
    *(b"event: error", b"event:error"),
)


class Tail:
    """Holds back at most `held_max_bytes`; a longer event passes in pieces."""

    def __init__(self, held_max_bytes: int) -> None:
        self._held_max_bytes = held_max_bytes
        self._held = b""
        self._last = b""
        self._broken_event = False
        self._data_seen = False

    @property
    def data_seen(self) -> bool:
        """Whether an event with data has passed, and not only comments."""
        return self._data_seen

    @property
    def final_seen(self) -> bool:
        """Whether the last whole event that has passed is one that ends an answer."""
        block = self._last.rstrip(b"\r\n").replace(b"\r\n", b"\n").rpartition(b"\n\n")[2]
        return block.startswith(_FINAL)

    def push(self, data: bytes) -> bytes:
        """Take what has arrived and return what may go on."""
        if self._held:
            data, self._held = self._held + data, b""
        if not data.endswith(_ENDS):
            data = self._cut(data)
        if data:
            self._last = data
            self._data_seen = self._data_seen or b"data:" in data
        return data

    def finish(self) -> bytes:
        """Return what is held, at a clean end."""
        held, self._held = self._held, b""
        self._data_seen = self._data_seen or b"data:" in held
        return held

    def separator(self) -> bytes:
        """Return what has to stand before an event of our own."""
        return b"\n\n" if self._broken_event else b""

    def _cut(self, data: bytes) -> bytes:
        end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in _ENDS)
        if end == 0 and len(data) > self._held_max_bytes:
            self._broken_event = True
            return data
        self._broken_event = self._broken_event and end == 0
        self._held = data[end:]
        return data[:end]
