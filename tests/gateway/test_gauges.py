"""Gauges that come and go: what is told has a series, and nothing else has one."""

from __future__ import annotations

from roost.gateway.watching.gauges import Gauges
from roost.observe.metrics import SERIES_MAX, Metrics


def shown(metrics: Metrics) -> set[str]:
    """Every series of nodes, with its value."""
    lines = metrics.render().decode().splitlines()
    return {line for line in lines if line.startswith("roost_node_load_1m{")}


def test_series_are_those_told_last() -> None:
    """An unknown value is none and a measured 0 is one; who is told no more is gone."""
    metrics = Metrics()
    gauges = Gauges(metrics)
    load = "roost_node_load_1m"
    gauges.refresh({(load, "a"): 1.5, (load, "b"): 0.0, (load, "c"): None})
    assert shown(metrics) == {f'{load}{{node="a"}} 1.5', f'{load}{{node="b"}} 0.0'}
    gauges.refresh({(load, "b"): None, (load, "c"): 2.0})
    assert shown(metrics) == {f'{load}{{node="c"}} 2.0'}
    gauges.refresh({})
    assert shown(metrics) == set()


def test_others_may_take_the_room_of_all() -> None:
    """As many as there is room for give way to as many others at once."""
    metrics = Metrics()
    gauges = Gauges(metrics)
    for fleet in "ab":
        names = [f"{fleet}{number}" for number in range(SERIES_MAX)]
        gauges.refresh({("roost_node_load_1m", name): 1.0 for name in names})
        assert shown(metrics) == {f'roost_node_load_1m{{node="{name}"}} 1.0' for name in names}
