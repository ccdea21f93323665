"""MACHINE: a node's mind: what runs here, for whom, and what is said about it.

Composes `Desk` (all streams, what is said about them), `Workshop` (runtimes, slots, and the streams
on them) and `Reporter` (when a status is due). Inputs are methods that take `now`; each returns the
effects to be performed, in order. What a shell (or a simulated world) owes the agent:

    Load     `on_load_progress`*, then `on_loaded` or `on_load_failed`
    Look     `on_looked`
    Weigh    `on_weighed`, which also comes by itself; without a way to measure, never
    Unload   `on_runtime_gone`; of a runtime that is still loading too, and then nothing else of it
    Prepare  `on_prepared` or `on_prepare_failed`, unless a Stop comes first
    Run      `on_event`*, then `on_closed` once the backend's block has been left
    Stop     `on_closed` once the work has been left, also when it had just ended by itself
    Park     `on_parked`, within a time that the shell bounds, whatever became of the slot's content
    Restore  `on_restored`, the same way
    Demote   `on_demoted`, sooner or later, also when its runtime has gone meanwhile
    Promote  `on_promoted`, the same way
    death    `on_runtime_gone`, once, for every loaded runtime, however it ended

A report that crosses an effect on the way comes too late, and what comes too late changes nothing.

Promises: every Open gets exactly one Released, last; a slot is used by one stream at a time; what
was not started is Refused, and what was started ends in one terminal event unless it was cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roost.backends.base import Prepared, SavedState
from roost.core.about import NodeAbout
from roost.core.events import Delta, StreamEvent
from roost.core.ids import ModelId, RuntimeId, SessionId, TenantId
from roost.core.snapshots import ModelOffer, NodeStatus, PullView
from roost.errors import Failure
from roost.node import guard, refusals
from roost.node.desk import Desk, Outgoing
from roost.node.effects import Effect, Restore, StreamKey
from roost.node.errands import Errands
from roost.node.fence import Fences
from roost.node.following import follow
from roost.node.joining.reporter import Reporter
from roost.node.orders import Orders
from roost.node.relief import Relief, Weights
from roost.node.settings import AgentSettings
from roost.node.stalls import Stalls
from roost.node.states.parked import Kept
from roost.node.statistics import AgentStatistics
from roost.node.views import glance, load_views, runtime_view
from roost.node.workshop import Workshop
from roost.wire.messages import Cancel, Credit, Open, Order, StateOrder, Status


class Agent:
    """One node; fed by one writer."""

    def __init__(self, settings: AgentSettings, offers: Iterable[ModelOffer]) -> None:
        self._settings = settings
        self._outgoing = Outgoing()
        self._desk = Desk(self._outgoing, settings.outbox_events_max)
        self._workshop = Workshop(settings, self._desk, self._outgoing)
        self._orders = Orders(self._workshop)
        self._relief = Relief(settings.pressure, self._workshop, self._outgoing)
        self._errands = Errands(self._workshop, self._outgoing)
        self._workshop.offers = {offer.model: offer for offer in offers}
        self._stalls = Stalls(self._workshop)
        self._reporter = Reporter(settings.report)
        self._pulls: tuple[PullView, ...] | None = None
        self._loads_told = 0
        self._fences = Fences(settings.fences_max)
        self._draining = False
        self._vacating: set[int] = set()
        self._rss_bytes: int | None = None
        self._load_1m: float | None = None
        self._about: NodeAbout | None = None

    # Links and their messages.

    def on_link_up(self, link: int, now: float) -> list[Effect]:
        """A gateway has welcomed this node on a new link; its number is never used again."""
        assert link not in self._outgoing.links
        self._outgoing.links.add(link)
        self._reporter.on_link_up(link)
        return self._finish(now)

    def on_link_down(self, link: int, now: float) -> list[Effect]:
        """The link is gone, and with it everybody who waited for what it carried."""
        if link in self._outgoing.links:
            self._outgoing.links.remove(link)
            self._vacating.discard(link)
            self._reporter.on_link_down(link)
            self._errands.on_link_down(link)
        for stream in self._desk:
            if stream.key.link == link:
                self._workshop.cancel(stream, now)
        return self._finish_changed(now)

    def on_message(self, link: int, message: Open | Credit | Cancel, now: float) -> list[Effect]:
        """A gateway said this about one stream; of streams already released only Open counts."""
        key = StreamKey(link, message.stream)
        stream = self._desk.get(key)
        match message:
            case Open():
                return self._open(key, message, now)
            case Credit() if stream is not None:
                self._workshop.on_credit(stream, message.messages, now)
            case Cancel() if stream is not None:
                self._workshop.cancel(stream, now)
                return self._finish_changed(now)
        return self._finish(now)

    def on_vacate(self, link: int, vacant: bool, now: float) -> list[Effect]:  # noqa: FBT001
        """A gateway says whether anybody comes back through it to what is here.

        It is no business of one gateway what others have here: all have to say so.
        """
        if vacant and link in self._outgoing.links:
            self._vacating.add(link)
        else:
            self._vacating.discard(link)
        return self._finish_changed(now)

    # Runtimes.

    def on_preload(self, model: ModelId, now: float) -> list[Effect]:
        """Load this model although nobody has asked for it yet."""
        if model in self._workshop.offers and not self._draining:
            self._workshop.preload(model, now)
        return self._finish_changed(now)

    def on_order(self, order: Order, now: float) -> list[Effect]:
        """An operator wants this done with a model."""
        self._orders.take(order, now, draining=self._draining)
        return self._finish_changed(now)

    def on_state_order(self, link: int, order: StateOrder, now: float) -> list[Effect]:
        """An operator wants to know of states of conversations, or something done with them."""
        self._errands.take(link, order, now)
        return self._finish_changed(now)

    def on_load_progress(self, runtime: RuntimeId, progress: float, now: float) -> list[Effect]:
        """A load has come this far, 0 to 1."""
        self._workshop.on_load_progress(runtime, progress, now)
        return self._finish(now)

    def on_loaded(self, runtime: RuntimeId, now: float, key: str = "") -> list[Effect]:
        """A runtime is ready: whoever waited for it goes on; `key` names its exact key."""
        self._workshop.on_loaded(runtime, key, now)
        self._reporter.on_news()
        return self._finish(now)

    def on_load_failed(self, runtime: RuntimeId, failure: Failure, now: float) -> list[Effect]:
        """A runtime could not be started: all who wait for it are told."""
        self._workshop.on_load_failed(runtime, failure, now)
        self._reporter.on_news()
        return self._finish(now)

    def on_looked(self, model: ModelId, failure: Failure | None, now: float) -> list[Effect]:
        """A model's files are as they were installed, or why they are of no use."""
        self._workshop.on_looked(model, failure, now)
        if failure is not None:
            self._reporter.on_news()
        return self._finish_changed(now)

    def on_runtime_gone(self, runtime: RuntimeId, now: float) -> list[Effect]:
        """A runtime has ended, by itself or because it was told to."""
        self._workshop.on_gone(runtime, now)
        self._reporter.on_news()
        return self._finish(now)

    # Streams.

    def on_prepared(self, key: StreamKey, prepared: Prepared, now: float) -> list[Effect]:
        """A request has been rendered and tokenised."""
        stream = self._desk.get(key)
        if stream is not None:
            self._workshop.on_prepared(stream, prepared, now)
        return self._finish_changed(now)

    def on_prepare_failed(self, key: StreamKey, failure: Failure, now: float) -> list[Effect]:
        """A request cannot be prepared."""
        stream = self._desk.get(key)
        if stream is not None:
            self._workshop.on_prepare_failed(stream, failure, now)
        return self._finish_changed(now)

    def on_event(self, key: StreamKey, event: StreamEvent, now: float) -> list[Effect]:
        """A backend's stream produced this."""
        stream = self._desk.get(key)
        if stream is not None:
            self._workshop.on_event(stream, event, now)
        if not isinstance(event, Delta):
            return self._finish(now)
        # A token changes nothing that others wait for, and what time brings is due at a tick.
        self._stalls.live(now)
        return self._outgoing.take()

    def on_closed(self, key: StreamKey, failure: Failure | None, now: float) -> list[Effect]:
        """The work of this stream has been left; `failure` is what leaving, or entering, raised."""
        stream = self._desk.get(key)
        if stream is not None:
            self._workshop.on_closed(stream, failure, now)
        return self._finish_changed(now)

    # What slots hold.

    def on_states(
        self, runtime: RuntimeId, token_bytes: int, now: float, kin: str = ""
    ) -> list[Effect]:
        """A runtime that is about to be loaded can put aside what slots hold; bytes per token.

        `kin` names what else it can read: files of any other of the same name.
        """
        self._workshop.sessions.on_states(runtime, token_bytes, kin)
        return self._finish(now)

    def on_kept(self, kept: Iterable[Kept], now: float) -> list[Effect]:
        """An earlier life of this node has left these on disk; to be told before anything else."""
        return self._do(self._workshop.sessions.on_kept(kept, now), now)

    def on_quarantined(self, count: int, now: float) -> list[Effect]:
        """So many files did not verify, in all: they were put aside and are not asked for again."""
        self._workshop.sessions.quarantined = count
        return self._finish_changed(now)

    def on_parked(
        self, runtime: RuntimeId, session: SessionId, saved: SavedState | None, now: float
    ) -> list[Effect]:
        """A slot's content is in a file, or could not be written."""
        floor = self._workshop.floors.get(runtime)
        if floor is None:
            return self._do(self._workshop.sessions.on_parked(session, saved, now), now)
        self._workshop.seat(floor, floor.seating.on_parked(session, saved, now), now)
        self._workshop.floors.unload_if_idle(floor, now)
        return self._finish_changed(now)

    def on_restored(
        self,
        asked: Restore,
        ok: bool,  # noqa: FBT001 - a report
        now: float,
    ) -> list[Effect]:
        """A slot holds what had been put aside, or nothing: the file was not as it was written."""
        floor = self._workshop.floors.get(asked.runtime)
        if floor is not None:
            effects = floor.seating.on_restored(asked.slot, asked.session, ok=ok, now=now)
            self._workshop.seat(floor, effects, now)
        return self._finish_changed(now)

    def on_demoted(self, session: SessionId, ok: bool, now: float) -> list[Effect]:  # noqa: FBT001
        """A file has been copied from memory to disk, or could not be."""
        return self._do(self._workshop.sessions.on_demoted(session, ok=ok, now=now), now)

    def on_promoted(self, session: SessionId, ok: bool, now: float) -> list[Effect]:  # noqa: FBT001
        """A file has been copied from disk to memory, or was not as it was written."""
        return self._do(self._workshop.sessions.on_promoted(session, ok=ok), now)

    def on_forget(self, tenant: TenantId, now: float) -> list[Effect]:
        """Nobody asks for this tenant any more: free what is kept of it."""
        self._workshop.forget(tenant)
        return self._finish_changed(now)

    # The node.

    def on_settings(self, settings: AgentSettings, now: float) -> list[Effect]:
        """These limits count from now on, as far as `following` says."""
        self._settings = settings
        effects = follow(settings, self._workshop, self._relief, now)
        self._reporter.on_change()
        return self._do(effects, now)

    def on_drain(self, now: float) -> list[Effect]:
        """Take nothing new; what is here runs to its end."""
        self._draining = True
        if self._settings.sessions.persistence == "disk":
            self._workshop.floors.pack_all(now)
        return self._finish_changed(now)

    def on_shutdown(self, now: float) -> list[Effect]:
        """The grace is over: end every stream, stop every runtime."""
        self._draining = True
        for stream in self._desk:
            self._workshop.end(stream, refusals.DRAINING, now)
        self._workshop.unload_all(now)
        self._reporter.on_change()
        return self._do(self._workshop.sessions.close(now), now)

    def on_models(self, offers: Iterable[ModelOffer], now: float) -> list[Effect]:
        """These models are installed now."""
        self._workshop.offer(offers, now)
        return self._finish_changed(now)

    def on_telemetry(
        self, rss_bytes: int | None, load_1m: float | None, now: float
    ) -> list[Effect]:
        """The machine was measured; the next report carries it."""
        self._rss_bytes, self._load_1m = rss_bytes, load_1m
        return self._finish(now)

    def on_about(self, about: NodeAbout, now: float) -> list[Effect]:
        """This node looked at itself; the next report carries it."""
        self._about = about
        for one in about.runtimes:
            self._workshop.floors.on_memory(one.runtime, one.rss_bytes, self._workshop.offers)
        return self._finish(now)

    def on_weighed(self, weights: Weights, now: float) -> list[Effect]:
        """The machine's memories were measured, and what each runtime takes of them."""
        self._relief.on_weighed(weights, now)
        return self._finish(now)

    def on_pulls(self, pulls: tuple[PullView, ...], now: float) -> list[Effect]:
        """Models are being fetched for operators; the next report carries how far they are."""
        self._pulls = pulls
        self._reporter.on_change()
        return self._finish(now)

    def on_tick(self, now: float) -> list[Effect]:
        """Time has passed: deadlines, hung runtimes, reports."""
        self._stalls.live(now)
        for stream in self._desk:
            if stream.is_overdue(now):
                self._workshop.end(stream, refusals.TOO_LATE, now)
                self._reporter.on_change()
        self._stalls.look(now)
        self._workshop.seat_patient(now)
        for floor in self._workshop.stays.due(now):
            self._workshop.let_go(floor.runtime, now)
        return self._do(self._workshop.sessions.tidy(now), now)

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None while nothing can become due."""
        times = (
            self._reporter.next_tick(),
            self._desk.next_deadline(),
            self._stalls.next_tick(),
            self._orders.next_tick(),
            self._errands.next_tick(),
            self._workshop.next_tick(),
        )
        return min((at for at in times if at is not None), default=None)

    def status(self) -> NodeStatus:
        """The node's report as of now."""
        offers = self._workshop.offers.values()
        limit, slots = self._settings.max_in_flight, (offer.slots for offer in offers)
        now, backend = self._stalls.lived_at or 0.0, self._settings.backend
        room, lanes = self._settings.room, self._workshop.residency.residences()
        return NodeStatus(
            models=tuple(self._judged(offer) for offer in offers),
            runtimes=tuple(runtime_view(r, self._workshop, backend, now) for r in lanes),
            in_flight=self._desk.in_flight(),
            max_in_flight=max(slots, default=0) if limit is None else limit,
            draining=self._draining,
            rss_bytes=self._rss_bytes,
            load_1m=self._load_1m,
            loads=load_views(self._workshop, now),
            max_runtimes=room.max_runtimes,
            max_runtime_bytes=room.max_bytes,
            sessions=self._workshop.sessions.view(),
            vacant=self._is_vacant,
            pulls=self._pulls,
            orders=self._orders.views(),
            about=self._about,
            memory=self._relief.report(),
        )

    def statistics(self) -> AgentStatistics:
        """The agent at a glance."""
        seen = glance(self._desk, self._workshop, self._stalls.count)
        links = len(self._outgoing.links)
        return msgspec.structs.replace(seen, links=links, draining=self._draining)

    def _do(self, effects: list[Effect], now: float) -> list[Effect]:
        for effect in effects:
            self._outgoing.add(effect)
        return self._finish(now)

    @property
    def _is_vacant(self) -> bool:
        return bool(self._vacating) and self._vacating == self._outgoing.links

    def _open(self, key: StreamKey, message: Open, now: float) -> list[Effect]:
        failure = self._why_not(message) if self._owns(message, now) else refusals.FENCED
        if failure is not None:
            self._desk.turn_away(key, failure)
            return self._finish(now)
        self._workshop.begin(self._desk.admit(key, message, now), now)
        return self._finish_changed(now)

    def _owns(self, message: Open, now: float) -> bool:
        """Whether nobody newer has asked for this; what somebody older has running here ends."""
        fence = message.fence
        standing = "first" if fence is None else self._fences.admit(fence)
        if fence is not None and standing == "higher":
            for stream in self._desk.owned(fence.key):
                self._workshop.end(stream, refusals.FENCED, now)
        return standing != "stale"

    def _why_not(self, message: Open) -> Failure | None:
        """The node's own guard: a gateway's lease is a prediction."""
        if self._draining:
            return refusals.DRAINING
        return guard.why_not(message, self._workshop.offers, self._desk, self._settings)

    def _judged(self, offer: ModelOffer) -> ModelOffer:
        usable = offer.usable and self._workshop.is_usable(offer.model)
        return msgspec.structs.replace(offer, usable=usable)

    def _finish_changed(self, now: float) -> list[Effect]:
        self._reporter.on_change()
        return self._finish(now)

    def _finish(self, now: float) -> list[Effect]:
        self._stalls.live(now)
        self._workshop.fill(now)
        self._relief.look(now)
        self._orders.look(now)
        self._errands.look(now)
        self._workshop.turned_away.clear()
        if self._orders.changed:
            self._orders.changed = False
            self._reporter.on_news()
        if self._is_vacant:
            self._workshop.forget(None)
        if self._workshop.loads != self._loads_told:
            self._loads_told = self._workshop.loads
            self._reporter.on_news()
        due = self._reporter.due(now)
        if due:
            status = self.status()
            for link, seq in due:
                self._outgoing.say(link, Status(seq, status))
        return self._outgoing.take()
