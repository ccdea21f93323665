"""SHELL: the Prometheus side of `names.METRICS`; the only module that imports prometheus-client."""

from __future__ import annotations

from typing import Protocol, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from roost.observe.names import METRICS, Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of `Metrics.render`."""


class Instrument(Protocol):
    """One series that can be counted, set or observed, depending on its shape."""

    def inc(self, amount: float = 1) -> None:
        """Add to a counter or gauge."""
        ...

    def set(self, value: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, amount: float) -> None:
        """Add an observation to a histogram."""
        ...


def _build(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, meaning, labels = metric.name, metric.meaning, metric.labels
    if metric.shape == "counter":
        return Counter(name, meaning, labels, registry=registry)
    if metric.shape == "gauge":
        return Gauge(name, meaning, labels, registry=registry)
    return Histogram(name, meaning, labels, registry=registry, buckets=metric.bounds)


class Metrics:
    """One process's metrics in a registry of their own, so that tests do not share counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._families = {metric.name: _build(metric, self._registry) for metric in METRICS}
        # A labelled series is looked up on every event of every stream: remember what it was.
        self._series: dict[tuple[str, ...], Instrument] = {}

    def __call__(self, name: str, *labels: str) -> Instrument:
        """Return the series of this name and these label values; unknown names are a `KeyError`."""
        key = (name, *labels)
        series = self._series.get(key)
        if series is None:
            family = self._families[name]
            # The shape decides which verbs work; a wrong one fails the first test that uses it.
            series = cast("Instrument", family.labels(*labels) if labels else family)
            self._series[key] = series
        return series

    def forget(self, name: str, *labels: str) -> None:
        """Drop a labelled series, so that a node that is gone does not stay in the output."""
        self._series.pop((name, *labels), None)
        try:
            self._families[name].remove(*labels)
        except KeyError:
            return

    def render(self) -> bytes:
        """Return the exposition text of everything counted so far."""
        return generate_latest(self._registry)

    def value(self, name: str, *labels: str) -> float:
        """Return a counter's or gauge's current value, 0.0 where nothing was counted; for tests."""
        family = self._families[name]
        wanted = dict(zip(next(m for m in METRICS if m.name == name).labels, labels, strict=True))
        for metric in family.collect():
            for sample in metric.samples:
                plain = not sample.name.endswith(("_created", "_sum", "_bucket"))
                if plain and sample.labels == wanted:
                    return float(sample.value)
        return 0.0
