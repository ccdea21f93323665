"""Whoever asks how many nodes are needed changes neither the answer nor the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from roost.core.ids import ModelId
from roost.fleet.coordinator import Coordinator
from roost.fleet.watching.scaling import ScalingSettings
from roost.gateway.turns.turn import Turn
from roost.gateway.watching.scale import REPORT_S, Scale
from roost.observe.logs import Log
from roost.observe.metrics import Metrics

SECONDS = 60


class Noting:
    """A log that counts."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, event: str, **_facts: object) -> None:
        """Note it."""
        self.said.append(event)


class Idle:
    """A coordinator without nodes; counts who looks."""

    def __init__(self) -> None:
        self.looks = 0

    def fleet(self) -> tuple[()]:
        """Nobody is there."""
        self.looks += 1
        return ()

    def statistics(self) -> SimpleNamespace:
        """One waits."""
        return SimpleNamespace(waiting_by_model={ModelId("m"): 1}, waiting=1)


def watched(polls: int) -> tuple[Idle, Noting, Scale]:
    """A minute in which somebody asks so often before each tick, and a turn ends with each."""
    coordinator, log = Idle(), Noting()
    metrics, settings = Metrics(), ScalingSettings()
    scale = Scale(cast("Coordinator", coordinator), {}, metrics, cast("Log", log), settings)
    ended = cast("Turn", SimpleNamespace(request=SimpleNamespace(counts=True)))
    for second in range(SECONDS):
        for number in range(polls):
            scale.view(second + number / 100)
            scale.refresh(second + number / 100)
        scale.on_ended(ended, second + 0.5)
        scale.on_tick(second + 0.5)
    return coordinator, log, scale


def test_polls_keep_no_report_from_the_log() -> None:
    """One each 20 s in which something was asked for, whoever looks in between."""
    for polls in (0, 40):
        _, log, _ = watched(polls)
        assert log.said == ["fleet_report"] * int(SECONDS / REPORT_S)


def test_the_fleet_is_looked_at_once_a_second() -> None:
    """However often somebody asks, who is told the same."""
    calm, _, scale = watched(0)
    busy, _, polled = watched(40)
    assert calm.looks == busy.looks == SECONDS
    assert scale.view(SECONDS) == polled.view(SECONDS)
