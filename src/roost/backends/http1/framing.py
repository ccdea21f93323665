"""MACHINE: where the body of an HTTP answer is in the bytes of its connection, and where it ends.

Each framing takes out of what is `held` as much of the body as is whole, and raises `ValueError`
with what is wrong, in words, for bytes that are no HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

LINE_MAX_BYTES = 64 * 1024
PIECE_MAX_BYTES = 32 * 1024 * 1024
NO_HTTP = "its answer is no HTTP"
TOO_LONG = "its answer is too long"


class Framing(Protocol):
    """How far a body is. `over` once all of it is taken; with the connection if `ends_with_it`."""

    over: bool
    ends_with_it: bool

    def take(self, held: bytearray) -> bytes:
        """Take what is whole out of `held`; nothing where more has to come first, or it is over."""
        ...


class Chunked:
    """A body in chunks; trailers are of no interest."""

    ends_with_it = False

    def __init__(self) -> None:
        self.over = False

    def take(self, held: bytearray) -> bytes:
        """Take all chunks that are here whole, as one piece."""
        pieces: list[bytes] = []
        at = 0
        while (line := held.find(b"\r\n", at)) >= 0:
            size = _whole(held[at:line].partition(b";")[0], 16)
            if size > PIECE_MAX_BYTES:
                raise ValueError(TOO_LONG)
            if not size:
                end = held.find(b"\r\n\r\n", line)
                self.over, at = end >= 0, (end + 4 if end >= 0 else at)
                break
            start, end = line + 2, line + 4 + size
            if end > len(held):
                break
            pieces.append(bytes(held[start : end - 2]))
            at = end
        del held[:at]
        if line < 0 and len(held) > LINE_MAX_BYTES:
            raise ValueError(NO_HTTP)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Sized:
    """A body whose length was told."""

    ends_with_it = False

    def __init__(self, size: int) -> None:
        self._left = size
        self.over = size == 0

    def take(self, held: bytearray) -> bytes:
        """Take what is here of it."""
        piece = bytes(held[: self._left])
        del held[: self._left]
        self._left -= len(piece)
        self.over = self._left == 0
        return piece


class Open:
    """A body that ends where its connection does."""

    ends_with_it = True

    def __init__(self) -> None:
        self.over = False

    def take(self, held: bytearray) -> bytes:
        """Take all there is."""
        piece = bytes(held)
        held.clear()
        return piece


def framing_of(headers: Mapping[str, str]) -> Framing:
    """Say how the body behind these headers, with names in lower case, is framed."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Chunked()
    if "content-length" in headers:
        return Sized(_whole(headers["content-length"], 10))
    return Open()


def _whole(text: str | bytes | bytearray, base: int) -> int:
    try:
        value = int(text, base)
    except ValueError:
        raise ValueError(NO_HTTP) from None
    if value < 0:
        raise ValueError(NO_HTTP)
    return value
