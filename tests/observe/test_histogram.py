"""Our own histograms count as Prometheus expects it, and cheaply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.observe.histogram import Counts, Histogram
from roost.observe.metrics import OTHER, SERIES_MAX, Metrics

BOUNDS = (0.1, 0.5, 2.0)


def test_a_bound_belongs_to_its_bucket() -> None:
    """At most, not less than; what is beyond all bounds is counted too."""
    counts = Counts(BOUNDS)
    for amount in (0.0, 0.1, 0.11, 0.5, 2.0, 2.1, 99.0):
        counts.observe(amount)
    assert counts.cumulative() == [2, 4, 5, 7]
    assert counts.total == pytest.approx(103.81)


@given(st.lists(st.floats(0, 10), max_size=50))
def test_counts_agree_with_counting(amounts: list[float]) -> None:
    """Whatever comes."""
    counts = Counts(BOUNDS)
    for amount in amounts:
        counts.observe(amount)
    naive = [sum(amount <= bound for amount in amounts) for bound in BOUNDS]
    assert counts.cumulative() == [*naive, len(amounts)]


def test_series_come_and_go() -> None:
    """By the values of their labels; one that was dropped begins anew."""
    histogram = Histogram(BOUNDS)
    histogram.labels("a").observe(1.0)
    assert histogram.labels("a").cumulative()[-1] == 1
    histogram.remove("a")
    assert list(histogram.series()) == []
    with pytest.raises(KeyError):
        histogram.remove("a")


def test_the_text_is_what_prometheus_reads() -> None:
    """Buckets that add up, `+Inf`, a count and a sum; one without labels is there at once."""
    metrics = Metrics()
    assert "roost_write_seconds_count 0.0" in metrics.render().decode()
    metrics("roost_runtime_load_seconds", 'a "model"').observe(2.5)
    metrics("roost_runtime_load_seconds", 'a "model"').observe(1000.0)
    text = metrics.render().decode()
    model = 'model="a \\"model\\""'
    assert f'roost_runtime_load_seconds_bucket{{le="2.5",{model}}} 1.0' in text
    assert f'roost_runtime_load_seconds_bucket{{le="+Inf",{model}}} 2.0' in text
    assert f"roost_runtime_load_seconds_count{{{model}}} 2.0" in text
    assert f"roost_runtime_load_seconds_sum{{{model}}} 1002.5" in text
    metrics.forget("roost_runtime_load_seconds", 'a "model"')
    assert "a \\" not in metrics.render().decode()


@pytest.mark.parametrize("name", ["roost_in_flight", "roost_runtime_load_seconds"])
def test_names_from_outside_are_bounded(name: str) -> None:
    """Ten thousand nodes or models are so many series and one for all others."""
    metrics = Metrics()
    for number in range(10_000):
        series = metrics(name, f"n{number}")
        if name == "roost_in_flight":
            series.set(1)
        else:
            series.observe(1)
    text = metrics.render().decode()
    lines = [one for one in text.splitlines() if one.startswith((f"{name}{{", f"{name}_count{{"))]
    assert len(lines) == SERIES_MAX + 1
    assert f'"{OTHER}"' in text
    for number in range(10_000):
        metrics.forget(name, f"n{number}")
    metrics(name, "new")
    assert '"new"' in metrics.render().decode()
