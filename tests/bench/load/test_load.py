"""Loads over sockets, against a server whose answers and times are known."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median

import pytest

from roost.bench.load.measure import measure
from roost.bench.load.plan import Closed, Manner, Open, Plan, Trace
from roost.bench.load.summary import Slo
from roost.bench.load.traces import Traced
from roost.bench.load.workload import Workload
from tests.bench.load.stub import Part, serving

AT_ONCE = 1e6
TOLERATED_S = 0.02


def plan(load: Open | Closed | Trace, work: Workload | None = None, **manner: float) -> Plan:
    """Make a plan."""
    return Plan(load, work or Workload(("m",)), Manner(**manner), Slo())  # type: ignore[arg-type]


def at_once(count: int, users_max: int = 2000) -> Open:
    """Send so many within some microseconds."""
    return Open(AT_ONCE, count / AT_ONCE, "constant", users_max=users_max)


async def test_times_are_those_of_the_script() -> None:
    """TTFT and gaps are what the stub wrote, within 20 ms in the middle and never too small."""
    async with serving(Part(words=30, first_s=0.1, gap_s=0.01)) as (stub, target):
        _, played = await measure(target, plan(Closed(1, 1, 60)), "")
    (sample,), (written,) = played.samples, stub.written
    assert sample.outcome == "ok"
    assert sample.ttft_s is not None
    assert sample.ttft_s >= 0.1
    truth = [b - a for a, b in pairwise(written)]
    assert len(sample.gaps_s) == 29
    assert abs(median(sample.gaps_s) - median(truth)) < TOLERATED_S
    # A first word that is read late makes the gap behind it shorter, and the last no earlier.
    assert sample.ttft_s + sum(sample.gaps_s) >= 0.1 + 29 * 0.01 - 1e-6
    assert sample.e2e_s >= sample.ttft_s + sum(sample.gaps_s) - 1e-9


async def test_an_open_loop_keeps_its_schedule_when_the_server_stalls() -> None:
    """Nothing is answered before all twelve have come: a generator that waits would hang."""
    async with serving(Part(hold=12)) as (stub, target):
        result, played = await measure(target, plan(Open(200, 12 / 200, "constant")), "")
    assert result.figures.ok == 12
    assert stub.at_once_max == 12
    due = sorted(sample.due_s for sample in played.samples)
    assert due == pytest.approx([number / 200 for number in range(12)], abs=1e-6)
    # The first had to wait for the last, and its latency says so.
    assert max(sample.e2e_s for sample in played.samples) >= 11 / 200


async def test_a_closed_loop_has_so_many_users() -> None:
    """Three at a time, ten in all, on kept connections."""
    async with serving(Part(first_s=0.01)) as (stub, target):
        result, _ = await measure(target, plan(Closed(3, 10, 60)), "")
    assert result.figures.ok == 10
    assert stub.at_once_max == 3
    assert stub.connections == 3


async def test_losses_are_counted_by_kind_and_never_as_answers() -> None:
    """Every way in which answers get lost, one clean `[DONE]` without a finish among them."""
    parts = [
        *(Part(ending=ending) for ending in ("whole", "cut", "unframed", "no_done")),
        *(Part(ending=ending) for ending in ("clean_done", "error")),
        *(Part(status=status) for status in (429, 503, 404, 500)),
    ]
    async with serving(*parts) as (_, target):
        result, _ = await measure(target, plan(Closed(1, len(parts), 60)), "")
    told = result.figures
    assert (told.ok, told.shed, told.failed) == (1, 2, 7)
    assert told.errors == {
        "cut": 2,
        "error_event:runtime_died": 1,
        "no_done": 1,
        "no_finish_reason": 1,
        "status_404:no_such_model": 1,
        "status_429": 1,
        "status_500:no_such_model": 1,
        "status_503": 1,
    }
    assert (told.prompt_tokens, told.cached_tokens, told.completion_tokens) == (10, 4, 3)
    assert (told.placement, told.nodes) == ({"warm": 1}, {"n1": 1})


async def test_a_silent_server_is_a_timeout_and_nobody_a_refused_connection() -> None:
    """Neither is an answer, and neither ends the run."""
    async with serving(Part(hold=99)) as (_, target):
        silent, _ = await measure(target, plan(Closed(1, 2, 60), timeout_s=0.05), "")
    assert silent.figures.errors == {"timeout": 2}
    gone, _ = await measure(target, plan(Closed(1, 1, 60)), "")
    assert gone.figures.errors == {"connect:ConnectionRefusedError": 1}
    assert gone.figures.ttft_ms is None


async def test_what_cannot_be_sent_is_dropped_and_told() -> None:
    """With room for two of five that are due at once, three are not asked."""
    async with serving(Part(hold=2)) as (stub, target):
        result, _ = await measure(target, plan(at_once(5, users_max=2)), "")
    assert (result.figures.ok, result.figures.dropped) == (2, 3)
    assert len(stub.asked) == 2


async def test_turns_carry_what_was_said() -> None:
    """The second turn of a conversation has the first, its answer, and the shared beginning."""
    work = Workload(("m",), prompt="hello", turns=2, prefixes=1, prefix_words=5)
    async with serving(Part(words=2)) as (stub, target):
        result, _ = await measure(target, plan(Closed(1, 1, 60), work), "")
    assert result.figures.ok == 2
    second = stub.asked[1]["messages"]
    assert isinstance(second, list)
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[1]["content"] == "hello"
    assert second[2]["content"] == "w0 w1 "


async def test_a_trace_is_played() -> None:
    """Its lengths arrive, and its models are mixed."""
    requests = tuple(Traced(number / 100, 7 + number, 3 + number) for number in range(4))
    work = Workload(("a", "b"))
    async with serving(Part()) as (stub, target):
        result, _ = await measure(target, plan(Trace(requests, 1.0), work), "")
    assert result.figures.models == {"a": 2, "b": 2}
    assert sorted(str(body["max_tokens"]) for body in stub.asked) == ["3", "4", "5", "6"]


async def test_a_result_says_where_and_what() -> None:
    """Figures stand on top; machine, server, workload and key go with them, the key only to it."""
    work = Workload(("m",))
    async with serving(Part()) as (stub, target):
        keyed = type(target)("server", target.host, target.port, key="sk-secret")
        result, played = await measure(keyed, plan(Closed(1, 2, 60), work), "--users 1")
    flat = result.flat(played.samples)
    text = json.dumps(flat)
    for name in ("ttft_ms", "gap_ms", "e2e_ms"):
        spread = flat[name]
        assert isinstance(spread, dict)
        assert {"p50", "p95", "p99"} <= spread.keys()
    assert (flat["ok"], flat["shed"], flat["failed"]) == (2, 0, 0)
    assert len(result.workload["prompts_sha256"]) == 64  # type: ignore[arg-type]
    assert result.server_before is not None
    assert result.server_before.processes >= 1
    assert result.environment.cores >= 1
    assert "sk-secret" not in text
    assert "authorization: Bearer sk-secret" in stub.heads[0]
    assert len(json.loads(text)["samples"]) == 2


async def test_a_warm_up_is_not_counted_and_has_words_of_its_own() -> None:
    """Three are asked before the two that count."""
    counted = Plan(Closed(1, 2, 60), Workload(("m",)), Manner(), Slo(), warmup=3)
    async with serving(Part()) as (stub, target):
        result, _ = await measure(target, counted, "")
    assert result.figures.ok == 2
    assert len({json.dumps(body["messages"]) for body in stub.asked}) == 5
