"""SHELL: the Prometheus side of `names.METRICS`; the only module that imports prometheus-client."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import HistogramMetricFamily

from roost.observe.histogram import Histogram
from roost.observe.names import METRICS, Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of `Metrics.render`."""

SERIES_MAX = 512
"""So many series of one name at most: names of nodes, models and tenants come from outside."""

OTHER = "other"
TENANT = "tenant"
"""The label that says whose a figure is."""

Family: TypeAlias = "Counter | Gauge | Histogram"


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


class _Collected:
    """A histogram of ours as the registry wants it."""

    def __init__(self, metric: Metric, histogram: Histogram) -> None:
        self._metric = metric
        self._histogram = histogram

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Give its series; one without labels is there from the start."""
        metric, histogram = self._metric, self._histogram
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        ends = [*map(str, histogram.bounds), "+Inf"]
        for values, counts in histogram.series():
            buckets = list(zip(ends, map(float, counts.cumulative()), strict=True))
            family.add_metric(values, buckets, counts.total)
        yield family


def _build(metric: Metric, registries: Sequence[CollectorRegistry]) -> Family:
    name, meaning, labels = metric.name, metric.meaning, metric.labels
    if metric.shape != "histogram":
        make = Counter if metric.shape == "counter" else Gauge
        family = make(name, meaning, labels, registry=None)
        for registry in registries:
            registry.register(family)
        return family
    histogram = Histogram(metric.bounds)
    if not labels:
        histogram.labels()
    for registry in registries:
        registry.register(_Collected(metric, histogram))
    return histogram


class Metrics:
    """One process's metrics in a registry of their own, so that tests do not share counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # What names no tenant stands in another registry as well, for those who may know of none.
        self._open = CollectorRegistry()
        self._families = {metric.name: self._family(metric) for metric in METRICS}
        # A labelled series is looked up on every event of every stream: remember what it was.
        self._series: dict[tuple[str, ...], Instrument] = {}
        self._counts: Tally[str] = Tally()

    def __call__(self, name: str, *labels: str) -> Instrument:
        """Return the series of this name and these label values; unknown names are a `KeyError`.

        Beyond `SERIES_MAX` of a name all further ones are one, whose labels are `OTHER`.
        """
        key = (name, *labels)
        series = self._series.get(key)
        if series is None:
            if labels and self._counts[name] >= SERIES_MAX and labels[0] != OTHER:
                return self(name, *(OTHER for _ in labels))
            family = self._families[name]
            # The shape decides which verbs work; a wrong one fails the first test that uses it.
            plain = family if not labels and not isinstance(family, Histogram) else None
            series = cast("Instrument", plain or family.labels(*labels))
            self._series[key] = series
            self._counts[name] += 1
        return series

    def forget(self, name: str, *labels: str) -> None:
        """Drop a labelled series, so that a node that is gone does not stay in the output."""
        if self._series.pop((name, *labels), None) is None:
            return
        self._counts[name] -= 1
        self._families[name].remove(*labels)

    def render(self, *, tenants: bool = True) -> bytes:
        """Return the exposition text of what was counted so far, with or without tenants' names."""
        return generate_latest(self._registry if tenants else self._open)

    def _family(self, metric: Metric) -> Family:
        both = (self._registry, self._open)
        return _build(metric, (self._registry,) if TENANT in metric.labels else both)

    def value(self, name: str, *labels: str) -> float:
        """Return a counter's or gauge's current value, 0.0 where nothing was counted; for tests."""
        family = self._families[name]
        assert not isinstance(family, Histogram), "a histogram has no one value"
        wanted = dict(zip(next(m for m in METRICS if m.name == name).labels, labels, strict=True))
        for metric in family.collect():
            for sample in metric.samples:
                plain = not sample.name.endswith(("_created", "_sum", "_bucket"))
                if plain and sample.labels == wanted:
                    return float(sample.value)
        return 0.0
