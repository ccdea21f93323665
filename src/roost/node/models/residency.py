"""MACHINE: which models have a runtime, from absent to ready and back.

    absent ──start──▶ loading ──loaded──▶ ready ──retire──▶ stopping ──gone──▶ absent
       ▲                 │  │               ╰──gone──▶ absent
       │                 │  ╰──hung──▶ stopping ──gone──▶ failed
       │                 ╰──load failed──▶ failed
       ╰──want: after the back-off────────────╯

A lane that is wanted and absent waits for room (`boarding`). One load at a time per model, however
many want it. A load that fails for want of memory is tried once more when idle runtimes have gone
for it, whatever the ledger thought. Otherwise a failed load answers all who wait; the next attempt
is made by the next request after a back-off that doubles, never by a timer: a model that cannot
load costs nothing while nobody asks for it. A runtime that died is simply absent.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import TypeAlias

import msgspec

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer, RuntimeState
from roost.errors import Failure
from roost.node.effects import Load, Look, StreamKey
from roost.node.models.boarding import (
    Boarding,
    Clear,
    Inspect,
    Relieve,
    Start,
    TurnAway,
    known_bytes,
    no_model,
)
from roost.node.models.ledger import RoomSettings


class BackoffSettings(msgspec.Struct, frozen=True):
    """After a failed load none is tried for `first_s` seconds, doubled each time up to `max_s`."""

    first_s: float = 1.0
    max_s: float = 30.0


class Ready(msgspec.Struct, frozen=True):
    """The model's runtime runs."""

    runtime: RuntimeId


class Wait(msgspec.Struct, frozen=True):
    """The model has to be loaded first, and maybe to wait for room."""


class Unavailable(msgspec.Struct, frozen=True):
    """The last load failed, and it is too early for another."""

    failure: Failure


Want: TypeAlias = Ready | Wait | Unavailable


class TellAll(msgspec.Struct, frozen=True):
    """These waited for room for this model and will not get it."""

    model: ModelId
    waiting: tuple[StreamKey, ...]
    failure: Failure


Step: TypeAlias = Load | Look | Clear | Relieve | TellAll


class Residence(msgspec.Struct, frozen=True):
    """One model's lane at a glance; `load_s` is the duration of its last load.

    `began_s` is when the load began that is under way.
    """

    model: ModelId
    state: RuntimeState
    runtime: RuntimeId | None
    load_s: float | None
    failure: Failure | None
    waiting: int
    began_s: float | None = None


class _Lane:
    """What is known about one model."""

    def __init__(self, model: ModelId) -> None:
        self.model = model
        self.state: RuntimeState = "absent"
        self.runtime: RuntimeId | None = None
        self.waiting: list[StreamKey] = []
        self.tried_again = False
        self.failures = 0
        self.failure: Failure | None = None
        self.retry_at = 0.0
        self.loading_since = 0.0
        self.load_s: float | None = None


class Residency:
    """The lanes of all models; knows runtimes by name only."""

    def __init__(self, settings: BackoffSettings, room: RoomSettings) -> None:
        self._settings = settings
        self._boarding = Boarding(room)
        self.ledger = self._boarding.ledger
        self._lanes: dict[ModelId, _Lane] = {}
        self._model_of: dict[RuntimeId, ModelId] = {}
        self._born = 0

    def limit(self, room: RoomSettings) -> None:
        """Have these limits for the room of whoever comes from now on."""
        self._boarding.settings = self.ledger.settings = room

    def want(self, model: ModelId, waiter: StreamKey | None, now: float) -> Want:
        """Somebody needs this model's runtime; `waiter` is remembered if it has to wait."""
        lane = self._lanes.setdefault(model, _Lane(model))
        if lane.state == "ready":
            assert lane.runtime is not None
            return Ready(lane.runtime)
        if lane.state in ("failed", "stopping") and lane.failures and now < lane.retry_at:
            return Unavailable(_failure(lane, now))
        if waiter is not None:
            lane.waiting.append(waiter)
        if lane.state == "failed":
            lane.state = "absent"
        if lane.state == "absent":
            self._boarding.join(model, now, asked=waiter is None)
        return Wait()

    @property
    def is_crowded(self) -> bool:
        """Whether any model waits for room."""
        return self._boarding.head() is not None

    def next_s(self) -> float | None:
        """When time alone may make room, or end the wait for it."""
        return self._boarding.next_s()

    def step(
        self, offers: Mapping[ModelId, ModelOffer], pinned: Container[RuntimeId], now: float
    ) -> Step | None:
        """What to do for the first that waits for room; None if it has to go on waiting.

        `pinned` are the runtimes that have something to do. To be asked again until it is None,
        after anything that may have made room.
        """
        model = self._boarding.head()
        if model is None:
            return None
        offer = offers.get(model)
        if offer is None:
            self._boarding.drop(model)
            return TellAll(model, self._turn_away(model), no_model(model))
        step = self._boarding.step(offer, pinned, now)
        if isinstance(step, Start):
            return Load(model, self._start(self._lanes[model], offer, now))
        if isinstance(step, TurnAway):
            return TellAll(model, self._turn_away(model), step.failure)
        return Look(model) if isinstance(step, Inspect) else step

    def on_weighed(self) -> None:
        """Memory was measured after the pass for who asked for one."""
        self._boarding.on_weighed()

    def give_up(self) -> None:
        """Nobody gets room any more: the node is about to end."""
        self._boarding.close()

    def leave(self, model: ModelId, waiter: StreamKey) -> None:
        """This one does not wait any more; a load under way goes on for the next to come."""
        lane = self._lanes.get(model)
        if lane is not None and waiter in lane.waiting:
            lane.waiting.remove(waiter)
            if not lane.waiting:
                self._boarding.quit(model)

    def on_loaded(self, runtime: RuntimeId, now: float) -> tuple[StreamKey, ...]:
        """The load succeeded: who waited for it. Nobody, if it was told to stop meanwhile."""
        lane = self._lane_of(runtime)
        if lane is None or lane.state != "loading":
            return ()
        lane.state = "ready"
        self.ledger.settled(runtime, now)
        lane.load_s = now - lane.loading_since
        lane.failures, lane.failure, lane.tried_again = 0, None, False
        return _take_waiting(lane)

    def again(
        self,
        runtime: RuntimeId,
        failure: Failure,
        offers: Mapping[ModelId, ModelOffer],
        pinned: Container[RuntimeId],
        now: float,
    ) -> tuple[RuntimeId, ...]:
        """Who goes so that this load, which has failed, is made once more; nobody if it is not.

        `pinned` are the runtimes that have something to do. Where somebody goes, all who wait for
        the model go on waiting, and it is first in line.
        """
        lane = self._lane_of(runtime)
        offer = offers.get(lane.model) if lane is not None else None
        if lane is None or offer is None or lane.state != "loading" or lane.tried_again:
            return ()
        if failure.reason != "out_of_memory":
            return ()
        going = self._boarding.spare(offer, pinned, now)
        if going:
            lane.tried_again = True
            self._forget(lane)
            lane.state = "absent"
            self._boarding.rejoin(lane.model, going, now)
        return going

    def on_load_failed(
        self, runtime: RuntimeId, failure: Failure, now: float
    ) -> tuple[StreamKey, ...]:
        """The load failed: who waited for it and has to be told."""
        lane = self._lane_of(runtime)
        if lane is None or lane.state != "loading":
            return ()
        self._forget(lane)
        return self._failed(lane, failure, now)

    def on_hung(self, runtime: RuntimeId, failure: Failure, now: float) -> tuple[StreamKey, ...]:
        """A load got nowhere and is told to stop: who waited for it and has to be told.

        It has failed, but until it is gone it takes its room, and no other begins in its place.
        """
        lane = self._lane_of(runtime)
        if lane is None or lane.state != "loading":
            return ()
        waiting = self._failed(lane, failure, now)
        lane.state = "stopping"
        self.ledger.leaving(runtime)
        return waiting

    def on_looked(
        self, model: ModelId, failure: Failure | None, now: float
    ) -> tuple[StreamKey, ...]:
        """Its files were looked at: who waited for what cannot be loaded, and has to be told."""
        if not self._boarding.looked(model) or failure is None:
            return ()
        self._boarding.drop(model)
        return self._failed(self._lanes[model], failure, now)

    def _failed(self, lane: _Lane, failure: Failure, now: float) -> tuple[StreamKey, ...]:
        lane.state, lane.failure, lane.tried_again = "failed", failure, False
        wait_s = min(self._settings.max_s, self._settings.first_s * 2.0**lane.failures)
        # The exponent is bounded too: 2.0**1024 is no float.
        lane.failures = min(lane.failures + 1, 64)
        lane.retry_at = now + wait_s
        return _take_waiting(lane)

    def retire(self, runtime: RuntimeId) -> bool:
        """Give this runtime no more work; False if it is unknown or already on its way out."""
        lane = self._lane_of(runtime)
        if lane is None or lane.state == "stopping":
            return False
        lane.state = "stopping"
        self.ledger.leaving(runtime)
        return True

    def on_gone(self, runtime: RuntimeId, now: float) -> None:
        """The runtime has ended; if somebody waits for the next one of its model, so do we."""
        lane = self._lane_of(runtime)
        if lane is None:
            return
        # The caller turns the death of a loading runtime into a failed load. Starting the next one
        # here at once, for those who wait, would be a loop of crashes.
        assert lane.state != "loading"
        self._forget(lane)
        lane.state = "failed" if lane.failures and not lane.waiting else "absent"
        if lane.waiting:
            self._boarding.join(lane.model, now)

    def model_of(self, runtime: RuntimeId) -> ModelId | None:
        """Which model this runtime serves; None once it has ended."""
        return self._model_of.get(runtime)

    def is_loading(self, runtime: RuntimeId) -> bool:
        """Whether this runtime is on its way up."""
        lane = self._lane_of(runtime)
        return lane is not None and lane.state == "loading"

    def why_not(self, model: ModelId, now: float) -> Failure:
        """Why a model whose last load failed cannot be used, and when to come back."""
        return _failure(self._lanes[model], now)

    def drop(self, model: ModelId) -> None:
        """The model is no longer installed: forget it, unless a runtime of it is alive."""
        lane = self._lanes.get(model)
        if lane is not None and lane.runtime is None:
            del self._lanes[model]
            self._boarding.drop(model)

    def runtime_of(self, model: ModelId) -> RuntimeId | None:
        """The model's runtime, whatever its state."""
        lane = self._lanes.get(model)
        return lane.runtime if lane else None

    def is_awaited(self, model: ModelId) -> bool:
        """Whether the model waits for room."""
        return self._boarding.has(model)

    def forgo(self, model: ModelId) -> bool:
        """Nobody but streams may have this model loaded any more; whether none waits for it."""
        self._boarding.forgo(model)
        if self.waiting(model):
            return False
        self._boarding.quit(model)
        return True

    def waiting(self, model: ModelId) -> tuple[StreamKey, ...]:
        """Who waits for this model."""
        lane = self._lanes.get(model)
        return tuple(lane.waiting) if lane else ()

    def is_usable(self, model: ModelId) -> bool:
        """Whether the last load, if there was one, did not fail."""
        lane = self._lanes.get(model)
        return lane is None or lane.failures == 0

    def residences(self) -> tuple[Residence, ...]:
        """Every model that has ever been wanted, in that order."""
        return tuple(
            Residence(
                *(e.model, e.state, e.runtime, e.load_s, e.failure, len(e.waiting)),
                began_s=e.loading_since if e.state == "loading" else None,
            )
            for e in self._lanes.values()
        )

    def _lane_of(self, runtime: RuntimeId) -> _Lane | None:
        model = self._model_of.get(runtime)
        return None if model is None else self._lanes[model]

    def _forget(self, lane: _Lane) -> None:
        assert lane.runtime is not None
        del self._model_of[lane.runtime]
        self.ledger.leave(lane.runtime)
        lane.runtime = None

    def _start(self, lane: _Lane, offer: ModelOffer, now: float) -> RuntimeId:
        assert lane.state == "absent", f"started while {lane.state}"
        self._born += 1
        runtime = RuntimeId(f"{lane.model}#{self._born}")
        lane.state, lane.runtime, lane.loading_since = "loading", runtime, now
        self._model_of[runtime] = lane.model
        self.ledger.enter(runtime, known_bytes(offer), now, offer.device, offer.backend)
        return runtime

    def _turn_away(self, model: ModelId) -> tuple[StreamKey, ...]:
        lane = self._lanes.get(model)
        return _take_waiting(lane) if lane is not None else ()


def _take_waiting(lane: _Lane) -> tuple[StreamKey, ...]:
    waiting, lane.waiting = tuple(lane.waiting), []
    return waiting


def _failure(lane: _Lane, now: float) -> Failure:
    assert lane.failure is not None
    retry_after_s = max(1, min(120, math.ceil(lane.retry_at - now)))
    message = f"the model could not be loaded: {lane.failure.message}"
    return Failure("load_failed", message, retry_after_s=retry_after_s)
