"""Decoding in pieces equals decoding at once, and only a trailing character waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.text.utf8 import Utf8Decoder


def _decode(pieces: list[bytes]) -> str:
    decoder = Utf8Decoder()
    return "".join(decoder.push(piece) for piece in pieces) + decoder.finish()


def test_one_byte_at_a_time() -> None:
    """Characters of two, three and four bytes survive arriving byte by byte."""
    text = "naïve 😀 歪 שלום"
    assert _decode([bytes([byte]) for byte in text.encode()]) == text


def test_only_the_unfinished_character_is_held() -> None:
    """Text in front of an unfinished character comes out at once."""
    decoder = Utf8Decoder()
    assert decoder.push(b"ab\xf0\x9f") == "ab"
    assert decoder.push(b"\x98") == ""
    assert decoder.push(b"\x80c") == "😀c"
    assert decoder.finish() == ""


def test_an_unfinished_end_is_one_replacement() -> None:
    """Three of four bytes at the end become a single U+FFFD, and the decoder starts afresh."""
    decoder = Utf8Decoder()
    assert decoder.push("x😀".encode()[:-1]) == "x"
    assert decoder.finish() == "\ufffd"
    assert decoder.push(b"y") + decoder.finish() == "y"


def test_invalid_bytes_are_replaced() -> None:
    """A byte that can begin nothing is replaced, and what follows is not swallowed."""
    assert _decode([b"a\xff", b"b\xc3", b"(c"]) == "a\ufffdb\ufffd(c"


@given(st.lists(st.binary(max_size=6), max_size=12))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    """Any bytes in any pieces give what decoding them at once gives."""
    assert _decode(pieces) == b"".join(pieces).decode("utf-8", "replace")
