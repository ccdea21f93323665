"""The protocol of system 1 as translations: bodies, events, errors, views of the fleet."""

from __future__ import annotations

import json

import pytest

from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, Usage
from roost.core.ids import ModelId, RuntimeId
from roost.core.request import ChatPrompt, Message
from roost.core.snapshots import LinkState, ModelOffer, RuntimeView, SlotView
from roost.core.worker import WorkerBeat, WorkerHealth
from roost.dialects.system1.infer import CONVERSATION_CHARS_MAX, read_infer
from roost.dialects.system1.infer_errors import InferCase, error_body, status_of
from roost.dialects.system1.infer_reply import InferStream
from roost.dialects.system1.infer_views import (
    Caps,
    Held,
    Holdings,
    Worker,
    available_body,
    heard,
    holding,
    node_worker,
    read_held,
    stats_body,
    system_1_worker,
    workers_body,
)
from roost.errors import Failure, RoostError

BODY: dict[str, object] = {
    "conversation_id": "c",
    "prompt": "hi",
    "model": "m",
    "max_tokens": 5,
}
FINISHED = Finished("stop", Usage(5, 0, 2))


def body(**changes: object) -> bytes:
    """A body with some fields changed."""
    return json.dumps(BODY | changes).encode()


def refused(raw: bytes, *, strict: bool = False) -> Failure:
    """Why this body is refused."""
    with pytest.raises(RoostError) as caught:
        read_infer(raw, strict=strict)
    return caught.value.failure


def data(raw: bytes) -> list[dict[str, object]]:
    """The events in some bytes."""
    lines = raw.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def test_a_turn_is_its_own_text_alone() -> None:
    """The request holds one user message; sampling may come along."""
    asked = read_infer(body(temperature=0.5, roost={"on_full": "pause"}, other=1))
    assert asked.conversation == "c"
    assert asked.request.prompt == ChatPrompt((Message("user", "hi"),))
    assert (asked.request.model, asked.request.max_tokens) == (ModelId("m"), 5)
    assert asked.request.sampling.temperature == 0.5
    assert asked.ignored == ("other",)
    assert asked.roost == {"on_full": "pause"}


@pytest.mark.parametrize("name", ["prompt", "model", "max_tokens"])
@pytest.mark.parametrize("value", ["", None, 0])
def test_empty_fields_are_missing_fields(name: str, value: object) -> None:
    """Whatever is falsy is not there."""
    failure = refused(body(**{name: value}))
    assert (failure.reason, failure.param) == ("bad_request", name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("max_tokens", "many"),
        ("max_tokens", True),
        ("prompt", ["hi"]),
        ("model", 7),
        ("conversation_id", 7),
        ("conversation_id", "x" * (CONVERSATION_CHARS_MAX + 1)),
        ("roost", "fast"),
        ("temperature", 3),
    ],
)
def test_wrong_fields_are_named(name: str, value: object) -> None:
    """A wrong type or range is a 400 that says where."""
    failure = refused(body(**{name: value}))
    assert failure.status == 400
    assert failure.param == name


def test_strict_refuses_what_has_no_effect() -> None:
    """Unknown fields are named."""
    assert refused(body(mode="create"), strict=True).param == "mode"


def test_a_huge_max_tokens_is_kept_in_range() -> None:
    """No number of a client's reaches native code unchecked."""
    assert read_infer(body(max_tokens=10**30)).request.max_tokens == 2**31 - 1


def test_pieces_are_numbered_and_the_end_is_told_once() -> None:
    """Only text is an event; after the end there is nothing more."""
    stream = InferStream()
    said = stream.head() + stream.event(Started(5, 0, 0)) + stream.event(PrefillProgress(1, 2))
    assert said == b""
    said = stream.event(Delta("a")) + stream.event(Delta("")) + stream.event(Delta("é\u2028"))
    assert data(said) == [{"token": "a", "seq": 0}, {"token": "é\u2028", "seq": 1}]
    assert "\u2028".encode() not in said
    stream.roost_extra({"node": "n1"})
    (last,) = data(stream.event(FINISHED))
    told = {"node": "n1", "prompt_tokens": 5, "completion_tokens": 2}
    assert last == {"finished": True, "reason": "stop", "seq": 2, "roost": told}
    more = stream.event(Delta("x")) + stream.finish(FINISHED) + stream.comment("y")
    assert more + stream.error(Failure("internal", "x")) == b""


def test_what_was_dropped_is_a_gap_and_a_count() -> None:
    """Numbers of pieces that are not sent are left out, and added up in the last event."""
    stream = InferStream()
    stream.event(Delta("a"))
    stream.skipped(3)
    assert data(stream.event(Delta("e")))[0]["seq"] == 4
    stream.skipped(1)
    assert data(stream.finish(FINISHED)) == [
        {"finished": True, "reason": "stop", "seq": 6, "dropped": 4}
    ]


@pytest.mark.parametrize(
    ("reason", "text", "ending"),
    [
        ("node_lost", "Worker connection lost during decode", "error"),
        ("runtime_died", "Worker decode failed", "error"),
        ("cancelled", "Worker decode failed", "cancelled"),
    ],
)
def test_a_cut_answer_ends_in_an_error_event(reason: str, text: str, ending: str) -> None:
    """The event has system 1's words, and is the terminal one."""
    stream = InferStream()
    stream.event(Delta("a"))
    (last,) = data(stream.event(Failed(Failure(reason, "x"))))
    assert last == {"error": text, "code": reason, "finished": True, "reason": ending, "seq": 1}


def test_early_clients_may_be_spared_the_last_event() -> None:
    """Then a complete answer just ends, and a cut one says its error as it always did."""
    assert InferStream(terminal=False).finish(FINISHED) == b""
    (last,) = data(InferStream(terminal=False).error(Failure("node_lost", "x")))
    assert last.keys() == {"error", "code"}


@pytest.mark.parametrize(
    ("failure", "case", "status", "reason"),
    [
        (Failure("no_nodes", "x", retry_after_s=1), {}, 503, "no_healthy_workers"),
        (Failure("no_nodes", "x", retry_after_s=1), {"reason": "no_workers"}, 503, "no_workers"),
        (Failure("queue_full", "x", retry_after_s=1), {}, 429, "all_workers_at_capacity"),
        (Failure("queue_full", "x", retry_after_s=1), {"legacy_503": True}, 503, None),
        (Failure("conversations_full", "x", retry_after_s=1), {}, 429, "system_sessions_full"),
        (Failure("conversation_busy", "x", retry_after_s=1), {}, 429, "conversation_busy"),
        (Failure("context_length_exceeded", "x"), {}, 413, "prompt_too_long"),
        (Failure("context_length_exceeded", "x"), {"reason": "session_full"}, 409, "session_full"),
        (Failure("node_lost", "x"), {"tried": ("a", "b")}, 502, "node_lost"),
        (Failure("bad_request", "x", "prompt"), {}, 400, "bad_request"),
        (Failure("internal", "x"), {"legacy_503": True}, 500, "internal"),
    ],
)
def test_failures_have_the_codes_and_reasons_of_system_1(
    failure: Failure, case: dict[str, object], status: int, reason: str | None
) -> None:
    """Overload says "System at capacity"; failed attempts say who was tried."""
    made = InferCase("r1", **case)  # type: ignore[arg-type]
    assert status_of(failure, made) == status
    found, raw = error_body(failure, made)
    told = json.loads(raw)
    assert found == status
    assert told["request_id"] == "r1"
    assert reason is None or told["reason"] == reason
    assert (told["error"] == "System at capacity") is (failure.retry_after_s is not None)
    assert told.get("tried") == (["a", "b"] if "tried" in case else None)


MODEL = ModelId("m")
OFFER = ModelOffer(MODEL, 2, 512, kv_bytes=2_048_000, kv_token_bytes=2000)
SLOTS = (SlotView(0, busy=True, tokens=100), SlotView(1, busy=False, tokens=0))
RUNTIME = RuntimeView(MODEL, "b", "ready", RuntimeId("run"), SLOTS, 512)
HOLDINGS = Holdings((OFFER,), (RUNTIME,))


def worker(name: str, state: LinkState = "alive", holdings: Holdings = HOLDINGS) -> Worker:
    """A node with two slots, one of which holds 100 tokens at 2 kB each."""
    busy = int(state != "dead")
    node = node_worker(name, state, holdings, in_flight=busy, draining=False)
    return heard(node, 7 if busy else None)


def gone(name: str) -> Worker:
    """A node without a link."""
    return worker(name, "dead", Holdings((), ()))


def test_workers_are_counted_by_three_states() -> None:
    """A silent node is stale before it is dead; only those that are alive are available."""
    workers = [
        worker("a"),
        worker("b", state="suspect"),
        gone("c"),
    ]
    told = json.loads(workers_body(workers))
    assert told["counts"] == {"alive": 1, "stale": 1, "dead": 1}
    assert told["total"] == 3
    assert told["workers"][0]["health"] == {
        "alive": True,
        "active_sessions": 1,
        "kv_cache_bytes": 200_000,
        "draining": False,
    }
    free = json.loads(available_body(workers))
    assert ([one["id"] for one in free["workers"]], free["count"]) == (["a"], 1)


def test_stats_add_up_and_a_missing_worker_breaks_nothing() -> None:
    """Totals are over those alive; what is unknown is null; whoever is gone has an error."""
    told = json.loads(stats_body([worker("a"), worker("b"), gone("c")], Caps(32, 0), 99))
    cluster = told["cluster"]
    assert told["fetched_at"] == 99
    assert (cluster["total_sessions"], cluster["max_total_sessions"]) == (2, 4)
    assert (cluster["total_kv_cache_bytes"], cluster["kv_cache_capacity_pct"]) == (400_000, 9.8)
    assert (cluster["in_flight_decodes"], cluster["max_in_flight_decodes"]) == (2, 32)
    assert cluster["max_in_flight_decodes_per_worker"] is None
    (session,) = told["workers"][0]["sessions"]
    assert session == {
        "session_id": "run/0",
        "model": "m",
        "max_tokens": 512,
        "kv_cache_bytes": 200_000,
        "idle_ms": 0,
        "worker_id": "a",
    }
    assert "sessions_error" in told["workers"][2]


def test_unknown_costs_are_null() -> None:
    """Nobody guesses bytes."""
    offer = ModelOffer(ModelId("m"), 2, 512)
    told = json.loads(workers_body([worker("a", holdings=Holdings((offer,), (RUNTIME,)))]))
    assert told["workers"][0]["health"]["kv_cache_bytes"] is None


def test_workers_of_system_1_say_what_they_hold_when_they_are_asked() -> None:
    """They have an address; what they list is passed on without what nobody asked for."""
    beat = WorkerBeat("w", "http://10.0.0.7:3001", WorkerHealth(True, 3, 900, draining=True))
    asked = system_1_worker(beat, "alive", 5, in_flight=1)
    body = {
        "sessions": [{"session_id": "s", "model": "m", "max_tokens": 9, "prompt": "secret"}],
        "max_sessions": 100,
        "max_kv_cache_bytes": 1000,
    }
    told = json.loads(
        stats_body([holding(asked, read_held("w", json.dumps(body).encode()))], Caps(0, 0), 1)
    )
    (listed,) = told["workers"]
    assert (listed["url"], listed["lastHeartbeat"]) == ("http://10.0.0.7:3001", 5)
    assert listed["health"]["draining"] is True
    assert listed["sessions"] == [
        {
            "session_id": "s",
            "model": "m",
            "max_tokens": 9,
            "kv_cache_bytes": None,
            "idle_ms": None,
            "worker_id": "w",
        }
    ]
    assert "sessions_error" not in listed
    assert told["cluster"]["total_sessions"] == 3
    assert told["cluster"]["kv_cache_capacity_pct"] == 90.0


@pytest.mark.parametrize("sent", [b"no json", b"[]", b"{}", b'{"sessions": 7}'])
def test_what_is_no_list_of_sessions_is_an_error_in_its_place(sent: bytes) -> None:
    """A worker that answers nonsense breaks nothing but its own line."""
    held = read_held("w", sent)
    assert held == Held(error=held.error)
    assert held.error
