"""Events come out the same whatever the pieces, under a limit, and what is written can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import Failure
from roost.text.sse import (
    SseEvent,
    SseItem,
    SseParser,
    encode_comment,
    encode_data,
)


def _parse(data: bytes, *, size: int = 0, limit: int = 1 << 20) -> list[SseItem]:
    parser = SseParser(limit)
    step = size or max(1, len(data))
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    return [item for piece in pieces for item in parser.push(piece)]


def _reference(data: bytes) -> list[SseItem]:
    """Read the whole stream at once, by the letter of the rules."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[SseItem] = []
    event, last_id = "", ""
    lines: list[bytes] = []
    for line in text.split(b"\n")[:-1]:
        if not line:
            found += [SseEvent(b"\n".join(lines), event, last_id)] if lines else []
            event, lines = "", []
            continue
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            lines.append(value)
        if name == b"event":
            event = value.decode("utf-8", "replace")
        if name == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return found


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_and_piece_size(end: bytes, size: int) -> None:
    """A stream with all features reads the same with any line end, in any pieces."""
    lines = [
        b"\xef\xbb\xbf: hello",
        b"data: one",
        b"",
        b"event: error",
        b"id: 7",
        b"data:two",
        b"data:  three",
        b"data",
        b"retry: 10",
        b"nonsense",
        b"",
        b"event: lost",
        b"",
        b"data",
        b"",
        b"",
    ]
    assert _parse(end.join(lines), size=size) == [
        SseEvent(b"one"),
        SseEvent(b"two\n three\n", "error", "7"),
        SseEvent(b"", "", "7"),
    ]


def test_an_event_is_given_out_with_its_blank_line() -> None:
    """The event does not wait for the next one, nor for the LF of a CRLF."""
    parser = SseParser(100)
    assert parser.push(b"data: x\r\n\r") == [SseEvent(b"x")]
    assert parser.push(b"\ndata: y\n") == []
    assert parser.push(b"\n") == [SseEvent(b"y")]


def test_the_end_inside_an_event_is_seen() -> None:
    """A stream cut inside an event says so; one that ends after a blank line is clean."""
    for data, cut in ((b"", False), (b"data: x\n\n", False), (b"data: x\n", True)):
        parser = SseParser(100)
        parser.push(data)
        assert parser.finish() is cut
    for rest in (b"dat", b"event: e\n", b"\xef\xbb"):
        parser = SseParser(100)
        parser.push(rest)
        assert parser.finish()


def test_an_id_with_nul_is_ignored() -> None:
    """The rules ignore an id that holds a NUL, and keep the one before."""
    assert _parse(b"id: a\nid: b\0\ndata: x\n\n") == [SseEvent(b"x", "", "a")]


@pytest.mark.parametrize("size", [0, 1, 5])
def test_an_event_over_the_limit_fails_the_stream(size: int) -> None:
    """Events before it are given out, then one failure, then nothing more."""
    data = b"data: ok\n\ndata: 0123456789\n\ndata: lost\n\n"
    good, failure = _parse(data, size=size, limit=12)
    assert good == SseEvent(b"ok")
    assert isinstance(failure, Failure)
    assert failure.reason == "upstream_error"
    assert "12 bytes" in failure.message


@pytest.mark.parametrize("size", [0, 1, 5])
def test_many_lines_count_together(size: int) -> None:
    """An event of many short lines is limited as well; comments between them do not count."""
    (failure,) = _parse(b"data: a\n" * 10 + b"\n", size=size, limit=20)
    assert isinstance(failure, Failure)
    comments = b": keep-alive\n" * 100
    assert _parse(comments + b"data: a\n\n", size=size, limit=20) == [SseEvent(b"a")]


def test_a_line_that_never_ends_is_not_kept() -> None:
    """Bytes without a line end are refused at the limit, and afterwards nothing is stored."""
    parser = SseParser(1000)
    items = [item for _ in range(300) for item in parser.push(b"0123456789")]
    assert [type(item) for item in items] == [Failure]
    assert not parser.finish()


def test_the_limit_is_positive() -> None:
    """A parser that could hold nothing is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least 1"):
        SseParser(0)


_bytes = st.lists(
    st.sampled_from(
        [b"data", b"event", b"id", b":", b" ", b"\n", b"\r", b"\r\n", b"x", b"\xef\xbb\xbf", b"\0"]
    ),
    max_size=30,
).map(b"".join)


@given(_bytes, st.lists(st.integers(0, 60), max_size=8))
def test_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    """Any stream in any pieces gives the events of the reference."""
    parser = SseParser(1 << 20)
    bounds = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(bounds)]
    assert [item for piece in pieces for item in parser.push(piece)] == _reference(data)


@given(_bytes, st.integers(1, 7), st.integers(1, 30))
def test_the_limit_does_not_depend_on_the_pieces(data: bytes, size: int, limit: int) -> None:
    """Once every line has its end, the same streams fail at the same place in any pieces."""
    data += b"\n"
    assert _parse(data, size=size, limit=limit) == _parse(data, limit=limit)


def test_frames() -> None:
    """Frames have the bytes that clients expect."""
    assert encode_data(b"[DONE]") == b"data: [DONE]\n\n"
    assert encode_comment("waiting") == b": waiting\n\n"
    assert encode_comment() == b": \n\n"


@given(st.binary(max_size=40), st.text("ab\r\n:", max_size=10))
def test_what_is_written_can_be_read(data: bytes, comment: str) -> None:
    """Data comes back with its line ends as LF, and comments are never taken for data."""
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    written = encode_comment(comment) + b"event: e\n" + encode_data(data) + encode_data(data)
    assert _parse(written) == [SseEvent(expected, "e"), SseEvent(expected)]
