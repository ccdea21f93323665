"""Answers to the byte: when they came, what they told, and how they ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.load.reading import Reading
from roost.bench.load.sample import Sample


def event(**fields: object) -> bytes:
    """Write an event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def said(text: str) -> bytes:
    """Write a piece of content."""
    return event(choices=[{"delta": {"content": text}}])


FINISH = event(choices=[{"delta": {}, "finish_reason": "stop"}])
USAGE = event(
    choices=[],
    usage={
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
    roost={"placement": "warm", "node": "n1", "queue_ms": 250, "more": True},
)
DONE = b"data: [DONE]\n\n"
WHOLE = (event(choices=[{"delta": {"role": "assistant"}}]), said("a"), said("b"), FINISH, USAGE)


def read(*pieces: bytes, whole: bool = True, status: int = 200) -> Sample:
    """Read pieces that come a second apart, the first at 11; due at 10, sent at 10.5."""
    reading = Reading("m", 10.0, 10.5)
    reading.on_head(status, "3")
    for number, piece in enumerate(pieces):
        reading.on_data(piece, 11.0 + number)
    return reading.ended(20.0, whole=whole)


def test_times_count_from_when_it_was_due() -> None:
    """A first chunk without content is no first token; the gap is between the two that have."""
    sample = read(*WHOLE, DONE)
    assert sample == Sample(
        "m",
        10.0,
        0.5,
        10.0,
        "ok",
        status=200,
        ttft_s=2.0,
        gaps_s=(1.0,),
        text_chunks=2,
        prompt_tokens=10,
        cached_tokens=4,
        completion_tokens=3,
        queue_s=0.25,
        placement="warm",
        node="n1",
        retry_after="3",
    )
    assert sample.tpot_s == 4.0


@given(st.lists(st.integers(0, 600), max_size=12))
def test_cuts_do_not_matter(cuts: Sequence[int]) -> None:
    """However the bytes are cut, what was told and how it ended are the same."""
    data = b"".join((*WHOLE, DONE))
    bounds = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    pieces = [data[a:b] for a, b in pairwise(bounds)]
    sample = read(*pieces)
    assert (sample.outcome, sample.text_chunks, sample.completion_tokens) == ("ok", 2, 3)


@pytest.mark.parametrize(
    ("pieces", "whole", "why"),
    [
        ((*WHOLE, DONE), False, "cut"),
        (WHOLE, True, "no_done"),
        ((said("a"), DONE), True, "no_finish_reason"),
        ((said("a"),), False, "cut"),
        ((), True, "no_finish_reason"),
        (
            (said("a"), event(error={"code": "runtime_died"}), DONE),
            True,
            "error_event:runtime_died",
        ),
        ((said("a"), event(error={"type": "server_error"})), True, "error_event:server_error"),
        ((said("a"), event(error="it broke")), True, "error_event:unnamed"),
        ((said("a"), b"data: {nonsense\n\n", FINISH, DONE), True, "bad_event"),
        ((b"data: " + b"x" * 1_100_000,), True, "event_too_long"),
    ],
)
def test_a_stream_without_its_end_is_a_failure(
    pieces: tuple[bytes, ...], whole: bool, why: str
) -> None:
    """Three of the four signs of an end are not enough, and an error is none of them."""
    sample = read(*pieces, whole=whole)
    assert (sample.outcome, sample.why) == ("failed", why)


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_refusal_is_shed(status: int) -> None:
    """At once, with its status and when to come again."""
    sample = read(b'{"error":{"code":"overloaded"}}', status=status)
    assert (sample.outcome, sample.why) == ("shed", f"status_{status}")
    assert sample.retry_after == "3"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"error":{"code":"model_not_found"}}', "status_404:model_not_found"),
        (b"<html>", "status_404"),
        (b"{}", "status_404"),
    ],
)
def test_another_status_is_a_failure_by_its_code(body: bytes, why: str) -> None:
    """The code is what the server says, if it says one."""
    sample = read(body, status=404)
    assert (sample.outcome, sample.why) == ("failed", why)


def test_reasoning_and_calls_are_content() -> None:
    """A model that thinks or calls a tool first has begun to speak; completions have `text`."""
    thinking = event(choices=[{"delta": {"reasoning_content": "hm"}}])
    calling = event(choices=[{"delta": {"tool_calls": [{"index": 0}]}}])
    completing = event(choices=[{"text": "x"}])
    assert read(thinking, calling, completing, FINISH, DONE).text_chunks == 3


def test_what_is_not_told_is_not_known() -> None:
    """Another server tells no usage and no placement: none of it becomes 0."""
    sample = read(said("a"), FINISH, DONE)
    assert sample.outcome == "ok"
    unknown = (sample.prompt_tokens, sample.cached_tokens, sample.completion_tokens)
    assert unknown == (None, None, None)
    assert (sample.queue_s, sample.placement, sample.tpot_s) == (None, "", None)
