"""Heartbeats of system 1: what is read of them, what is refused, and what ours says."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId
from roost.core.worker import WorkerBeat, WorkerHealth, WorkerModel
from roost.dialects.system1.heartbeat import MODELS_MAX, Skew, heartbeat_body, read_heartbeat
from roost.errors import Failure, RoostError

NOW_S = 1_760_000_000.0
BEAT: dict[str, object] = {
    "worker_id": "w-a",
    "worker_url": "http://127.0.0.1:3001",
    "timestamp": 1_760_000_000_000,
    "health": {"alive": True, "active_sessions": 2, "kv_cache_bytes": 90112, "draining": False},
}


def body(**changes: object) -> bytes:
    """A heartbeat with some fields changed; None takes one away."""
    merged = BEAT | changes
    return json.dumps({k: v for k, v in merged.items() if v is not None}).encode()


def refused(raw: bytes) -> Failure:
    """Why it is refused."""
    with pytest.raises(RoostError) as caught:
        read_heartbeat(raw, NOW_S, Skew())
    return caught.value.failure


def test_the_heartbeat_of_system_1_is_read_as_it_is() -> None:
    """Four fields are enough; nothing is known of models, slots and keys then."""
    beat = read_heartbeat(body(), NOW_S, Skew())
    assert beat == WorkerBeat("w-a", "http://127.0.0.1:3001", WorkerHealth(True, 2, 90112))


def test_ours_says_more_and_is_read_back() -> None:
    """What a node of ours sends is what a gateway of ours reads."""
    beat = WorkerBeat(
        worker="w-b",
        url="http://[::1]:3001",
        health=WorkerHealth(True, 0, 0, draining=True),
        models=(WorkerModel(ModelId("m"), 2048, 96), WorkerModel(ModelId("n"))),
        slots=4,
        sampling=True,
        key="secret",
        engine="roost",
        version="1",
    )
    assert read_heartbeat(heartbeat_body(beat, NOW_S), NOW_S + 1, Skew()) == beat


def test_models_may_be_plain_names() -> None:
    """A list of names is a list of models of unknown length; of one named twice the last counts."""
    sent = body(models=["m", "n", {"id": "m", "ctx": 9}])
    models = read_heartbeat(sent, NOW_S, Skew()).models
    assert models == (WorkerModel(ModelId("m"), 9), WorkerModel(ModelId("n")))


@pytest.mark.parametrize("age_s", [-5.0, 0.0, 30.0])
def test_clocks_may_differ_a_little(age_s: float) -> None:
    """From 5 s ahead of ours to 30 s behind it, the limits included."""
    sent = body(timestamp=(NOW_S - age_s) * 1000)
    assert read_heartbeat(sent, NOW_S, Skew()).worker == "w-a"


@pytest.mark.parametrize("age_s", [-5.002, 30.002, 1e300, -1e300])
def test_a_clock_that_is_off_is_refused_before_anything_else(age_s: float) -> None:
    """Also where every other field is missing: what is too old says nothing about now."""
    failure = refused(json.dumps({"timestamp": (NOW_S - age_s) * 1000}).encode())
    assert (failure.status, failure.message) == (400, "Stale or invalid timestamp")


@pytest.mark.parametrize("at_ms", [None, "now", True, [1], {}, 10**400])
def test_what_is_no_time_is_refused_alike(at_ms: object) -> None:
    """Nothing, words, and numbers without end."""
    assert refused(body(timestamp=at_ms)).message == "Stale or invalid timestamp"


@pytest.mark.parametrize("name", ["worker_id", "worker_url", "health"])
@pytest.mark.parametrize("value", [None, "", 0, False])
def test_fields_that_are_not_there_are_named_as_system_1_does(name: str, value: object) -> None:
    """Missing and empty are the same."""
    failure = refused(body(**{name: value}))
    assert (failure.status, failure.message) == (400, "Missing required fields")


@pytest.mark.parametrize(
    "changes",
    [
        {"worker_id": "a b"},
        {"worker_id": "x" * 129},
        {"worker_id": 7},
        {"worker_url": 7},
        {"worker_url": "http://a\nb"},
        {"worker_url": "http://" + "a" * 3000},
        {"health": {"active_sessions": -1}},
        {"health": {"kv_cache_bytes": "many"}},
        {"health": {"alive": 1}},
        {"models": "m"},
        {"models": [7]},
        {"models": [{"ctx": 5}]},
        {"models": [{"id": "m", "ctx": -5}]},
        {"models": ["m"] * (MODELS_MAX + 1)},
        {"slots": 0},
        {"slots": 10**9},
        {"sampling": "yes"},
        {"key": "k" * 600},
        {"key": "a\r\nx: y"},
    ],
)
def test_impossible_values_are_refused(changes: dict[str, object]) -> None:
    """Each with the name of its field, and none with what was sent."""
    failure = refused(body(**changes))
    assert failure.status == 400
    assert failure.param is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*BEAT, "models", "slots", "key"]), JSON))
def test_no_values_are_too_strange(changes: dict[str, object]) -> None:
    """Whatever comes is a heartbeat or a refusal, and never a crash."""
    with suppress(RoostError):
        assert read_heartbeat(body(**changes), NOW_S, Skew()).worker
