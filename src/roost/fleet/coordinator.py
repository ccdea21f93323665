"""MACHINE: the gateway's mind: it takes in what happened and returns what is to be done.

It sees a handful of events per request and never a token. Every event handler notes what the event
changed and ends in `_settle`, which calls `_reconsider`: the only place that gives work to a node.
Three things hold after every event:

    a request that lives either waits or has one current attempt, and that attempt holds a lease;
    a request has ended with one `Answer`, or finished, or its client has gone: one of the three;
    whatever could run now, runs: nothing waits that `choose` would place.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from roost.core.events import Finished, Started
from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.request import Terms
from roost.core.snapshots import LinkState, ModelOffer, NodeStatus
from roost.errors import Failure, Fault
from roost.fleet import census, refusals
from roost.fleet.calls import Call, Calls
from roost.fleet.deadlines import Deadlines
from roost.fleet.effects import (
    Answer,
    Disconnect,
    Dispatch,
    Effect,
    Report,
    Waiting,
    Withdraw,
)
from roost.fleet.leases import Leases
from roost.fleet.prospects import Prospects
from roost.fleet.rates import Rate
from roost.fleet.registry import Registry
from roost.fleet.retrying import Recovery, verdict
from roost.fleet.routing import Candidate, Choice, Dice, choose, hopeful
from roost.fleet.settings import FleetSettings
from roost.fleet.views import NodeView, Statistics
from roost.fleet.waiting import Entry
from roost.fleet.waiting import Waiting as Queue

_Timer = tuple[Literal["queue", "request"], RequestId]


class Coordinator:
    """Decides who may come in, who waits, who serves whom, and what a failure means."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        self._settings = settings
        self._dice = dice
        self._registry = Registry(settings)
        self._leases = Leases()
        self._prospects = Prospects(settings, self._registry, self._leases)
        self._recovery = Recovery(settings)
        self._freed = Rate(settings.rate_window_s)
        self._calls = Calls()
        self._queue = Queue()
        self._timers: Deadlines[_Timer] = Deadlines()
        self._draining = False
        self._told_s = 0.0
        self._counts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._out: list[Effect] = []

    # Nodes.

    def on_node_joined(self, node: NodeId, name: str, instance: str, now: float) -> list[Effect]:
        """A node's link was welcomed.

        If the node has an older link, `Disconnect` for it comes first: the shell closes that one
        before it files the new link under this name, and forwards nothing from it any more.
        """
        if self._registry.joined(node, name, instance, now):
            self._out.append(Disconnect(node, refusals.link_replaced()))
            self._lose(node, now)
        self._leave_leases(node, now)
        self._prospects.joined(node)
        self._out.append(Report("node_joined", node=node, state="alive"))
        return self._settle(now)

    def on_node_status(
        self, node: NodeId, seq: int, status: NodeStatus, now: float
    ) -> list[Effect]:
        """A node reported; an older report than the last one changes nothing."""
        self._heard(node, now)
        own = self._leases.in_flight(node)
        if not self._registry.reported(node, seq, status, own):
            return self._drained()
        return self._settle(now)

    def on_node_heard(self, node: NodeId, now: float) -> list[Effect]:
        """Any frame came from the node; cheap enough to be called for every one."""
        return self._settle(now) if self._heard(node, now) else self._drained()

    def on_node_left(self, node: NodeId, now: float) -> list[Effect]:
        """The node's current link ended; whatever ran there is lost."""
        if self._registry.left(node):
            self._out.append(Report("node_left", node=node, state="dead"))
            self._lose(node, now)
            self._leave_leases(node, now)
        return self._settle(now)

    # Requests.

    def on_request(self, terms: Terms, model: ModelId, now: float) -> list[Effect]:
        """A request arrived: it is dispatched, waits, or is refused, in the effects returned."""
        self._counts["requests"] += 1
        self._recovery.note_request(now)
        call = Call(terms, model, arrived_s=now, waiting_since_s=now)
        self._calls.add(call)
        if terms.timeout_s is not None:
            self._timers.set(("request", call.id), now + terms.timeout_s)
        if self._draining:
            self._answer(call, refusals.draining(self._settings.retry_after_default_s))
            return self._settle(now)
        self._enqueue(call, now)
        self._reconsider(now)
        full = len(self._queue) > self._settings.queue_length
        if full and call.id in self._queue:
            self._answer(call, refusals.queue_full(self._hint_s(now)))
        elif call.id in self._queue:
            self._out.append(Waiting(*self._queue.tell_last()))
        return self._settle(now)

    def on_started(
        self, request: RequestId, attempt: int, started: Started, now: float
    ) -> list[Effect]:
        """The attempt holds a slot on its node."""
        call = self._calls.current(request, attempt)
        if call is not None and call.node is not None:
            self._prospects.room(call.node, call.model)
        return self._settle(now)

    def on_first_token(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """A byte of the answer is on its way to the client: from here on nothing is retried."""
        call = self._calls.current(request, attempt)
        if call is not None and call.node is not None:
            call.answered = True
            self._prospects.settled(call, call.node, now)
        return self._settle(now)

    def on_refused(
        self, request: RequestId, attempt: int, failure: Failure, now: float
    ) -> list[Effect]:
        """The node did not start the attempt; `on_released` follows."""
        return self._failed(request, attempt, failure, now)

    def on_failed(
        self, request: RequestId, attempt: int, failure: Failure, now: float
    ) -> list[Effect]:
        """The attempt ended without a complete answer; `on_released` follows."""
        return self._failed(request, attempt, failure, now)

    def on_finished(
        self, request: RequestId, attempt: int, finished: Finished, answer: str, now: float
    ) -> list[Effect]:
        """The answer is complete; `answer` is its text. `on_released` follows."""
        call = self._calls.current(request, attempt)
        if call is not None and call.node is not None:
            self._counts["finished"] += 1
            self._prospects.answered(call, call.node, answer, now)
            self._end(call)
        return self._settle(now)

    def on_released(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """The node has nothing of this attempt any more: its place is free."""
        if self._leases.release(request, attempt) is not None:
            self._freed.note(now)
        return self._settle(now)

    def on_client_gone(self, request: RequestId, now: float) -> list[Effect]:
        """Nobody reads the answer any more: stop it wherever it is. Not an error after the end."""
        call = self._calls.get(request)
        if call is not None:
            self._counts["clients_gone"] += 1
            self._withdraw(call)
            self._end(call)
        return self._settle(now)

    # Time.

    def on_tick(self, now: float) -> list[Effect]:
        """Time passed; due whenever `next_tick` said so, and harmless at any other time."""
        for node, state in self._registry.advance(now):
            self._out.append(Report("node_state", node=node, state=state))
            self._fell_silent(node, state, now)
        for kind, request in self._timers.due(now):
            call = self._calls.get(request)
            # Both timers of a request may be due in the same tick; the first one ended it.
            if call is not None:
                self._expired(kind, call, now)
        self._reconsider(now)
        if len(self._queue) and now >= self._told_s + self._settings.waiting_report_s:
            self._told_s = now
            self._out += [Waiting(*news) for news in self._queue.news()]
        return self._settle(now)

    def on_drain(self, now: float) -> list[Effect]:
        """Take nothing new; what was accepted is still served."""
        self._draining = True
        return self._settle(now)

    def next_tick(self, now: float) -> float:
        """Seconds until `on_tick` has something to do, at most `idle_tick_s`."""
        due = [self._registry.next_change_s(), self._timers.next_s()]
        if len(self._queue):
            due.append(self._prospects.next_room_s(now))
            due.append(self._told_s + self._settings.waiting_report_s)
        earliest = min((when for when in due if when is not None), default=None)
        if earliest is None:
            return self._settings.idle_tick_s
        # Never 0: adding a tiny difference to a large `now` may not change it, and would spin.
        return min(self._settings.idle_tick_s, max(self._settings.min_tick_s, earliest - now))

    # Views.

    def statistics(self) -> Statistics:
        """Gauges and counters as of the last event."""
        nodes = self._registry.all()
        return Statistics(
            waiting=len(self._queue),
            running=self._calls.running(),
            leases=len(self._leases),
            in_flight={node.id: self._leases.in_flight(node.id) for node in nodes},
            nodes=dict(Counter(node.state for node in nodes)),
            homes=self._prospects.homes,
            waiting_by_model=self._queue.by_model(),
            answered=dict(self._answers),
            requests=self._counts["requests"],
            finished=self._counts["finished"],
            clients_gone=self._counts["clients_gone"],
            dispatched=self._counts["dispatched"],
            retried=self._counts["retried"],
            bounced=self._counts["bounced"],
            warm=self._counts["warm"],
        )

    def fleet(self) -> tuple[NodeView, ...]:
        """Every node, with and without a link, in order of first arrival."""
        nodes = self._registry.all()
        return tuple(census.node_view(node, self._leases.in_flight(node.id)) for node in nodes)

    def models(self) -> tuple[ModelOffer, ...]:
        """One offer for every model of a linked node, by name."""
        return census.offers(self._registry.all())

    def ready(self, now: float) -> bool:
        """Whether a request could be served: some node is alive with a model that loads."""
        nodes = (n for n in self._registry.all() if self._registry.state(n, now) == "alive")
        return not self._draining and any(census.can_serve(node) for node in nodes)

    # The one place that assigns work, and what surrounds it.

    def _settle(self, now: float) -> list[Effect]:
        self._reconsider(now)
        if self._settings.queue_length == 0:
            self._refuse_waiting(now)
        return self._drained()

    def _drained(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _reconsider(self, now: float) -> None:
        full: set[ModelId] = set()
        fleet: dict[ModelId, list[Candidate]] = {}
        for entry in self._queue.entries():
            call = self._waiting(entry.request)
            if entry.model in full and not call.tried:
                continue
            if entry.model not in fleet:
                fleet[entry.model] = self._prospects.candidates(entry.model, now)
            if self._place(call, fleet[entry.model], now):
                del fleet[entry.model]
            elif not call.tried:
                # No room even for a request that nobody has failed yet: none for any like it.
                full.add(entry.model)

    def _place(self, call: Call, candidates: list[Candidate], now: float) -> bool:
        """Settle what becomes of a waiting request; False if it has to go on waiting."""
        if call.left_s(now) == 0:
            self._answer(call, refusals.deadline(call.terms.timeout_s or 0.0))
        elif not hopeful(candidates, call.tried):
            self._answer(call, self._hopeless(call))
        else:
            ask = self._prospects.ask(call, now)
            choice = choose(ask, candidates, self._settings.policy, self._dice)
            if choice is None:
                return False
            self._dispatch(call, choice, now)
        return True

    def _dispatch(self, call: Call, choice: Choice, now: float) -> None:
        self._unqueue(call)
        call.attempt += 1
        call.node = choice.node
        call.queued_s += now - call.waiting_since_s
        call.setback = None
        self._leases.take(call.id, call.attempt, choice.node, call.model)
        self._counts["dispatched"] += 1
        self._counts["warm"] += choice.placement == "warm"
        self._out.append(
            Dispatch(
                request=call.id,
                attempt=call.attempt,
                node=choice.node,
                placement=choice.placement,
                why=choice.why,
                queued_s=call.queued_s,
                deadline_s=call.left_s(now),
            )
        )

    def _hopeless(self, call: Call) -> Failure:
        if call.setback is not None:
            return call.setback
        hint_s = self._settings.retry_after_default_s
        if self._registry.knows(call.model):
            return refusals.no_nodes(call.model, hint_s)
        if self._registry.settled():
            return refusals.model_not_found(call.model)
        return refusals.nobody_connected(hint_s)

    def _refuse_waiting(self, now: float) -> None:
        for entry in self._queue.entries():
            call = self._waiting(entry.request)
            self._answer(call, call.setback or refusals.queue_full(self._hint_s(now)))

    # What failures and silence do.

    def _failed(
        self, request: RequestId, attempt: int, failure: Failure, now: float
    ) -> list[Effect]:
        call = self._calls.current(request, attempt)
        if call is not None:
            self._setback(call, failure, now)
        return self._settle(now)

    def _setback(self, call: Call, failure: Failure, now: float) -> None:
        """The current attempt is over without an answer: again, elsewhere, or not at all."""
        node, call.node = call.node, None
        assert node is not None, "only a running attempt can fail"

        def elsewhere() -> bool:
            return hopeful(self._prospects.candidates(call.model, now), call.tried)

        if verdict(failure, answered=call.answered) == "wait":
            self._counts["bounced"] += 1
            self._prospects.no_room(node, call.model, now)
            hint_s = self._hint_s(now)
            failure = Failure(failure.reason, failure.message, retry_after_s=hint_s)
        todo = self._recovery.judge(call, node, failure, now, elsewhere=elsewhere)
        if todo == "answer":
            self._answer(call, failure)
            return
        if todo == "elsewhere":
            self._counts["retried"] += 1
            self._out.append(
                Report("request_retried", node=node, request=call.id, reason=failure.reason)
            )
        self._enqueue(call, now, setback=failure)

    def _heard(self, node: NodeId, now: float) -> bool:
        back = self._registry.heard(node, now)
        if back:
            self._out.append(Report("node_state", node=node, state="alive"))
        return back

    def _fell_silent(self, node: NodeId, state: LinkState, now: float) -> None:
        if state in {"stale", "dead"}:
            self._lose(node, now, withdraw=state == "stale")
        if state == "dead":
            self._leave_leases(node, now)
            failure = refusals.node_dead(self._settings.link_dead_s)
            self._out.append(Disconnect(node, failure))

    def _lose(self, node: NodeId, now: float, *, withdraw: bool = False) -> None:
        # Newest first, because each goes to the head of the queue: the oldest ends up in front.
        for call in reversed(self._calls.on_node(node)):
            if withdraw:
                self._withdraw(call)
            self._setback(call, refusals.node_lost(), now)

    def _leave_leases(self, node: NodeId, now: float) -> None:
        self._leases.release_node(node)

    def _expired(self, kind: Literal["queue", "request"], call: Call, now: float) -> None:
        if kind == "request":
            assert call.terms.timeout_s is not None, "only a request with a timeout has the timer"
            self._withdraw(call)
            self._answer(call, refusals.deadline(call.terms.timeout_s))
        else:
            waited_s = now - call.waiting_since_s
            self._answer(call, refusals.queue_timeout(waited_s, self._hint_s(now)))

    # Small steps.

    def _enqueue(self, call: Call, now: float, setback: Failure | None = None) -> None:
        entry = Entry(call.id, call.model)
        call.waiting_since_s = now
        call.setback = setback
        self._timers.set(("queue", call.id), now + self._settings.queue_wait_s)
        if setback is None:
            self._queue.append(entry)
        else:
            self._queue.push_front(entry)

    def _unqueue(self, call: Call) -> None:
        self._timers.drop(("queue", call.id))
        self._queue.remove(call.id)

    def _answer(self, call: Call, failure: Failure) -> None:
        self._answers[failure.reason] += 1
        if failure.kind.fault is Fault.CAPACITY and failure.retry_after_s is not None:
            self._out.append(Report("request_shed", request=call.id, reason=failure.reason))
        self._out.append(Answer(call.id, failure))
        self._end(call)

    def _withdraw(self, call: Call) -> None:
        if call.node is not None:
            self._out.append(Withdraw(call.id, call.attempt, call.node))

    def _end(self, call: Call) -> None:
        self._unqueue(call)
        self._timers.drop(("request", call.id))
        self._calls.end(call)

    def _waiting(self, request: RequestId) -> Call:
        call = self._calls.get(request)
        assert call is not None, "what waits lives"
        return call

    def _hint_s(self, now: float) -> int:
        ahead = len(self._queue)
        default_s = self._settings.retry_after_default_s
        return refusals.wait_hint_s(ahead, self._freed.per_s(now), default_s)
