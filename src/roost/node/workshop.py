"""MACHINE: the node's runtimes and the streams on them.

Every way in which a stream or a runtime can end passes through `quit`, `_leave` and `_retire`, and
nowhere else are slots given back or runtimes told to stop.
"""

from __future__ import annotations

from collections.abc import Iterable

from roost.backends.base import Prepared
from roost.core.events import Failed, StreamEvent
from roost.core.ids import ModelId, RuntimeId, TenantId
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.node import guard, refusals
from roost.node.cold import cold_count, is_cold_count
from roost.node.desk import Desk, Outgoing
from roost.node.effects import Effect, Load, Look, Prepare, Stop, StreamKey
from roost.node.floor.floor import Floor
from roost.node.floor.floors import Floors
from roost.node.floor.seating import Seating
from roost.node.models.boarding import Clear, Relieve, known_bytes, no_model
from roost.node.models.keys import Keys, carried
from roost.node.models.progress import Progress
from roost.node.models.residency import Ready, Residency, TellAll, Unavailable
from roost.node.models.stays import Stays
from roost.node.settings import AgentSettings
from roost.node.states.sessions import Sessions
from roost.node.stream import Stream
from roost.wire.messages import Phase


class Workshop:
    """Loads, seats, runs and clears away; says what it needs through `outgoing`."""

    seating: type[Seating] = Seating

    def __init__(self, settings: AgentSettings, desk: Desk, outgoing: Outgoing) -> None:
        self.settings = settings
        self._desk = desk
        self._outgoing = outgoing
        self.residency = Residency(settings.backoff, settings.room)
        self.ledger = self.residency.ledger
        self.floors = Floors(outgoing, keeps=settings.sessions.persistence != "ephemeral")
        self.progress = Progress(settings.progress_min_s, settings.pace.load_stall_s)
        self.stays = Stays(settings.stay, self.ledger, self.floors)
        self.turned_away: dict[ModelId, Failure] = {}
        self._keys = Keys()
        self.short_bytes: int | None = None
        self.offers: dict[ModelId, ModelOffer] = {}
        self.loads = 0
        self.sessions = Sessions(settings.sessions)

    # What the agent reads.

    def is_usable(self, model: ModelId) -> bool:
        """Whether the model could fit, and its last load, if there was one, did not fail."""
        offer = self.offers.get(model)
        fits = offer is None or self.ledger.fits_alone(known_bytes(offer))
        return fits and self.residency.is_usable(model)

    def next_tick(self) -> float | None:
        """When time alone may change something: a runtime counts as hung, or has to make room."""
        idle_s, kept_s = self.stays.next_s(), self.sessions.next_tick()
        times = (self.floors.next_tick(), self.residency.next_s(), idle_s, kept_s)
        return min((at for at in times if at is not None), default=None)

    # Loading.

    def preload(self, model: ModelId, now: float) -> Failure | None:
        """Load a model that nobody has asked for yet, as soon as there is room; or say why not."""
        want = self.residency.want(model, None, now)
        self.fill(now)
        return want.failure if isinstance(want, Unavailable) else None

    def fill(self, now: float) -> None:
        """Let those who wait for room have it, in their order; harmless at any time."""
        while self.residency.is_crowded:
            match self.residency.step(self.offers, self.floors.pinned(), now):
                case Load() as load:
                    self.loads += 1
                    self._keys.begin(load.runtime, self.offers[load.model])
                    self.progress.begin(load.runtime, now)
                    self.stays.entered(load.model, load.runtime)
                    self._outgoing.add(load)
                case Look() as look:
                    self._outgoing.add(look)
                case Clear(runtimes):
                    self._clear(runtimes, now)
                case Relieve(_, short_bytes):
                    self.short_bytes = short_bytes
                case TellAll(model, waiting, failure):
                    self.turned_away[model] = failure
                    for key in waiting:
                        self.end(self._known(key), failure, now)
                case None:
                    return

    def begin(self, stream: Stream, now: float) -> None:
        """Bring a stream on its way, one just admitted or one put back."""
        if stream.model not in self.offers:
            self.end(stream, no_model(stream.model), now)
            return
        floor = self.floors.get(self.residency.runtime_of(stream.model))
        if is_cold_count(stream, self.offers[stream.model], floor, self.settings.cold_counts):
            self._outgoing.add(cold_count(stream))
            return
        want = self.residency.want(stream.model, stream.key, now)
        if isinstance(want, Unavailable):
            self.end(stream, want.failure, now)
            return
        if isinstance(want, Ready):
            self._prepare(stream, want.runtime, now)
            return
        self.fill(now)
        if not stream.ended:
            self._say_loading(stream)

    def on_load_progress(self, runtime: RuntimeId, progress: float, now: float) -> None:
        """A load has come this far, 0 to 1."""
        if self.residency.is_loading(runtime) and self.progress.take(runtime, progress, now):
            for stream in self._waiting_for(runtime):
                self._say_loading(stream)

    def on_loaded(self, runtime: RuntimeId, exact: str, now: float) -> None:
        """A runtime is ready: whoever waited for it goes on; `exact` is its key, "" if untold."""
        model = self.residency.model_of(runtime)
        if model is None or not self.residency.is_loading(runtime):
            return
        self.progress.over(runtime)
        offer = self.offers.get(model)
        self._keys.came_up(runtime, exact, offer)
        seating = self.seating(runtime, offer.slots if offer else 1, self.sessions)
        floor = Floor(runtime, model, seating, self.settings.pace, now)
        self.floors.add(floor)
        for key in self.residency.on_loaded(runtime, now):
            stream = self._known(key)
            self._outgoing.say(key.link, Phase(key.stream, "preparing"))
            self._prepare(stream, runtime, now)
        if not self._keys.is_of(runtime, offer):
            self._retire(floor, now)

    def on_looked(self, model: ModelId, failure: Failure | None, now: float) -> None:
        """A model that waits for others to go was looked at: if it is spoilt, nobody goes."""
        for key in self.residency.on_looked(model, failure, now):
            self.end(self._known(key), self.residency.why_not(model, now), now)
        self.fill(now)

    def on_load_failed(self, runtime: RuntimeId, failure: Failure, now: float) -> None:
        """A runtime could not be started: others go if that may help, or all who wait are told."""
        model = self.residency.model_of(runtime)
        self.progress.over(runtime)
        self._keys.over(runtime)
        going = self.residency.again(runtime, failure, self.offers, self.floors.pinned(), now)
        self._clear(going, now)
        for key in self.residency.on_load_failed(runtime, failure, now):
            assert model is not None
            self.end(self._known(key), self.residency.why_not(model, now), now)

    def on_gone(self, runtime: RuntimeId, now: float) -> None:
        """A runtime has ended, by itself or because it was told to."""
        for effect in self.sessions.on_gone(runtime):
            self._outgoing.add(effect)
        if self.residency.is_loading(runtime):
            self.on_load_failed(runtime, refusals.NOT_LOADED, now)
            return
        self.progress.over(runtime)
        self.floors.on_gone(runtime)
        self._keys.over(runtime)
        floor = self.floors.get(runtime)
        self.residency.on_gone(runtime, now)
        if floor is None:
            return
        for stream in list(floor.streams.values()):
            if stream.phase in ("preparing", "seating") and not stream.has_begun:
                self._recall(floor, stream, refusals.DIED, now)
            elif stream.phase != "returning":
                self.end(stream, refusals.DIED, now)
        self.floors.remove(floor)

    # Streams.

    def on_prepared(self, stream: Stream, prepared: Prepared, now: float) -> None:
        """Rendered and tokenised: it needs a slot now, unless it only wanted to be counted."""
        floor = self.floors.get(stream.runtime)
        failure = guard.too_long(prepared, stream.prompt_max, self.settings.vectors_tokens_max)
        if failure is not None:
            self.on_prepare_failed(stream, failure, now)
            return
        if not stream.move("counted" if stream.request.counts else "prepared"):
            return
        if stream.request.counts:
            self._desk.flow(stream, stream.counted(prepared))
            self._leave(stream, now, is_stuck=False, is_dead=False)
            return
        assert floor is not None, "who prepares on a runtime that goes away is told to stop"
        stream.prepared = prepared
        floor.enqueue(stream, now)
        self.seat(floor, [], now)

    def on_prepare_failed(self, stream: Stream, failure: Failure, now: float) -> None:
        """It cannot be prepared; a caller's mistake passes through as it is."""
        if refusals.is_death(failure) and not stream.was_recalled and stream.move("orphaned"):
            self._put_back(stream, now, is_dead=True)
            return
        if not stream.move("unprepared"):
            return
        self._desk.say_end(stream, failure)
        self._leave(stream, now, is_stuck=False, is_dead=refusals.is_death(failure))

    def on_credit(self, stream: Stream, messages: int, now: float) -> None:
        """Its gateway reads on."""
        was_paused = stream.outbox.paused
        self._desk.flow(stream, stream.outbox.on_credit(messages))
        floor = self.floors.get(stream.runtime)
        if was_paused and not stream.outbox.paused and floor is not None:
            floor.on_resume(now)
        self._desk.settle(stream, now)

    def on_event(self, stream: Stream, event: StreamEvent, now: float) -> None:
        """The backend's stream produced this."""
        if stream.phase not in ("running", "yielding", "leaving"):
            return
        floor = self.floors.get(stream.runtime)
        if floor is not None and floor.must_yield(stream, event, now):
            self._outgoing.add(Stop(stream.key))
            return
        if isinstance(event, Failed) and (stream.phase == "yielding" or not stream.has_spoken):
            self._desk.say_end(stream, event.failure)
        else:
            self._desk.flow(stream, stream.on_event(event))
        if floor is None:
            return
        floor.on_event(stream, event, now)
        if isinstance(event, Failed) and refusals.is_death(event.failure):
            self._retire(floor, now)
            self.floors.unload(floor.runtime)

    def on_closed(self, stream: Stream, failure: Failure | None, now: float) -> None:
        """The backend's block has been left: the slot is free.

        What the block raises before the stream's outcome is settled is that outcome. What it
        raises afterwards means that the slot could not be freed, and the runtime is replaced.
        """
        if stream.phase == "returning":
            stream.move("closed")
            self._put_back(stream, now, is_dead=False)
            return
        floor = self.floors.get(stream.runtime)
        is_yielding = stream.phase == "yielding" and not stream.ended
        if is_yielding and failure is None and floor is not None:
            self.seat(floor, floor.on_yielded(stream, now), now)
            return
        if stream.phase not in ("running", "yielding", "leaving"):
            return
        is_stuck = failure is not None and (stream.ended or is_yielding) and stream.use is not None
        self._desk.say_end(stream, failure or refusals.CUT_SHORT)
        stream.close()
        is_dead = failure is not None and refusals.is_death(failure)
        self._leave(stream, now, is_stuck=is_stuck, is_dead=is_dead)

    def end(self, stream: Stream, failure: Failure, now: float) -> None:
        """Settle a stream's outcome from this side and leave whatever it is doing."""
        self._desk.say_end(stream, failure)
        self.quit(stream, now)

    def cancel(self, stream: Stream, now: float) -> None:
        """Nobody wants the answer any more."""
        floor = self.floors.get(stream.runtime)
        if floor is not None and stream.outbox.paused:
            floor.on_resume(now)
        stream.cancel(now)
        self.quit(stream, now)

    def quit(self, stream: Stream, now: float) -> None:
        """Leave whatever the stream is doing; what it holds is free at once or when it has left."""
        was_busy = stream.phase in ("preparing", "running")
        if stream.phase == "loading":
            self.residency.leave(stream.model, stream.key)
        floor = self.floors.get(stream.runtime)
        if floor is not None:
            floor.on_stop(stream, now)
        # An ended stream that flushes may finish: only a cancel takes its last words away.
        if stream.phase != "flushing" or stream.outbox.is_empty:
            stream.move("quit")
        if was_busy:
            self._outgoing.add(Stop(stream.key))
        self._desk.settle(stream, now)
        if floor is not None:
            self.floors.unload_if_idle(floor, now)

    def seat(self, floor: Floor, effects: list[Effect], now: float) -> None:
        """Seat whoever can be, after these effects of a slot whose content was moved."""
        for effect in floor.seat(effects, now):
            self._outgoing.add(effect)

    # Whole runtimes.

    def offer(self, offers: Iterable[ModelOffer], now: float) -> None:
        """These models are installed now.

        Runtimes of models that are gone, or would have another key now, stop when their streams
        have ended; one that is loading is looked at when it is ready.
        """
        before = self.offers
        self.offers = {one.model: carried(before.get(one.model), one) for one in offers}
        self.stays.keep_only(self.offers)
        for floor in self.floors:
            if not self._keys.is_of(floor.runtime, self.offers.get(floor.model)):
                self._retire(floor, now)
        for residence in self.residency.residences():
            if residence.model not in self.offers and not residence.waiting:
                self.residency.drop(residence.model)

    def seat_patient(self, now: float) -> None:
        """Seat those who have waited for another one's prompt for long enough."""
        for floor in self.floors.impatient(now):
            self.seat(floor, [], now)

    def replace(self, floor: Floor, failure: Failure, now: float) -> None:
        """A runtime hangs: as good as dead to whoever waits for it, and who runs on it is told."""
        for stream in list(floor.streams.values()):
            if stream.phase == "running":
                self.end(stream, failure, now)
        self._retire(floor, now)
        self.floors.unload(floor.runtime)

    def call_off(self, runtime: RuntimeId, failure: Failure, now: float) -> None:
        """A load hangs: who waits is told, and the next one begins when nothing is left of it."""
        model = self.residency.model_of(runtime)
        for key in self.residency.on_hung(runtime, failure, now):
            assert model is not None
            self.end(self._known(key), self.residency.why_not(model, now), now)
        self.floors.unload(runtime)

    def let_go(self, runtime: RuntimeId, now: float) -> None:
        """Give this runtime no more work; it stops once nothing runs on it."""
        self._retire(self.floors.pack(runtime), now)

    def throw_out(self, runtime: RuntimeId, now: float) -> None:
        """An operator wants this runtime gone, ready or loading: tell all on it, or waiting."""
        floor = self.floors.get(runtime)
        streams = self._waiting_for(runtime) if floor is None else list(floor.streams.values())
        for stream in streams:
            self.end(stream, refusals.UNLOADED if stream.has_spoken else refusals.TAKEN_OUT, now)
        if floor is None:
            self.progress.over(runtime)
            self.residency.retire(runtime)
        else:
            self._retire(floor, now)
        self.floors.unload(runtime)

    def unload_all(self, now: float) -> None:
        """Stop every runtime, ready or loading."""
        self.residency.give_up()
        for residence in self.residency.residences():
            if residence.runtime is not None:
                self.residency.retire(residence.runtime)
                self.floors.close(residence.runtime, now)

    def forget(self, tenant: TenantId | None) -> None:
        """Nobody asks for this tenant, or for anybody, any more: what is kept takes no room."""
        self.floors.forget(tenant)
        for effect in self.sessions.forget(tenant):
            self._outgoing.add(effect)

    def _clear(self, runtimes: Iterable[RuntimeId], now: float) -> None:
        """Let these make room for another: what runs on them runs to its end, and nothing more."""
        for runtime in runtimes:
            self.residency.retire(runtime)
            self.floors.retire(self.floors.pack(runtime), now)

    def _say_loading(self, stream: Stream) -> None:
        runtime = self.residency.runtime_of(stream.model)
        progress = self.progress.of(runtime) if runtime else None
        self._outgoing.say(stream.key.link, Phase(stream.key.stream, "loading", progress))

    def _waiting_for(self, runtime: RuntimeId) -> Iterable[Stream]:
        model = self.residency.model_of(runtime)
        waiting = self.residency.waiting(model) if model is not None else ()
        return [self._known(key) for key in waiting]

    def _known(self, key: StreamKey) -> Stream:
        stream = self._desk.get(key)
        assert stream is not None, "who waits is at the desk"
        return stream

    def _prepare(self, stream: Stream, runtime: RuntimeId, now: float) -> None:
        moved = stream.move("loaded")
        assert moved, f"loaded while {stream.phase}"
        stream.runtime = runtime
        self.floors[runtime].admit(stream, now)
        self.ledger.used(runtime, now)
        self._outgoing.add(Prepare(stream.key, runtime, stream.request, stream.tenant))

    def _leave(self, stream: Stream, now: float, *, is_stuck: bool, is_dead: bool) -> None:
        """The stream holds nothing of its runtime any more; see what that makes possible."""
        floor = self.floors.get(stream.runtime)
        if floor is not None:
            floor.on_closed(stream, now, is_stuck=is_stuck)
            self.ledger.used(floor.runtime, now)
        self._desk.settle(stream, now)
        if floor is None:
            return
        if is_stuck or is_dead:
            self._retire(floor, now)
        if is_dead:
            self.floors.unload(floor.runtime)
        self.seat(floor, [], now)
        self.floors.unload_if_idle(floor, now)

    def _retire(self, floor: Floor, now: float) -> None:
        """Give this runtime no more work; stop it when those who run on it have ended."""
        self.residency.retire(floor.runtime)
        floor.is_retiring = True
        for stream in list(floor.streams.values()):
            if stream.phase in ("preparing", "seating") and not stream.has_begun:
                self._recall(floor, stream, refusals.REPLACED, now)
        self.floors.unload_if_idle(floor, now)

    def _recall(self, floor: Floor, stream: Stream, failure: Failure, now: float) -> None:
        """Take a stream off a runtime on which nothing of it has started; it waits for the next.

        The second time it is refused: what two runtimes do not survive may be its own doing.
        """
        if stream.was_recalled:
            self.end(stream, failure, now)
            return
        was_preparing = stream.phase == "preparing"
        floor.on_stop(stream, now)
        stream.move("recalled")
        if was_preparing:
            self._outgoing.add(Stop(stream.key))
        else:
            stream.forget_runtime()
            self.begin(stream, now)

    def _put_back(self, stream: Stream, now: float, *, is_dead: bool) -> None:
        """Its preparation has been left: wait for the next runtime."""
        floor = self.floors.get(stream.runtime)
        if floor is not None:
            floor.on_closed(stream, now, is_stuck=False)
            if is_dead:
                self._retire(floor, now)
                self.floors.unload(floor.runtime)
        stream.forget_runtime()
        self.begin(stream, now)
        if floor is not None:
            self.floors.unload_if_idle(floor, now)
