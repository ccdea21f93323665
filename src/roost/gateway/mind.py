"""SHELL: the coordinator's only caller: every event goes in here, every effect comes out.

Everything runs on one event loop and nothing here waits, so a coordinator call and the performing
of its effects are one step that nothing can interrupt.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from roost.core.request import mode_for
from roost.fleet.choice.abilities import Abilities
from roost.fleet.line import refusals
from roost.fleet.watching.happenings import Happenings
from roost.fleet.watching.scaling import ScalingSettings
from roost.fleet.watching.telemetry import Ended, Telemetry, TelemetrySettings
from roost.gateway import perform
from roost.gateway.alarm import Alarm
from roost.gateway.turns import accounts, lines
from roost.gateway.turns.limiter import Limiter, LimiterSettings
from roost.gateway.watching.chronicle import Chronicle
from roost.gateway.watching.scale import Scale
from roost.gateway.watching.watch import Watch

if TYPE_CHECKING:
    from roost.core.events import Finished, Started
    from roost.core.ids import NodeId, RequestId, TenantId
    from roost.errors import Failure
    from roost.fleet.coordinator import Coordinator
    from roost.fleet.effects import Effect
    from roost.fleet.settings import FleetSettings
    from roost.gateway.node_link import NodeLink, Ticket
    from roost.gateway.turns.turn import Turn
    from roost.gateway.watching.traces import Traces
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics
    from roost.wire.messages import Refused, Released, Status

Freed: TypeAlias = Callable[[], None]
"""Told that a place is free."""

IDLE_TICK_S = 1.0
"""Longest time the coordinator goes without a look at the clock."""


class _Waiter(NamedTuple):
    """Who waits for an attempt's place; the same place may have several."""

    request: RequestId
    attempt: int
    done: Freed


class Mind:
    """Owns the coordinator, the links and the live turns of one gateway."""

    def __init__(
        self,
        coordinator: Coordinator,
        metrics: Metrics,
        log: Log,
        telemetry: TelemetrySettings | None = None,
        limiter: Limiter | None = None,
        scaling: ScalingSettings | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.limiter = limiter or Limiter(LimiterSettings(), metrics)
        self.telemetry = Telemetry(telemetry or TelemetrySettings())
        self.metrics = metrics
        self.happenings = Happenings()
        self.log = Chronicle(log, self.happenings)
        self.watch = Watch(coordinator.fleet, metrics, self.log)
        self.traces: Traces | None = None
        self._abilities = Abilities()
        self.links: dict[NodeId, NodeLink] = {}
        self.turns: dict[RequestId, Turn] = {}
        told = metrics, self.log, scaling or ScalingSettings()
        self.scale = Scale(coordinator, self.turns, *told)
        self._loop = asyncio.get_running_loop()
        self._gaps = metrics("roost_inter_token_seconds")
        self._writes = metrics("roost_write_seconds")
        self._effects: deque[Effect] = deque()
        self.on_report: list[Callable[[NodeId], None]] = []
        self._awaited: dict[NodeId, asyncio.Event] = {}
        self._patient: dict[_Waiter, asyncio.TimerHandle] = {}
        self._performing = False
        self._alarm = Alarm(self._loop, self._tick)

    @property
    def now_s(self) -> float:
        """The loop's monotonic clock, seconds."""
        return self._loop.time()

    # --- requests

    def arrive(self, turn: Turn) -> None:
        """Take a new request in."""
        if self.expect(turn):
            self.admit(turn)

    def expect(self, turn: Turn) -> bool:
        """Look after a turn's client from now on; what it asks for is not complete yet.

        False where its key may not have it: its client has been told.
        """
        terms = turn.terms
        self.turns[terms.request_id] = turn
        unix_ms = time.time_ns() // 1_000_000
        asked = (terms.request_id, terms.tenant, turn.request.model)
        self.telemetry.on_arrived(*asked, self.now_s, unix_ms)
        turn.is_expected = True
        turn.begin(self)
        request = turn.request
        refused = self.limiter.reserve(terms, request.model, is_free=request.counts)
        if refused is None:
            return True
        turn.on_answer(refused)
        return False

    def admit(self, turn: Turn) -> None:
        """Have the coordinator decide about a turn that is expected."""
        turn.is_expected, turn.admitted_s = False, self.now_s
        may_use = partial(self.limiter.may_use, turn.terms.account)
        judged = self._abilities.judge(turn.request, may_use)
        if judged.failure is not None:
            turn.on_refused(judged.failure)
            return
        mode = mode_for(turn.request.prompt)
        if judged.unfit or mode != "generate":
            turn.terms = msgspec.structs.replace(turn.terms, unfit=judged.unfit, mode=mode)
        terms, model, said = turn.terms, turn.request.model, turn.relay.said
        self._feed(self.coordinator.on_request(terms, model, self.now_s, said))

    def depart(self, turn: Turn) -> None:
        """Forget a request whose last byte has been written, or whose client is gone."""
        request, ending = turn.terms.request_id, turn.relay.outcome
        del self.turns[request]
        if ending is not None:
            self.coordinator.on_departed(request, ending)
        ended = Ended(str(ending), turn.spent, turn.first_text_s, turn.last_text_s)
        self.telemetry.on_ended(request, ended, self.now_s)
        accounts.close(turn, self.metrics, self.log, self.now_s, len(self.turns))
        self.limiter.settle(turn.terms, accounts.tokens(turn))
        self.scale.on_ended(turn, self.now_s)
        if self.traces is not None:
            self.traces.record(turn, self.coordinator.receipt(request, self.now_s), self.now_s)

    def when_free(self, turn: Turn, wait_s: float, done: Freed) -> None:
        """Call `done` once when a turn's place is free again, or after `wait_s`, or at once."""
        waiter = _Waiter(turn.terms.request_id, turn.attempt, done)
        if not self.coordinator.holds(waiter.request, waiter.attempt):
            done()
            return
        self._patient[waiter] = self._loop.call_later(wait_s, self._freed, waiter)

    def _freed(self, waiter: _Waiter) -> None:
        # What `done` brings about may free others, whose turn it then is not any more.
        timer = self._patient.pop(waiter, None)
        if timer is not None:
            timer.cancel()
            waiter.done()

    def started(self, turn: Turn, event: Started) -> None:
        """The current attempt holds a slot."""
        lines.begun(self.log, turn, event)
        request = turn.terms.request_id
        if turn.dispatch is not None:
            miss = self.watch.on_started(turn, event)
            turn.missed = "" if miss is None else miss.text
            self.telemetry.on_started(request, turn.dispatch.node, self.now_s, turn.missed)
        self._feed(self.coordinator.on_started(request, turn.attempt, event, self.now_s))

    def first_token(self, turn: Turn) -> None:
        """The current attempt has produced its first answer text."""
        request = turn.terms.request_id
        self.telemetry.on_first_text(request, self.now_s)
        self._feed(self.coordinator.on_first_token(request, turn.attempt, self.now_s))

    def gap(self, seconds: float) -> None:
        """This long passed between two pieces of answer text."""
        self._gaps.observe(seconds)

    def wrote(self, seconds: float) -> None:
        """A client's socket took a write after this long."""
        self._writes.observe(seconds)

    def slow(self, turn: Turn) -> None:
        """A client does not take what it is sent; its write deadline is still to come."""
        lines.slow(self.log, turn)

    def filling(self, turn: Turn) -> None:
        """A stream's buffer is nearly full; then its node has to wait."""
        lines.filling(self.log, turn)

    def finished(self, turn: Turn, event: Finished) -> None:
        """The current attempt has ended well."""
        request, attempt = turn.terms.request_id, turn.attempt
        now = self.now_s
        self.telemetry.on_finished(request, event.reason)
        self._feed(self.coordinator.on_finished(request, attempt, event, turn.spoken(event), now))

    def failed(self, turn: Turn, failure: Failure) -> None:
        """The current attempt has ended badly."""
        request, attempt = turn.terms.request_id, turn.attempt
        self._feed(self.coordinator.on_failed(request, attempt, failure, self.now_s))

    def gone(self, turn: Turn) -> None:
        """The client has left, or did not read in time."""
        if turn.relay.outcome == "write_timeout":
            lines.given_up(self.log, turn)
        self._feed(self.coordinator.on_client_gone(turn.terms.request_id, self.now_s))

    def dropped(self, turn: Turn, pieces: int, *, first: bool) -> None:
        """A slow reader, who wants it so, does not get these pieces of text."""
        if first:
            lines.overflowing(self.log, turn, pieces)
        self.coordinator.on_dropped(turn.terms.request_id, pieces)

    def grant(self, turn: Turn, messages: int) -> None:
        """Let the node send more of this turn."""
        dispatch = turn.dispatch
        link = self.links.get(dispatch.node) if dispatch else None
        if link is not None and dispatch is not None:
            link.credit(dispatch.request, dispatch.attempt, messages)

    # --- links

    def node_joined(self, link: NodeLink, name: str, instance: str) -> None:
        """A node's handshake is complete; an older link of the same node is replaced."""
        old = self.links.get(link.node)
        if old is not None and old.instance != instance:
            # Two processes with one identity would take it from each other for ever.
            old.supplanted = True
            self.log.warning("node_clash", node=link.node, name=name)
        effects = self.coordinator.on_node_joined(link.node, name, instance, self.now_s)
        # The coordinator may ask to disconnect the node's older link: perform that before the new
        # one takes its place in the table.
        self._feed(effects)
        self.links[link.node] = link

    def node_status(self, link: NodeLink, message: Status) -> None:
        """A node has reported."""
        now = self.now_s
        for runtime in link.new_runtimes(message.status.runtimes):
            self.metrics("roost_runtime_load_seconds", runtime.model).observe(runtime.load_s or 0.0)
        for (model, kind), begins in link.oddities.news(message.status.runtimes):
            self.log.warning("runtime_odd", node=link.node, model=model, kind=kind, begins=begins)
        for event, level, facts in link.report_news.news(message.status):
            self.log.keep(level, event, {"node": link.node, **facts})
        self.watch.on_report(now)
        self._abilities.on_report(link.node, message.status)
        self._feed(self.coordinator.on_node_status(link.node, message.seq, message.status, now))
        if link.node in self._awaited:
            self._awaited.pop(link.node).set()
        self._reported(link.node)

    def _reported(self, node: NodeId) -> None:
        """Tell whoever waits for what a node says that it has said something, or has gone."""
        for tell in self.on_report:
            tell(node)

    def report_of(self, node: NodeId) -> asyncio.Event:
        """Give what is set with this node's next report: from then on it may be given work.

        Its handshake is not enough for that: what it can do is told after it.
        """
        return self._awaited.setdefault(node, asyncio.Event())

    def node_heard(self, link: NodeLink) -> None:
        """Something has come from a node: it lives."""
        if self.links.get(link.node) is link:
            self._feed(self.coordinator.on_node_heard(link.node, self.now_s))

    def node_left(self, link: NodeLink) -> None:
        """A link has ended, for whatever reason."""
        if self.links.get(link.node) is link:
            effects = self.coordinator.on_node_left(link.node, self.now_s)
            try:
                self.unlink(link.node)
            finally:
                # Whoever is told of it may fail; what ran on the node is not lost with that.
                self._feed(effects)

    def unlink(self, node: NodeId) -> NodeLink | None:
        """Take a node's link out of use, and give it back, if there is one."""
        link = self.links.pop(node, None)
        if self.coordinator.silent_s(node, self.now_s) is None:
            # Of a link that another one replaces all of this holds on.
            self._abilities.on_left(node)
            self._reported(node)
        return link

    def refused(self, ticket: Ticket, message: Refused) -> None:
        """A node did not start an attempt."""
        now = self.now_s
        self._feed(
            self.coordinator.on_refused(ticket.request, ticket.attempt, message.failure, now)
        )

    def released(self, ticket: Ticket, message: Released) -> None:
        """A node has let go of everything an attempt held."""
        if message.cancel_to_free_s is not None:
            series = self.metrics("roost_cancel_to_free_seconds", message.phase, ticket.backend)
            series.observe(message.cancel_to_free_s)
        self._feed(self.coordinator.on_released(ticket.request, ticket.attempt, self.now_s))

    # --- operators

    def cancel(self, request: RequestId, tenant: TenantId | None) -> None:
        """Stop a request by its id; `tenant` None may stop anybody's."""
        self._feed(self.coordinator.on_cancel(request, tenant, self.now_s))

    def cancel_expected(self, request: RequestId, tenant: TenantId | None) -> bool:
        """Stop a turn that waits for the one before it, of which no coordinator knows yet."""
        turn = self.turns.get(request)
        if turn is None or tenant not in {None, turn.terms.tenant}:
            return False
        if not turn.is_expected:
            return False
        turn.on_answer(refusals.cancelled())
        return True

    def park_node(self, node: NodeId, *, parked: bool) -> None:
        """Give a node no new work, or give it work again."""
        coordinator = self.coordinator
        change = coordinator.on_drain_node if parked else coordinator.on_undrain_node
        self._feed(change(node, self.now_s))

    def handed_over(self, node: NodeId) -> None:
        """Nobody comes back any more to what a node holds."""
        self._feed(self.coordinator.on_handed_over(node))

    # --- the end, and the clock

    def use(self, settings: FleetSettings) -> None:
        """Have the coordinator go by these limits from now on."""
        self._feed(self.coordinator.on_settings(settings, self.now_s))

    def drain(self) -> None:
        """Take no new request; what runs may finish."""
        self._feed(self.coordinator.on_drain(self.now_s))

    def drain_end(self) -> None:
        """The grace is over: end what is left with a failure that says so."""
        self._feed(self.coordinator.on_drain_end(self.now_s))

    def close(self) -> None:
        """Stop the clock."""
        for timer in self._patient.values():
            timer.cancel()
        self._patient.clear()
        self._alarm.end()

    def _feed(self, effects: list[Effect]) -> None:
        """Perform effects in order; those that performing brings about come after them."""
        self._effects.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                perform.perform(self, self._effects.popleft())
        finally:
            # A defect in one effect costs that one: the others are due, and so is the clock.
            self._performing = False
            self._look_after()

    def _look_after(self) -> None:
        try:
            holds = self.coordinator.holds
            for one in [one for one in self._patient if not holds(one.request, one.attempt)]:
                self._freed(one)
        finally:
            if self._effects:
                self._loop.call_soon(self._feed, [])
            self._arm()

    def _arm(self) -> None:
        delay = min(IDLE_TICK_S, self.coordinator.next_tick(self.now_s))
        self._alarm.set(self.now_s + max(0.0, delay))

    def _tick(self) -> None:
        self.scale.on_tick(self.now_s)
        self._feed(self.coordinator.on_tick(self.now_s))
