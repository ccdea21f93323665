"""MACHINE: how long somebody will wait: from how fast places came back while others waited.

Only time in which somebody waits counts: of a fleet with room, the rate at which places come back
tells how much it was asked for and not how much it can do. Where nobody has waited for long yet,
how long places are held stands in: all of them are taken then, and each comes back once in that
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, expm1

from roost.core.ids import ModelId
from roost.fleet.pace import Mean

_NEWEST = 0.05
_STAND_IN = 8.0
"""For how many places that came back the usual time of holding one stands."""


@dataclass(slots=True)
class _Model:
    """One model: `clock_s` runs while anybody waits; `back` counts places on it, faded."""

    held: Mean = field(default_factory=Mean)
    clock_s: float = 0.0
    since_s: float | None = None
    back: float = 0.0
    back_s: float = 0.0

    def clock(self, now: float) -> float:
        """Seconds so far in which anybody waited."""
        return self.clock_s + (0.0 if self.since_s is None else now - self.since_s)


class Waits:
    """What was learned about each model; `window_s` is how long a place that came back counts."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._models: dict[ModelId, _Model] = {}

    def begun(self, model: ModelId, now: float) -> None:
        """Somebody waits for this model."""
        known = self._models.get(model)
        if known is not None and known.since_s is None:
            known.since_s = now

    def ended(self, model: ModelId, now: float) -> None:
        """Nobody waits for it any more."""
        known = self._models.get(model)
        if known is not None:
            known.clock_s, known.since_s = known.clock(now), None

    def returned(self, model: ModelId, held_s: float, now: float) -> None:
        """A place came back that was held for so long."""
        known = self._models.setdefault(model, _Model())
        known.held.note(held_s, _NEWEST)
        if known.since_s is not None:
            clock_s = known.clock(now)
            known.back = self._faded(known, clock_s) + 1.0
            known.back_s = clock_s

    def foretell_s(self, model: ModelId, places: int, ahead: int, now: float) -> float | None:
        """Seconds until a place is free for somebody with so many ahead; `places` are taken now.

        None where nothing is known: no place was given back yet, or none is taken.
        """
        known = self._models.get(model)
        if known is None or not places:
            return None
        clock_s = known.clock(now)
        # The window is not full yet at first: divide what was really watched.
        watched_s = -self._window_s * expm1(-clock_s / self._window_s)
        usual_s = known.held.value / places
        per_place_s = (watched_s + _STAND_IN * usual_s) / (self._faded(known, clock_s) + _STAND_IN)
        return (ahead + 1) * per_place_s

    def _faded(self, known: _Model, clock_s: float) -> float:
        return known.back * exp((known.back_s - clock_s) / self._window_s)
