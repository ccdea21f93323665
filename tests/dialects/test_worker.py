"""What a worker hears and says, as bytes."""

from __future__ import annotations

import json

import pytest

from roost.core.ids import ModelId
from roost.dialects.system1.worker import (
    DENIALS,
    PrefillAsked,
    Prefilled,
    SessionLine,
    Totals,
    denial_body,
    failure_body,
    health_body,
    prefilled_body,
    read_decode,
    read_prefill,
    sessions_body,
)
from roost.errors import Failure, RoostError

GOOD = {"session_id": "s-1", "prompt": "hi", "model": "m", "max_tokens": 5}
TOTALS = Totals(2, 300, 100, 1000)


def test_a_prefill_is_read() -> None:
    """Create is the default; unknown modes have a word of their own."""
    asked = read_prefill(json.dumps(GOOD).encode())
    assert asked == PrefillAsked("s-1", "hi", ModelId("m"), 5, "create")
    again = read_prefill(json.dumps(GOOD | {"mode": "continue"}).encode())
    assert isinstance(again, PrefillAsked)
    assert again.mode == "continue"
    wrong: list[object] = ["append", "", None, 5, ["create"], {}]
    for mode in wrong:
        assert read_prefill(json.dumps(GOOD | {"mode": mode}).encode()) == "invalid_mode"


@pytest.mark.parametrize("name", ["session_id", "prompt", "model", "max_tokens"])
@pytest.mark.parametrize("value", [None, "", 0, False, [], {}])
def test_what_is_missing_is_named(name: str, value: object) -> None:
    """Absent, empty and zero are the same."""
    with pytest.raises(RoostError) as raised:
        read_prefill(json.dumps(GOOD | {name: value}).encode())
    assert (raised.value.failure.reason, raised.value.failure.param) == ("bad_request", name)


@pytest.mark.parametrize("name", ["a/b", "..\\x", "a b", "a\n", "é", "x" * 129, "%2e"])
def test_a_session_has_a_plain_name(name: str) -> None:
    """Nothing that could be a path, a header or a line of a log."""
    with pytest.raises(RoostError):
        read_decode(json.dumps({"session_id": name, "max_tokens": 1}).encode())


def test_a_huge_limit_is_capped() -> None:
    """It never reaches native code as it is."""
    asked = read_decode(b'{"session_id": "s", "max_tokens": 1000000000000}')
    assert asked.max_tokens == 2**31 - 1


def test_replies() -> None:
    """The fields of system 1 and those added to them."""
    assert json.loads(prefilled_body(Prefilled(3, 10, 7))) == {
        "status": "ok",
        "tokens_added": 3,
        "total_tokens_est": 10,
        "cached_tokens": 7,
    }
    lines = [SessionLine(name, ModelId("m"), 5, 100, 20, 10) for name in ("b", "a")]
    said = json.loads(sessions_body(lines, TOTALS))
    assert [line["session_id"] for line in said.pop("sessions")] == ["a", "b"]
    assert said == {
        "active_sessions": 2,
        "total_kv_cache_bytes": 300,
        "max_sessions": 100,
        "max_kv_cache_bytes": 1000,
    }
    assert json.loads(health_body(TOTALS, draining=False)) == {
        "alive": True,
        "active_sessions": 2,
        "kv_cache_bytes": 300,
        "draining": False,
    }


def test_denials_and_failures_have_an_error_and_a_reason() -> None:
    """What the engine does wrong is 500, in system 1's table."""
    for denial, (status, _) in DENIALS.items():
        told, body = denial_body(denial)
        assert told == status
        assert json.loads(body).keys() == {"error", "reason"}
        assert json.loads(body)["reason"] == denial
    assert failure_body(Failure("runtime_died", "x"))[0] == 500
    assert failure_body(Failure("node_busy", "x"))[0] == 429
    status, body = failure_body(Failure("bad_request", "x", "prompt"))
    assert (status, json.loads(body)) == (
        *(400, {"error": "x", "reason": "bad_request", "param": "prompt"}),
    )
