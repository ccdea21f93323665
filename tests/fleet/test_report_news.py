"""What is new in a node's reports: runtimes that come and go, memory that fills and empties."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import DeviceView, MemoryReport, NodeStatus, Pressure, RuntimeView
from roost.fleet.watching.report_news import News, ReportNews

READY = RuntimeView(ModelId("m"), "toy", "ready", RuntimeId("r1"), load_s=1.25)
AGAIN = RuntimeView(ModelId("m"), "toy", "ready", RuntimeId("r2"), load_s=2.0)
LOADING = RuntimeView(ModelId("m"), "toy", "loading", RuntimeId("r1"))
STOPPING = RuntimeView(ModelId("m"), "toy", "stopping", RuntimeId("r1"))
FAILED = RuntimeView(ModelId("m"), "toy", "failed", failure="it does not fit")
ABSENT = RuntimeView(ModelId("m"), "toy", "absent")
M: dict[str, str | int | float | bool] = {"model": "m"}


def report(*views: RuntimeView, pressure: Pressure | None = None) -> NodeStatus:
    """Say that these runtimes are there, and how full memory is."""
    memory = None if pressure is None else MemoryReport((DeviceView("host", pressure=pressure),))
    return NodeStatus((), views, 0, 2, memory=memory)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((), (LOADING,), [News("runtime_loading", "info", M)]),
        ((LOADING,), (READY,), [News("runtime_ready", "info", {**M, "seconds": 1.25})]),
        ((READY,), (AGAIN,), [News("runtime_ready", "info", {**M, "seconds": 2.0})]),
        (
            (LOADING,),
            (FAILED,),
            [News("runtime_failed", "warning", {**M, "reason": "it does not fit"})],
        ),
        ((READY,), (STOPPING,), [News("runtime_gone", "info", M)]),
        ((READY,), (), [News("runtime_gone", "info", M)]),
        ((STOPPING,), (), []),
        ((STOPPING,), (ABSENT,), []),
        ((FAILED,), (ABSENT,), []),
        ((READY,), (READY,), []),
        ((), (ABSENT,), []),
    ],
)
def test_a_change_is_told_once(
    before: tuple[RuntimeView, ...], after: tuple[RuntimeView, ...], told: list[News]
) -> None:
    """Each step of a runtime's life, in the words of the log."""
    news = ReportNews()
    assert news.news(report(*before)) == []
    assert news.news(report(*after)) == told
    assert news.news(report(*after)) == []


def test_memory_is_told_as_it_fills_and_empties() -> None:
    """A warning where it fills; what nobody measured says nothing."""
    news = ReportNews()
    steps: tuple[Pressure | None, ...] = ("normal", "hard", "normal", "unknown", None, "hard")
    told = [[(one.level, one.facts) for one in news.news(report(pressure=p))] for p in steps]
    assert told == [
        [],
        [("warning", {"device": "host", "level": "hard"})],
        [("info", {"device": "host", "level": "normal"})],
        [],
        [],
        [],
    ]
