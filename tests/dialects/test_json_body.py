"""A body is one JSON object, or a 400 that says where it is broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.dialects.json_body import described, parse_object
from roost.dialects.json_text import encode_text
from roost.errors import RoostError


def _message(body: bytes) -> str:
    with pytest.raises(RoostError) as caught:
        parse_object(body)
    assert caught.value.failure.reason == "bad_request"
    return caught.value.failure.message


def test_an_object_is_parsed() -> None:
    """Unicode, escapes and duplicate keys are read as JSON says; the last duplicate counts."""
    assert parse_object('{"a": "é😀", "b": 1, "b": [2]}'.encode()) == {"a": "é😀", "b": [2]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\xff"}',
        b'{"\xed\xa0\x80": 1}',
        b'{"a": "\\ud800"}',
        b'{"a": 01}',
        b'{"a": 1} {"b": 2}',
        b"model=m&messages=%5B%5D",
    ],
)
def test_broken_json(body: bytes) -> None:
    """What is not JSON, in UTF-8, within the range of a double, is refused with a reason."""
    assert "not valid JSON" in _message(body)


@pytest.mark.parametrize(
    "body", [b"[" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b'{"a":' + b"[" * 99_999]
)
def test_deep_nesting(body: bytes) -> None:
    """Depth is an error of the caller and not a crash."""
    assert "nested too deeply" in _message(body)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"[]", "an array"), (b"null", "null"), (b"5", "5"), (b'"x"', "a string"), (b"true", "true")],
)
def test_only_an_object(body: bytes, kind: str) -> None:
    """Valid JSON of another kind is refused by its kind."""
    assert _message(body) == f"The body must be a JSON object, got {kind}."


@given(st.binary(max_size=40))
def test_any_bytes(body: bytes) -> None:
    """Whatever arrives, the outcome is an object or a 400 that quotes none of it."""
    try:
        assert isinstance(parse_object(body), dict)
    except RoostError as error:
        refused = error.failure
    else:
        return
    assert refused.status == 400


def test_values_are_described_without_quoting() -> None:
    """Messages name what was sent; a text is never part of them, a number only when it is short."""
    values: list[object] = [None, True, 3, 0.5, 10**40, "secret", "", [], {}]
    assert [described(value) for value in values] == [
        "null",
        "true",
        "3",
        "0.5",
        "a very large number",
        "a string",
        "an empty string",
        "an array",
        "an object",
    ]


def test_encoded_text_ends_no_line() -> None:
    """Characters that some readers take for line ends are escaped, and half a pair is replaced."""
    assert encode_text('a"\n') == b'"a\\"\\n"'
    assert encode_text("é\u2028\u2029\x85") == '"é\\u2028\\u2029\\u0085"'.encode()
    assert encode_text("\ud800é") == '"?é"'.encode()


@given(st.text())
def test_encoded_text_comes_back(text: str) -> None:
    """Any text is one line of JSON that reads back as that text."""
    encoded = encode_text(text)
    assert len(encoded.decode().splitlines()) == 1
    assert parse_object(b'{"t":' + encoded + b"}") == {"t": text}
