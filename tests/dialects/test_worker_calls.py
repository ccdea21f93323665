"""A worker's routes from the coordinator's side: what is asked, and what answers mean."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId
from roost.core.request import Message, Sampling
from roost.dialects.system1.worker import read_decode, read_prefill
from roost.dialects.system1.worker_calls import (
    Denied,
    Over,
    Prefilled,
    Token,
    decode_body,
    new_prompt,
    prefill_body,
    read_denied,
    read_prefilled,
    read_said,
)
from roost.errors import Failure


def body(**fields: object) -> bytes:
    """A JSON object."""
    return json.dumps(fields).encode()


def test_what_is_asked_is_what_our_own_worker_reads() -> None:
    """Both sides of the protocol agree."""
    asked = read_prefill(prefill_body(("s-1", ModelId("m"), "continue"), "hi", 7))
    assert not isinstance(asked, str)
    assert (asked.session, asked.model, asked.mode) == ("s-1", ModelId("m"), "continue")
    assert (asked.prompt, asked.max_tokens) == ("hi", 7)
    decode = read_decode(decode_body("s-1", 7, Sampling(temperature=0.5, seed=3), ("x",)))
    assert (decode.session, decode.max_tokens, decode.stop) == ("s-1", 7, ("x",))
    assert decode.sampling == Sampling(temperature=0.5, seed=3)


def test_an_old_worker_is_asked_in_the_words_it_knows() -> None:
    """Without wishes there are two fields, as there always were."""
    assert json.loads(decode_body("s", 7, Sampling())) == {"session_id": "s", "max_tokens": 7}


def test_a_past_is_told_as_text() -> None:
    """The new message stands last, by itself; without a past there is nothing else."""
    assert new_prompt([Message("user", "hi")]) == "hi"
    talk = [Message("user", "a"), Message("assistant", "b"), Message("user", "c\nd")]
    assert new_prompt(talk) == "[RECENT MESSAGES]\nUser: a\nAssistant: b\n\nc\nd"
    assert new_prompt(talk[:2]) == "[RECENT MESSAGES]\nUser: a\nAssistant: b"


@pytest.mark.parametrize(
    ("sent", "done"),
    [
        (body(tokens_added=4, total_tokens_est=9), Prefilled(9, 5)),
        (body(tokens_added=9, total_tokens_est=9), Prefilled(9, 0)),
        (body(tokens_added=4, total_tokens_est=9, cached_tokens=2), Prefilled(9, 2)),
        (body(tokens_added=4, total_tokens_est=9, cached_tokens=99), Prefilled(9, 99)),
        (body(tokens_added=12, total_tokens_est=9), Prefilled(9, 0)),
        (body(tokens_added=4), None),
        (body(tokens_added="4", total_tokens_est=9), None),
        (body(tokens_added=True, total_tokens_est=9), None),
        (body(tokens_added=-4, total_tokens_est=9), None),
        (b"[]", None),
        (b"no json", None),
    ],
)
def test_answers_to_a_prefill(sent: bytes, done: Prefilled | None) -> None:
    """Exact counts, or none at all; never more from the cache than there is."""
    expected = done and Prefilled(done.total_tokens, min(done.total_tokens, done.cached_tokens))
    assert read_prefilled(sent) == expected


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (body(token="a", seq=3), Token("a", 3)),
        (body(token="", seq=0), Token("", 0)),
        (body(finished=True, reason="length", seq=2), Over("length")),
        (body(finished=True, reason="stop", roost={"completion_tokens": 8}), Over("stop", 8)),
        (body(finished=True, roost=7), Over("stop")),
    ],
)
def test_events_of_an_answer(sent: bytes, said: Token | Over) -> None:
    """Pieces with their numbers, and a last word where there is one."""
    assert read_said(sent) == said


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (body(error="Worker decode failed"), "runtime_error"),
        (body(error="x", code="node_busy", finished=True), "node_busy"),
        (body(finished=True, reason="error"), "runtime_error"),
        (body(finished=True, reason="cancelled"), "runtime_error"),
        (body(token=7, seq=0), "upstream_error"),
        (body(token="a"), "upstream_error"),
        (body(token="a", seq=-1), "upstream_error"),
        (body(other=1), "upstream_error"),
        (b"nonsense", "upstream_error"),
    ],
)
def test_errors_in_an_answer_are_failures(sent: bytes, reason: str) -> None:
    """Those it tells, and those it is; nothing that it says reaches a client."""
    failure = read_said(sent)
    assert isinstance(failure, Failure)
    assert failure.reason == reason


def test_denials_keep_their_reason_and_their_hint() -> None:
    """A hint that is none is none, and never more than two minutes."""
    assert read_denied(503, body(reason="full"), "7") == Denied(503, "full", 7)
    assert read_denied(503, body(reason=5), "999") == Denied(503, "", 120)
    for strange in ("", "soon", "-1", "0", "9999", "١"):
        assert read_denied(429, b"<html>", strange) == Denied(429)


@given(st.binary(max_size=80))
def test_no_answer_is_too_strange(raw: bytes) -> None:
    """Whatever a worker sends is an event, a failure or nothing."""
    assert isinstance(read_said(raw), (Token, Over, Failure))
    read_prefilled(raw)
    assert read_denied(500, raw, "x").failure.reason == "runtime_error"
