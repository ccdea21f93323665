"""What `roost why` says of a request, from its receipt."""

from __future__ import annotations

from roost.cli.verbs.why import explained

ATTEMPT: dict[str, object] = {
    "attempt": 2,
    "node": "n2",
    "placement": "cold",
    "why": "no_home",
    "policy": "predicted",
    "candidates": 1,
    "ranking": [["n2", 0.25]],
    "predicted_s": 1.5,
    "actual_s": None,
    "failure": None,
    "resumes_at": 0,
}


def test_an_attempt_is_explained() -> None:
    """Where it went, why, by which score, and how long it was to take."""
    assert explained(ATTEMPT).splitlines() == [
        "  attempt 2: n2 (cold, no_home)",
        "    predicted of 1 candidates: n2 0.250",
        "    predicted 1.500 s, took unknown",
    ]


def test_an_attempt_that_goes_on_says_where() -> None:
    """And one that failed says how."""
    resumed = {**ATTEMPT, "resumes_at": 17, "started_s": 2.0, "failure": "node_lost"}
    lines = explained(resumed).splitlines()
    assert lines[3:] == ["    goes on with the answer at token 17", "    failed: node_lost"]
    lines = explained({**resumed, "started_s": None, "failure": "node_busy"}).splitlines()
    assert lines[3:] == ["    was to go on with the answer at token 17", "    failed: node_busy"]


def test_a_home_that_had_lost_the_conversation_says_what_that_cost() -> None:
    """The node's own count of cached tokens has the last word."""
    lines = explained({**ATTEMPT, "placement": "lost", "lost_tokens": 370}).splitlines()
    assert lines[3:] == ["    computed 370 tokens again that its home had"]
