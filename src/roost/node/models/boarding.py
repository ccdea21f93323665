"""MACHINE: the line of models that wait for room on this node, and what is done for the first.

    ask ──▶ waits ──▶ Start          there is room
              │  ├──▶ Inspect        others would have to go: is it worth that?
              │  ╰──▶ Clear          others go first: idle ones, after `turn_s` busy ones too
              ╰─────▶ TurnAway       there can be no room, or there was none for `wait_s`

Strictly in order: a small model that would fit does not pass a large one that waits, or the large
one might wait for ever.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.node.models.ledger import Ledger, Room, RoomSettings

_MEMORY = "`memory.full_share`, how much of the memory may be taken"


class Start(msgspec.Struct, frozen=True):
    """Load this model: it has left the line."""

    model: ModelId


class Inspect(msgspec.Struct, frozen=True):
    """Look at this model's files: nobody goes for one that cannot be loaded."""

    model: ModelId


class Clear(msgspec.Struct, frozen=True):
    """Let these runtimes go as soon as nothing runs on them."""

    runtimes: tuple[RuntimeId, ...]


class Relieve(msgspec.Struct, frozen=True):
    """This model lacks so much of a measured memory: free what is idle, and measure again."""

    model: ModelId
    short_bytes: int


class TurnAway(msgspec.Struct, frozen=True):
    """Tell all who wait for this model: it has left the line."""

    model: ModelId
    failure: Failure


Step: TypeAlias = Start | Inspect | Clear | Relieve | TurnAway


@dataclass(slots=True)
class _Turn:
    since_s: float
    asked: bool
    asked_to_look: bool = False
    looked: bool = False
    # These have to be gone first, although there is room by what is known.
    after: tuple[RuntimeId, ...] = ()
    # One pass for each that waits: what does not help once does not help twice.
    relief: Literal["", "asked", "had"] = ""


class Boarding:
    """Models in order of coming; `ledger` says what room there is."""

    def __init__(self, settings: RoomSettings) -> None:
        self.settings = settings
        self._line: dict[ModelId, _Turn] = {}
        self._due_s: float | None = None
        self._closed = False
        self.ledger = Ledger(settings)

    def join(self, model: ModelId, now: float, *, asked: bool = False) -> None:
        """Wait for room; `asked` waits even when no stream does."""
        if self._closed:
            return
        turn = self._line.setdefault(model, _Turn(now, asked))
        turn.asked = turn.asked or asked

    def spare(
        self, offer: ModelOffer, pinned: Container[RuntimeId], now: float
    ) -> tuple[RuntimeId, ...]:
        """Who may go for a model that lacked memory where the ledger saw enough."""
        if self._closed or not self.settings.evict:
            return ()
        # A model of unknown size gets the place of one.
        return self.ledger.idle(offer.device, max(1, known_bytes(offer)), pinned, now)

    def rejoin(self, model: ModelId, after: tuple[RuntimeId, ...], now: float) -> None:
        """Be first in line, and go on when these are gone."""
        self._line = {model: _Turn(now, asked=True, after=after)} | self._line

    def quit(self, model: ModelId) -> None:
        """No stream waits for this model any more."""
        turn = self._line.get(model)
        if turn is not None and not turn.asked:
            del self._line[model]

    def drop(self, model: ModelId) -> None:
        """This model is not to be had any more."""
        self._line.pop(model, None)

    def looked(self, model: ModelId) -> bool:
        """This model is as it was installed; False if it does not wait for that any more."""
        turn = self._line.get(model)
        if turn is None or not turn.asked_to_look:
            return False
        turn.looked = True
        return True

    def on_weighed(self) -> None:
        """Memory was measured after the pass for who asked for one."""
        for turn in self._line.values():
            turn.relief = "had" if turn.relief == "asked" else turn.relief

    def close(self) -> None:
        """Nobody gets room any more, whether they wait already or come later."""
        self._closed = True
        self._line.clear()

    def next_s(self) -> float | None:
        """When time alone may change something for the first in line."""
        return self._due_s if self._line else None

    def step(self, offer: ModelOffer, pinned: Container[RuntimeId], now: float) -> Step | None:
        """What is done for the first in line, whose offer this is; None for nothing now.

        `pinned` are the runtimes that have something to do.
        """
        model, turn = next(iter(self._line.items()))
        need_bytes, device = known_bytes(offer), offer.device
        of = device, offer.backend
        if any(map(self.ledger.has, turn.after)) and now < turn.since_s + self.settings.wait_s:
            self._due_s = turn.since_s + self.settings.wait_s
            return None
        room = self.ledger.room(need_bytes, pinned, now, *of)
        if room.why == "" and not room.evict:
            return self._out(model, Start(model))
        if not self.ledger.fits_alone(need_bytes):
            return self._out(model, TurnAway(model, too_large(need_bytes, self.settings)))
        short_bytes = self.ledger.short_bytes(need_bytes, device)
        if short_bytes and turn.relief == "":
            turn.relief = "asked"
            return Relieve(model, short_bytes)
        if short_bytes and turn.relief == "asked" and now < turn.since_s + self.settings.wait_s:
            self._due_s = turn.since_s + self.settings.wait_s
            return None
        if room.why == "too_large":
            self.ledger.refused += 1
            return self._out(model, TurnAway(model, no_memory(need_bytes, short_bytes, device)))
        if room.why == "busy" and not self.settings.evict:
            return self._out(model, TurnAway(model, all_retained(self.settings, offer.backend)))
        if room.why == "" and (step := _clear(turn, model, room)) is not None:
            return step
        if now >= turn.since_s + self.settings.wait_s:
            limits = [*_limits(self.settings, offer.backend), *([_MEMORY] if short_bytes else [])]
            failure = no_room(self.settings.wait_s, limits, self.ledger.pins())
            return self._out(model, TurnAway(model, failure))
        if room.why == "busy" and now >= turn.since_s + self.settings.turn_s:
            others = self.ledger.room(need_bytes, (), now, *of)
            if others.why == "" and (step := _clear(turn, model, others)) is not None:
                return step
        times = (turn.since_s + self.settings.turn_s, turn.since_s + self.settings.wait_s)
        due = [at for at in (*times, room.at_s) if at is not None and at > now]
        self._due_s = min(due, default=None)
        return None

    def has(self, model: ModelId) -> bool:
        """Whether this model waits for room."""
        return model in self._line

    def forgo(self, model: ModelId) -> None:
        """Nobody but streams may wait for this model any more."""
        turn = self._line.get(model)
        if turn is not None:
            turn.asked = False

    def head(self) -> ModelId | None:
        """Who is first."""
        return next(iter(self._line), None)

    def _out(self, model: ModelId, step: Step) -> Step:
        del self._line[model]
        return step


def _clear(turn: _Turn, model: ModelId, room: Room) -> Step | None:
    """Let others go, but for what is known to be there; the look takes milliseconds."""
    if turn.looked:
        return Clear(room.evict)
    if turn.asked_to_look:
        return None
    turn.asked_to_look = True
    return Inspect(model)


def known_bytes(offer: ModelOffer) -> int:
    """What a model needs: as measured, or weights, KV and workspace as far as known, or 0."""
    if offer.measured_bytes is not None:
        return offer.measured_bytes
    return offer.size_bytes + (offer.kv_bytes or 0) + (offer.workspace_bytes or 0)


def no_room(wait_s: float, limits: Sequence[str], pins: int) -> Failure:
    """Every runtime that could make room is in use, or pinned; these are the limits."""
    see = " and ".join(limits)
    message = f"no other model on this node could make room in {wait_s:g} s: see {see}"
    if pins:
        message += f", or unpin one of the {pins} that are pinned"
    return Failure("node_busy", message, retry_after_s=1)


def all_retained(settings: RoomSettings, backend: str) -> Failure:
    """Nobody ever makes room here."""
    message = (
        "the node keeps every model that it has loaded (`runtime.evict` is never) and has no room "
        f"for another: raise {' or '.join(_limits(settings, backend))}"
    )
    return Failure("node_busy", message, retry_after_s=60)


def no_memory(need_bytes: int, short_bytes: int, device: str) -> Failure:
    """The machine has not enough left for it, whatever else goes."""
    message = (
        f"the model needs about {need_bytes} bytes, and the {device} memory has {short_bytes} too "
        "few after all that was idle had gone: lower its `ctx` or `slots`, free memory for others, "
        f"or raise {_MEMORY}"
    )
    return Failure("node_busy", message, retry_after_s=5)


def too_large(need_bytes: int, settings: RoomSettings) -> Failure:
    """The model alone is over the limit."""
    message = (
        f"the model needs about {need_bytes} bytes, and `max_runtime_bytes` allows "
        f"{settings.max_bytes}"
    )
    return Failure("load_failed", message)


def _limits(settings: RoomSettings, backend: str) -> list[str]:
    """Name the settings that limit runtimes of a backend here."""
    limits = {"max_runtimes": settings.max_runtimes, "max_runtime_bytes": settings.max_bytes}
    named = [f"`{name}` ({limit})" for name, limit in limits.items() if limit]
    kept = settings.kept.get(backend)
    return named if kept is None else [f"`{backend}_model_cache_size` ({kept})", *named]


def no_model(model: ModelId) -> Failure:
    """There is no such model here, or not any more."""
    return Failure("model_not_found", f"the node has no model named {model!r}")
