"""MACHINE: how long runtimes stay although nobody uses them: pins, and the time to keep them.

A pin is of a model and holds until it is taken off, or the node ends: its runtime makes room for
nobody and is not unloaded by time. Other models go once nobody has used them for as long as they
are kept, by an operator's last word or else by the settings, and never before they have stayed as
long as the ledger says: who loads for a minute what is unloaded after a second does nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from roost.core.ids import ModelId, RuntimeId
from roost.node.floor.floor import Floor
from roost.node.floor.floors import Floors
from roost.node.models.ledger import Ledger

FOR_EVER = -1.0
LINGER_S = 0.5
"""Least time that a runtime is kept: who is next in a gateway's line comes a moment later."""


class StaySettings(msgspec.Struct, frozen=True):
    """For how long a runtime is kept that nobody uses; less than 0 is for ever.

    `models` have times of their own, all others `keep_alive_s`.
    """

    keep_alive_s: float = FOR_EVER
    models: Mapping[str, float] = {}


class Stays:
    """Which models stay, and who is to go for want of use."""

    def __init__(self, settings: StaySettings, ledger: Ledger, floors: Floors) -> None:
        self.settings = settings
        self._ledger = ledger
        self._floors = floors
        self._pins: set[ModelId] = set()
        self._own: dict[ModelId, float] = {}

    def is_pinned(self, model: ModelId) -> bool:
        """Whether the model's runtime, if there is one, stays."""
        return model in self._pins

    def pin(self, model: ModelId, runtime: RuntimeId | None) -> None:
        """Let this model stay; `runtime` is what it has now."""
        self._pins.add(model)
        if runtime is not None:
            self._ledger.pin(runtime, pinned=True)

    def unpin(self, model: ModelId, runtime: RuntimeId | None, keep_s: float | None = None) -> None:
        """Let this model go like others, or once nobody has used it for a time of its own."""
        self._pins.discard(model)
        self._own.pop(model, None)
        if keep_s is not None:
            self._own[model] = keep_s
        if runtime is not None:
            self._ledger.pin(runtime, pinned=False)

    def entered(self, model: ModelId, runtime: RuntimeId) -> None:
        """A load begins."""
        if model in self._pins:
            self._ledger.pin(runtime, pinned=True)

    def keep_only(self, models: Container[ModelId]) -> None:
        """Forget what was said of models that are not installed any more."""
        self._pins = {model for model in self._pins if model in models}
        self._own = {model: keep_s for model, keep_s in self._own.items() if model in models}

    def left_s(self, floor: Floor, now: float) -> float | None:
        """How long until the runtime goes if nobody comes; None while it is not to go."""
        until_s = self._until_s(floor)
        return None if until_s is None else max(0.0, until_s - now)

    def due(self, now: float) -> list[Floor]:
        """Runtimes that nobody has used for too long."""
        times = ((self._until_s(floor), floor) for floor in self._floors)
        return [floor for until_s, floor in times if until_s is not None and until_s <= now]

    def next_s(self) -> float | None:
        """When the next one will be due if nobody comes."""
        times = (self._until_s(floor) for floor in self._floors)
        return min((at_s for at_s in times if at_s is not None), default=None)

    def _until_s(self, floor: Floor) -> float | None:
        model, settings = floor.model, self.settings
        usual_s = 0.0 if self._ledger.is_brief(floor.runtime) else settings.keep_alive_s
        keep_s = self._own.get(model, settings.models.get(model, usual_s))
        if keep_s < 0 or floor.streams or floor.is_retiring:
            return None
        return self._ledger.rests_until_s(floor.runtime, max(keep_s, LINGER_S))
