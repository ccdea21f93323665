"""Metrics are exactly those of the list and render as Prometheus text."""

from __future__ import annotations

import pytest

from roost.observe.metrics import Metrics
from roost.observe.names import EVENTS, METRICS


def test_every_metric_of_the_list_is_rendered() -> None:
    """The exposition names each family with its help text."""
    text = Metrics().render().decode()
    for metric in METRICS:
        assert f"# HELP {metric.name.removesuffix('_total')}" in text


def test_counts_and_observations_show_up_with_their_labels() -> None:
    """A counter, a gauge and a histogram each keep what they were told."""
    metrics = Metrics()
    metrics("roost_requests_total", "complete", "openai").inc()
    metrics("roost_requests_total", "complete", "openai").inc()
    metrics("roost_in_flight", "n1").set(3)
    metrics("roost_ttft_seconds").observe(0.2)
    assert metrics.value("roost_requests_total", "complete", "openai") == 2
    assert metrics.value("roost_requests_total", "error", "openai") == 0
    assert metrics.value("roost_in_flight", "n1") == 3
    text = metrics.render().decode()
    assert 'roost_ttft_seconds_bucket{le="0.25"} 1.0' in text
    assert 'roost_ttft_seconds_bucket{le="0.1"} 0.0' in text


def test_a_forgotten_node_leaves_the_output() -> None:
    """A node that is gone does not stay in the exposition for ever."""
    metrics = Metrics()
    metrics("roost_in_flight", "n1").set(1)
    metrics.forget("roost_in_flight", "n1")
    metrics.forget("roost_in_flight", "never-seen")
    assert 'node="n1"' not in metrics.render().decode()


def test_an_unknown_name_is_a_key_error() -> None:
    """Nobody can emit a metric that the list does not explain."""
    with pytest.raises(KeyError):
        Metrics()("roost_invented_total")


def test_names_follow_the_conventions() -> None:
    """Counters end in `_total`, histograms in `_seconds` and have rising bounds."""
    for metric in METRICS:
        assert metric.name.startswith("roost_")
        assert metric.meaning.endswith(".")
        assert (metric.shape == "counter") == metric.name.endswith("_total")
        if metric.shape == "histogram":
            assert metric.name.endswith("_seconds")
            assert list(metric.bounds) == sorted(metric.bounds) != []
    assert all(meaning.endswith(".") for meaning in EVENTS.values())
