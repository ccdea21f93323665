"""Cutting a stream of events between events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.gateway.upstream.tail import Tail

EVENT = b"data: {}\n\n"


def test_whole_events_pass_at_once() -> None:
    """The usual case holds nothing."""
    tail = Tail(100)
    assert tail.push(EVENT + EVENT) == EVENT + EVENT
    assert tail.finish() == b""


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_half_events_wait(end: bytes) -> None:
    """What is not finished stays, for every kind of line end."""
    tail = Tail(100)
    assert tail.push(b"data: 1" + end + b"data: 2" + end[:1]) == b"data: 1" + end
    assert tail.push(end[1:] + b"data") == b"data: 2" + end
    assert tail.push(b"") == b""
    assert tail.finish() == b"data"


@given(
    st.lists(st.sampled_from([EVENT, b": x\n\n", b"data: long\ndata: er\n\n"]), max_size=6),
    st.lists(st.integers(0, 80), max_size=8),
)
def test_nothing_is_lost_and_events_stay_whole(events: list[bytes], cuts: list[int]) -> None:
    """However the bytes are cut, what comes out is whole events, and in the end everything."""
    stream, tail, out = b"".join(events), Tail(1000), b""
    places = [0, *sorted(min(c, len(stream)) for c in cuts), len(stream)]
    for start, stop in pairwise(places):
        out += tail.push(stream[start:stop])
        assert not out or out.endswith(b"\n\n")
        assert stream.startswith(out)
    assert out + tail.finish() == stream


def test_very_long_events_pass_in_pieces() -> None:
    """An event over the limit is not held; an event of ours then needs a separator."""
    tail = Tail(10)
    assert tail.push(b"data: " + b"x" * 20) == b"data: " + b"x" * 20
    assert tail.separator() == b"\n\n"
    assert tail.push(b"x\n\n") == b"x\n\n"
    assert tail.push(EVENT) == EVENT


@pytest.mark.parametrize(
    ("data", "final"),
    [
        (b"data: [DONE]\n\n", True),
        (EVENT + b"data: [DONE]\r\n\r\n", True),
        (b'event: message_stop\ndata: {"type":"message_stop"}\n\n', True),
        (b'event: response.completed\ndata: {"type":"response.completed"}\n\n', True),
        (b"data: [DONE]\n\n" + EVENT, False),
        (b'data: {"content":"[DONE]"}\n\n', False),
        (b'data: {"content":"event: message_stop"}\n\n', False),
        (EVENT, False),
        (b"", False),
    ],
)
def test_final_event(data: bytes, final: bool) -> None:
    """Only the event itself ends an answer, not a text that looks like it."""
    tail = Tail(100)
    tail.push(data)
    assert tail.final_seen is final


def test_comments_are_no_data() -> None:
    """Signs of life are no answer."""
    tail = Tail(100)
    tail.push(b": keep-alive\n\n")
    assert not tail.data_seen
    tail.push(EVENT)
    assert tail.data_seen
