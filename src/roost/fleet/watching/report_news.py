"""MACHINE: what is new in the reports of one link: runtimes that come and go, memory that fills.

Nodes log this themselves; here it is told to those who look at the whole fleet. The first report
says how things are and tells nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from roost.core.ids import ModelId
from roost.core.snapshots import PRESSURES, NodeStatus, Pressure, RuntimeView
from roost.fleet.watching.happenings import Fact, Level


class News(NamedTuple):
    """An event by its name in the log, and its facts."""

    event: str
    level: Level
    facts: dict[str, Fact]


_EVENTS: dict[str, tuple[str, Level]] = {
    "loading": ("runtime_loading", "info"),
    "ready": ("runtime_ready", "info"),
    "failed": ("runtime_failed", "warning"),
    "absent": ("runtime_gone", "info"),
    "stopping": ("runtime_gone", "info"),
}


class ReportNews:
    """Remembers what the last report of one link has said."""

    def __init__(self) -> None:
        self._views: dict[ModelId, RuntimeView] | None = None
        self._pressures: dict[str, Pressure] = {}

    def news(self, status: NodeStatus) -> list[News]:
        """Return what has changed since the last report."""
        views = {view.model: view for view in status.runtimes}
        devices = status.memory.devices if status.memory is not None else ()
        pressures = {device.name: device.pressure for device in devices}
        was, self._views = self._views, views
        before, self._pressures = self._pressures, pressures
        if was is None:
            return []
        return [*_runtimes(was, views), *_memory(before, pressures)]


def _runtimes(was: dict[ModelId, RuntimeView], now: dict[ModelId, RuntimeView]) -> Iterator[News]:
    for model in dict.fromkeys((*was, *now)):
        old, new = _standing(was.get(model)), _standing(now.get(model))
        if old == new:
            continue
        event, level = _EVENTS[new[0]]
        if event == "runtime_gone" and old[0] in ("absent", "stopping", "failed"):
            # It was not there, or is on its way out already: told once.
            continue
        facts: dict[str, Fact] = {"model": str(model)}
        view = now.get(model)
        if view is not None and event == "runtime_ready" and view.load_s is not None:
            facts["seconds"] = round(view.load_s, 3)
        if view is not None and event == "runtime_failed" and view.failure:
            facts["reason"] = view.failure
        yield News(event, level, facts)


def _standing(view: RuntimeView | None) -> tuple[str, str]:
    """A runtime's state, and which one it is where that matters."""
    if view is None:
        return "absent", ""
    return view.state, view.runtime or "" if view.state == "ready" else ""


def _memory(was: dict[str, Pressure], now: dict[str, Pressure]) -> Iterator[News]:
    for device, pressure in now.items():
        before = was.get(device, "unknown")
        if pressure == before or "unknown" in (pressure, before):
            continue
        level: Level = "warning" if PRESSURES.index(pressure) > 1 else "info"
        yield News("memory_pressure", level, {"device": device, "level": pressure})
