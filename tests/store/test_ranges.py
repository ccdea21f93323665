"""Tests of what follows from a server's answer to a download."""

from __future__ import annotations

import pytest

from roost.store.pulling.ranges import Answer, Plan, Saved, can_resume, plan

SAVED = Saved("http://h/f", sha256="a" * 64, etag='"v1"', total=10)


@pytest.mark.parametrize(
    ("answer", "have", "expected"),
    [
        (Answer(200, content_length="10"), 0, Plan("store", 0, 10)),
        (Answer(200), 0, Plan("store", 0, None)),
        (Answer(200, content_length="-1"), 0, Plan("store", 0, None)),
        (Answer(200, content_length="9" * 30), 0, Plan("store", 0, None)),
        (Answer(200, content_length="10"), 4, Plan("store", 0, 10)),
        (Answer(206, "bytes 4-9/10"), 4, Plan("store", 4, 10)),
        (Answer(206, "bytes 4-6/10"), 4, Plan("store", 4, 10)),
        (Answer(206, "bytes 3-9/10"), 4, Plan("again")),
        (Answer(206, "bytes 4-9/*"), 4, Plan("again")),
        (Answer(206, "bytes 4-10/10"), 4, Plan("again")),
        (Answer(206, "bytes 4-9/11"), 4, Plan("again")),
        (Answer(206, None), 4, Plan("again")),
        (Answer(206, "rubbish"), 4, Plan("again")),
        (Answer(206, "bytes 0-9/10"), 0, Plan("failed")),
        (Answer(206, "bytes 4-9/10", sha256="b" * 64), 4, Plan("again")),
        (Answer(206, "bytes 4-9/10", sha256="a" * 64), 4, Plan("store", 4, 10)),
        (Answer(416, "bytes */4"), 4, Plan("complete", 4, 4)),
        (Answer(416, "bytes */3"), 4, Plan("again")),
        (Answer(416), 4, Plan("again")),
        (Answer(416), 0, Plan("failed")),
        (Answer(401), 0, Plan("refused")),
        (Answer(403), 4, Plan("refused")),
        (Answer(404), 4, Plan("missing")),
        (Answer(410), 0, Plan("missing")),
        (Answer(429), 0, Plan("retry")),
        (Answer(503), 4, Plan("retry")),
        (Answer(500), 0, Plan("retry")),
        (Answer(204), 0, Plan("failed")),
        (Answer(400), 0, Plan("failed")),
    ],
)
def test_plan_of_an_answer(answer: Answer, have: int, expected: Plan) -> None:
    """Each answer has one consequence, whatever has arrived before."""
    assert plan(answer, have, SAVED) == expected


@pytest.mark.parametrize(
    ("saved", "url", "sha256", "expected"),
    [
        (None, "http://h/f", None, False),
        (SAVED, "http://other/f", "a" * 64, True),
        (SAVED, "http://h/f", "b" * 64, False),
        (SAVED, "http://h/f", None, True),
        (SAVED, "http://other/f", None, False),
        (Saved("u", etag='"v1"'), "u", None, True),
        (Saved("u", etag='W/"v1"'), "u", None, False),
        (Saved("u"), "u", None, False),
        (Saved("u"), "u", "a" * 64, False),
    ],
)
def test_resuming_needs_a_proof_of_sameness(
    saved: Saved | None, url: str, sha256: str | None, *, expected: bool
) -> None:
    """Earlier bytes count only with the same digest, or the same address and a strong tag."""
    assert can_resume(saved, url, sha256) is expected
