"""Figures of a load: by the definitions, against values that were counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.load.gates import broken, parse_gates, seen
from roost.bench.load.sample import Played, Sample
from roost.bench.load.summary import Slo, Summary, spread, summary


def ok(ttft_s: float, e2e_s: float, tokens: int = 11) -> Sample:
    """Make a whole answer."""
    return Sample(
        "m",
        0.0,
        0.001,
        e2e_s,
        "ok",
        ttft_s=ttft_s,
        gaps_s=(0.1, 0.3),
        text_chunks=3,
        prompt_tokens=20,
        cached_tokens=5,
        completion_tokens=tokens,
        placement="cold",
    )


SHED = Sample("m", 0.0, 0.0, 0.002, "shed", "status_429", status=429)
CUT = Sample("m", 0.0, 0.0, 9.0, "failed", "cut", ttft_s=0.1, gaps_s=(5.0,), completion_tokens=4)


def told(slo: Slo = Slo()) -> Summary:  # noqa: B008 - a frozen value
    """Summarise two answers, a refusal and a cut in four seconds."""
    return summary(Played((ok(0.2, 1.2), ok(0.6, 3.6), SHED, CUT), 1, 4.0), slo)


def test_counts_rates_and_latencies() -> None:
    """Latencies are of whole answers only; a cut one is a failure by its kind."""
    found = told()
    assert (found.ok, found.shed, found.failed, found.dropped) == (2, 1, 1, 1)
    assert found.errors == {"cut": 1, "status_429": 1}
    assert found.ttft_ms is not None
    assert (found.ttft_ms.p50, found.ttft_ms.p99, found.ttft_ms.mean) == (200.0, 600.0, 400.0)
    assert found.gap_ms is not None
    assert (found.gap_ms.count, found.gap_ms.max) == (4, 300.0)
    assert found.tpot_ms is not None
    assert (found.tpot_ms.min, found.tpot_ms.max) == (100.0, 300.0)
    assert found.shed_ms is not None
    assert found.shed_ms.max == 2.0
    assert (found.requests_per_s, found.tokens_per_s) == (0.5, 5.5)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (40, 10, 22)
    assert found.tokens_per_chunk == pytest.approx(22 / 6, abs=1e-3)
    assert found.placement == {"cold": 2}
    assert found.queue_ms is None


@pytest.mark.parametrize(
    ("slo", "goodput"),
    [
        (Slo(), 0.5),
        (Slo(ttft_ms=500), 0.25),
        (Slo(ttft_ms=500, tpot_ms=99), 0.0),
        (Slo(tpot_ms=100), 0.25),
        (Slo(e2e_ms=5000), 0.5),
    ],
)
def test_goodput_is_what_was_whole_and_within(slo: Slo, goodput: float) -> None:
    """Every demand counts, and a refused or cut request is never good."""
    assert told(slo).goodput_per_s == goodput


def test_nothing_is_nothing() -> None:
    """A load without an answer has no latencies and no tokens, not zeros."""
    found = summary(Played((SHED,), 0, 1.0), Slo())
    assert (found.ttft_ms, found.tokens_per_s, found.completion_tokens) == (None, None, None)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_ranks_are_values_that_were_seen(values: list[float]) -> None:
    """Of all values, at least the share does not exceed its rank, and fewer the value before."""
    found = spread(values)
    assert found is not None
    for share, rank in ((50, found.p50), (90, found.p90), (95, found.p95), (99, found.p99)):
        assert rank in values
        assert 100 * sum(value <= rank for value in values) >= share * len(values)
        assert 100 * sum(value < rank for value in values) < share * len(values)


def test_gates_hold_or_say_why() -> None:
    """A figure over its bound, one under it, and one that nobody knows."""
    gates = parse_gates("p95_ttft_ms=500, error_rate=0.3,tokens_per_s=6,max_queue_ms=1")
    assert broken(gates, told()) == [
        "p95_ttft_ms has to be at most 500 and is 600",
        "tokens_per_s has to be at least 6 and is 5.5",
        "max_queue_ms has to be at most 1 and is unknown",
    ]
    assert parse_gates("") == ()
    assert seen("reject_rate", told()) == 0.25
    assert seen("drop_rate", told()) == 0.2


@pytest.mark.parametrize("text", ["p95_ttft=1", "ttft_ms=1", "p42_ttft_ms=1", "error_rate=x"])
@pytest.mark.parametrize("behind", ["", ",error_rate=0"])
def test_gates_that_are_none_are_refused(text: str, behind: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=r"no figure is called|needs a number"):
        parse_gates(text + behind)


@pytest.mark.parametrize("text", ["error_rate", "error_rate=-1", "error_rate=nan"])
def test_bounds_that_are_none_are_refused(text: str) -> None:
    """Nothing is below nothing."""
    with pytest.raises(ValueError, match="needs a number"):
        parse_gates(text)
