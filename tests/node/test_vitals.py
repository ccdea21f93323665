"""A runtime's vital signs: rates of now, failures that are its own, and what is odd."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.about import NodeAbout, RuntimeAbout, RuntimeVitals
from roost.core.events import Delta, Failed, PrefillProgress, Started
from roost.core.ids import RuntimeId
from roost.core.machine import Memory, Processor
from roost.errors import Failure
from roost.node.floor.vitals import SPARE_BYTES, WINDOW_S, Vitals
from tests.node.kit import SETTINGS, Node, offer

MIB = 1024 * 1024


def steady(vitals: Vitals, rate: int, seconds: range, live: int = 1) -> float:
    """Generate so many tokens in each of these seconds; returns when that was over."""
    for second in seconds:
        for part in range(rate):
            vitals.on_tokens(1, live, second + part / rate)
    return float(seconds.stop)


def test_a_rate_is_that_of_now() -> None:
    """It rises with the tokens and ends with them: whoever looks late sees no old rate."""
    vitals = Vitals(0.0)
    assert vitals.view(0.0).decode_tokens_per_s == 0.0
    end = steady(vitals, 20, range(3))
    assert vitals.view(end).decode_tokens_per_s == pytest.approx(20.0)
    assert vitals.view(end + WINDOW_S - 1).decode_tokens_per_s < 20.0
    assert vitals.view(end + WINDOW_S).decode_tokens_per_s == 0.0
    assert vitals.view(end + 100).generated_tokens == 60


def test_prefills_are_averaged_over_the_last_ones() -> None:
    """The last one, and the mean of 32; before the first nobody knows."""
    vitals = Vitals(0.0)
    assert (vitals.view(0.0).prefill_last_s, vitals.view(0.0).prefill_avg_s) == (None, None)
    for _ in range(40):
        vitals.on_prefill(10, 9.0, 1.0)
    for _ in range(32):
        vitals.on_prefill(10, 1.0, 1.0)
    seen = vitals.view(1.0)
    assert (seen.prefill_last_s, seen.prefill_avg_s) == (1.0, 1.0)


def test_a_sudden_drop_is_odd_until_it_is_over() -> None:
    """Half the pace for some seconds, with as many at once; idleness is no drop."""
    vitals = Vitals(0.0)
    now = steady(vitals, 40, range(20))
    assert vitals.view(now).anomalies == ()
    now = steady(vitals, 4, range(20, 28))
    assert vitals.view(now).anomalies == ("slow_decode",)
    assert vitals.view(now + 5).anomalies == ()
    now = steady(vitals, 40, range(40, 50))
    assert vitals.view(now).anomalies == ()


def test_fewer_streams_are_no_drop() -> None:
    """One stream is slower than eight together, and always was."""
    vitals = Vitals(0.0)
    steady(vitals, 10, range(20), live=1)
    steady(vitals, 80, range(20, 40), live=8)
    now = steady(vitals, 10, range(40, 50), live=1)
    assert vitals.view(now).anomalies == ()


def test_a_prompt_that_takes_five_times_as_long_is_odd_for_a_while() -> None:
    """By its tokens: a long prompt is no spike, and a tiny one says nothing."""
    vitals = Vitals(0.0)
    for _ in range(8):
        vitals.on_prefill(100, 1.0, 1.0)
    vitals.on_prefill(1000, 10.0, 2.0)
    vitals.on_prefill(5, 10.0, 3.0)
    assert vitals.view(3.0).anomalies == ()
    vitals.on_prefill(100, 6.0, 4.0)
    assert vitals.view(5.0).anomalies == ("slow_prefill",)
    assert vitals.view(4.0 + WINDOW_S).anomalies == ()
    vitals.on_prefill(100, 6.0, 30.0)
    vitals.on_prefill(100, 1.0, 31.0)
    assert vitals.view(31.0).anomalies == ()


def test_memory_may_grow_with_tokens_and_no_faster() -> None:
    """Beyond what the tokens take, and a good measure, it is odd; unknown figures are none."""
    vitals = Vitals(0.0)
    vitals.on_memory(None, 1000)
    vitals.on_memory(100 * MIB, None)
    vitals.on_memory(100 * MIB, 100_000)
    vitals.on_memory(100 * MIB + SPARE_BYTES, 100_000)
    assert vitals.view(0.0).anomalies == ()
    vitals.on_memory(101 * MIB + SPARE_BYTES, 100_000)
    assert vitals.view(0.0).anomalies == ("memory_growth",)
    vitals.on_tokens(100, 1, 0.0)
    vitals.on_memory(101 * MIB + SPARE_BYTES, 100_000)
    assert vitals.view(0.0).anomalies == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 3)), max_size=60))
def test_the_window_agrees_with_a_list_of_everything(steps: list[tuple[int, int, int]]) -> None:
    """Tokens of the last seconds, whatever the gaps; nothing is kept beyond the window."""
    vitals, came, now = Vitals(0.0), [], 0.0
    for wait, count, live in steps:
        now += wait / 2
        vitals.on_tokens(count, live, now)
        came.append((int(now), count))
        seen = vitals.view(now)
        recent = sum(n for second, n in came if second + 1 > now - WINDOW_S)
        span_s = min(WINDOW_S, max(1.0, now))
        assert seen.decode_tokens_per_s == pytest.approx(recent / span_s)
        assert seen.generated_tokens == sum(n for _, n in came)


def vitals_of(node: Node) -> RuntimeVitals | None:
    """What the node says of its only runtime."""
    (view,) = node.agent.status().runtimes
    return view.vitals


def test_a_node_counts_what_its_streams_do() -> None:
    """Tokens, the time to the first text, and failures that are not the caller's."""
    node = Node()
    node.open(1)
    assert vitals_of(node) is None
    node.loaded()
    node.prepared(1, *range(40))
    node.event(1, Started(40, 4, 0))
    node.tick(2.0)
    node.event(1, PrefillProgress(40, 40), Delta("a", 2), Delta("b", 3))
    seen = vitals_of(node)
    assert seen is not None
    assert (seen.prefill_last_s, seen.generated_tokens, seen.failures) == (2.0, 5, 0)
    node.cancel(1)
    node.closed(1)
    node.serve(2, *range(40, 60))
    node.open(3)
    node.prepared(3, 7)
    node.event(3, Failed(Failure("bad_request", "no")))
    node.closed(3)
    seen = vitals_of(node)
    assert seen is not None
    assert seen.failures == 0
    node.open(4)
    node.prepared(4, 8)
    node.event(4, Failed(Failure("runtime_error", "it broke")))
    seen = vitals_of(node)
    assert seen is not None
    assert seen.failures == 1


@pytest.mark.parametrize(
    ("token_bytes", "anomalies"), [(None, ()), (10, ("memory_growth",)), (300 * MIB, ())]
)
def test_a_node_watches_its_runtimes_memory(
    token_bytes: int | None, anomalies: tuple[str, ...]
) -> None:
    """Against what its tokens take, where that is known; figures of other runtimes are nothing."""
    known = msgspec.structs.replace(offer(), kv_token_bytes=token_bytes)
    node = Node(SETTINGS, known)
    node.open(1)
    node.loaded()
    node.prepared(1, *range(20))
    node.event(1, Started(20, 0, 0), Delta("a", 1))
    for rss_bytes in (MIB, 10_000 * MIB):
        figures = (
            RuntimeAbout(RuntimeId("m#1"), rss_bytes=rss_bytes),
            RuntimeAbout(RuntimeId("gone"), rss_bytes=rss_bytes),
        )
        about = NodeAbout(Processor(None, 1, 1), Memory(), runtimes=figures)
        node.take(node.agent.on_about(about, node.now))
    seen = vitals_of(node)
    assert seen is not None
    assert seen.anomalies == anomalies
