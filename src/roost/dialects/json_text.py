"""DECIDER: text as JSON that every reader of an event stream gets whole."""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode
# JSON allows these three in a string, and several clients read streams with a function that takes
# them for line ends, which cuts the event in two.
_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
_ESCAPES = tuple((char.encode(), escape.encode()) for char, escape in _LINE_ENDS)


def encode_text(text: str) -> bytes:
    """Encode `text` as a JSON string, quotes included, without any character that ends a line."""
    # Most pieces are ASCII, which a string knows of itself: they pay for nothing below.
    if text.isascii():
        return _encode(text)
    return escape_line_ends(_encode(clean(text)))


def escape_line_ends(encoded: bytes) -> bytes:
    """Escape the line ends that JSON leaves alone; they can only stand inside strings."""
    for char, escape in _ESCAPES:
        encoded = encoded.replace(char, escape)
    return encoded


def clean(text: str) -> str:
    """Replace halves of surrogate pairs, which no UTF-8 can hold, by question marks."""
    return text.encode("utf-8", "replace").decode()
