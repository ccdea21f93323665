"""MACHINE: the gateway's mind: it takes in what happened and returns what is to be done.

It sees a handful of events per request and never a token. Every event handler notes what the event
changed and ends in `_settle`, which lets the assigner look at the line: the only part that gives
work to a node. Three things hold after every event:

    a request that lives either waits or has one current attempt, and that attempt holds a lease;
    a request has ended with one `Answer`, or finished, or its client has gone: one of the three;
    whatever could run now, runs: nothing waits that `choose` would place.
"""

from __future__ import annotations

from roost.core.events import Finished, Started
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.errors import Failure
from roost.fleet import census
from roost.fleet.arrivals import line_up
from roost.fleet.assigning import Assigner
from roost.fleet.books import Books
from roost.fleet.calls import Call
from roost.fleet.choice.homecoming import found
from roost.fleet.choice.routing import Dice
from roost.fleet.effects import Disconnect, Effect, Report
from roost.fleet.leaving import Leaving
from roost.fleet.line import refusals
from roost.fleet.mishaps import Mishaps
from roost.fleet.placing import Placer
from roost.fleet.settings import FleetSettings, followed
from roost.fleet.streams.relay import Outcome
from roost.fleet.streams.said import Said
from roost.fleet.watching.receipts import Receipt, receipt_of
from roost.fleet.watching.views import NodeView, PlacementView, QueueView, Statistics


class Coordinator:
    """Decides who may come in, who waits, who serves whom, and what a failure means."""

    def __init__(self, settings: FleetSettings, dice: Dice, books: Books | None = None) -> None:
        self._settings = settings
        self._books = books or Books(settings, dice)
        self._placer = Placer(self._books)
        self._assigner = Assigner(self._books, self._placer)
        self._mishaps = Mishaps(self._books, self._assigner.hope)
        self._leaving = Leaving(self._books)
        self._told_s = 0.0
        self._offers: tuple[ModelOffer, ...] = ()
        self._offered = self._books.registry.offered

    # Nodes.

    def on_node_joined(self, node: NodeId, name: str, instance: str, now: float) -> list[Effect]:
        """A node's link was welcomed.

        If the node has an older link, `Disconnect` for it comes first: the shell closes that one
        before it files the new link under this name, and forwards nothing from it any more.
        """
        books = self._books
        if books.registry.joined(node, name, instance, now):
            books.out.append(Disconnect(node, refusals.link_replaced()))
            self._mishaps.lose(node, now)
        self._mishaps.leave_leases(node)
        books.prospects.board.joined(node)
        books.out.append(Report("node_joined", node=node, state="alive"))
        return self._settle(now)

    def on_node_status(
        self, node: NodeId, seq: int, status: NodeStatus, now: float
    ) -> list[Effect]:
        """A node reported; an older report than the last one changes nothing."""
        books = self._books
        self._heard(node, now)
        record = books.registry.get(node)
        before = record.offers if record is not None else {}
        own = books.leases.in_flight(node)
        if not books.registry.reported(node, seq, status, own):
            return books.drained()
        books.prospects.board.reported(node, before)
        self._look_again(now)
        self._placer.look(now)
        return self._settle(now)

    def on_node_heard(self, node: NodeId, now: float) -> list[Effect]:
        """Any frame came from the node; cheap enough to be called for every one."""
        return self._settle(now) if self._heard(node, now) else self._books.drained()

    def on_node_left(self, node: NodeId, now: float) -> list[Effect]:
        """The node's current link ended; whatever ran there is lost."""
        books = self._books
        if books.registry.left(node):
            books.prospects.board.reshape()
            books.out.append(Report("node_left", node=node, state="dead"))
            self._mishaps.lose(node, now)
            self._mishaps.leave_leases(node)
        return self._settle(now)

    # Requests.

    def on_request(
        self, terms: Terms, model: ModelId, now: float, said: Said | None = None
    ) -> list[Effect]:
        """A request arrived: it is dispatched, waits, or is refused, in the effects returned.

        `said` is where its relay keeps what its client has been given, if another node may go on
        with the answer after a death.
        """
        books = self._books
        books.counts["requests"] += 1
        books.recovery.note_request(now)
        call = Call(terms, model, now, waiting_since_s=now, unserved_since_s=now, said=said)
        books.calls.add(call)
        home = books.prospects.measure(call, now)
        if terms.timeout_s is not None:
            books.timers.set(("request", call.id), now + terms.timeout_s)
        if books.draining:
            books.answer(call, refusals.draining(self._settings.retry_after_default_s), now)
            return self._settle(now)
        first = not len(books.queue)
        if not first or not self._assigner.place(call, home, now):
            self._wait(call, now, hopeless=first)
        return books.drained()

    def _wait(self, call: Call, now: float, *, hopeless: bool) -> None:
        """Let a new arrival wait; `hopeless` says that there is no room for it at this moment."""
        books = self._books
        # Where others wait already there is no room for this one either.
        others = books.queue.waits_for(call.model) and not books.is_mixed(call.model)
        hopeless = hopeless or others
        books.enqueue(call, now)
        if not hopeless:
            self._assigner.reconsider(now)
        if self._settings.queue_length == 0:
            self._assigner.refuse_waiting(now)
        if call.id in books.queue:
            line_up(books, self._settings, call, now)

    def on_started(
        self, request: RequestId, attempt: int, started: Started, now: float
    ) -> list[Effect]:
        """The attempt holds a slot on its node; one that goes on with an answer does so now."""
        books = self._books
        call = books.calls.current(request, attempt)
        if call is not None and call.node is not None:
            books.prospects.started(call, call.node, started, now)
            if call.resumes_at and call.loss is not None:
                books.counts["replayed"] += 1
                reason = call.loss.reason
                books.out.append(Report("request_replayed", call.node, request, reason=reason))
            elif call.terms.require and not _kept(call, started):
                # What it insists on is not there: nobody computes it anew behind its back.
                books.stop(call, "loss", now)
                books.answer(call, refusals.session_gone("evicted"), now)
        return self._settle(now)

    def on_first_token(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """A byte of this attempt's answer is on its way: from here on nothing is tried anew.

        A death can still be followed by somebody who goes on, where the request allows it.
        """
        books = self._books
        call = books.calls.current(request, attempt)
        if call is not None and call.node is not None:
            call.answered = True
            books.leases.prefilled(request, attempt)
            books.prospects.settled(call, call.node, now)
        return self._settle(now)

    def on_refused(
        self, request: RequestId, attempt: int, failure: Failure, now: float
    ) -> list[Effect]:
        """The node did not start the attempt; `on_released` follows."""
        self._mishaps.failed(request, attempt, failure, now)
        return self._settle(now)

    def on_failed(
        self, request: RequestId, attempt: int, failure: Failure, now: float
    ) -> list[Effect]:
        """The attempt ended without a complete answer; `on_released` follows."""
        self._mishaps.failed(request, attempt, failure, now)
        return self._settle(now)

    def on_finished(
        self, request: RequestId, attempt: int, finished: Finished, answer: str, now: float
    ) -> list[Effect]:
        """The answer is complete; `answer` is its text. `on_released` follows."""
        books = self._books
        call = books.calls.current(request, attempt)
        if call is not None and call.node is not None:
            books.counts["finished"] += 1
            books.prospects.answered(call, call.node, finished.usage, answer, now)
            self._served(call, call.node, now)
            computed = finished.usage.prompt_tokens - finished.usage.cached_tokens
            more = computed + finished.usage.completion_tokens - call.cost
            books.queue.correct(call.terms.tenant, more, call.terms.weight)
            books.end(call, "complete", now)
        return self._settle(now)

    def on_released(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """The node has nothing of this attempt any more: its place is free."""
        lease = self._books.leases.release(request, attempt)
        if lease is not None:
            self._books.free(lease, now)
            self._books.receipts.freed(request, attempt, now)
        return self._settle(now)

    def on_dropped(self, request: RequestId, pieces: int) -> None:
        """So many pieces of the answer were dropped for its reader; also after its end."""
        call = self._books.calls.get(request)
        if call is not None:
            call.dropped += pieces
        else:
            self._books.receipts.overflowed(request, pieces)

    def on_departed(self, request: RequestId, ending: Outcome) -> None:
        """How a request ended for its client; for the receipt, which is kept by then."""
        self._books.receipts.departed(request, ending)

    def on_client_gone(self, request: RequestId, now: float) -> list[Effect]:
        """Nobody reads the answer any more: stop it wherever it is. Not an error after the end."""
        call = self._books.calls.get(request)
        if call is not None:
            self._books.counts["clients_gone"] += 1
            self._books.stop(call, "client", now)
            self._books.end(call, "client_gone", now)
        return self._settle(now)

    def on_cancel(self, request: RequestId, tenant: TenantId | None, now: float) -> list[Effect]:
        """Stop a request by its id, in whatever phase; its client is told `cancelled`.

        `tenant` None is an operator, who may stop anybody's. What is over, or somebody else's, is
        left alone: nobody learns from this whether it exists.
        """
        call = self._books.calls.get(request)
        if call is not None and tenant in {None, call.terms.tenant}:
            self._books.stop(call, "operator" if tenant is None else "client", now)
            self._books.answer(call, refusals.cancelled(), now)
        return self._settle(now)

    # Operators.

    def on_drain_node(self, node: NodeId, now: float) -> list[Effect]:
        """Give a node no new work; what runs there may finish. Holds until `on_undrain_node`."""
        self._leaving.park(node, parked=True)
        return self._settle(now)

    def on_undrain_node(self, node: NodeId, now: float) -> list[Effect]:
        """Give a node work again."""
        self._leaving.park(node, parked=False)
        return self._settle(now)

    def on_handed_over(self, node: NodeId) -> list[Effect]:
        """Its conversations are elsewhere; of no consequence for a node that is not drained."""
        self._leaving.handed_over(node)
        return self._books.drained()

    def leaving(self) -> tuple[NodeId, ...]:
        """Nodes whose conversations have to go elsewhere."""
        return self._leaving.nodes()

    # Time.

    def on_tick(self, now: float) -> list[Effect]:
        """Time passed; due whenever `next_tick` said so, and harmless at any other time."""
        books = self._books
        for node, state in books.registry.advance(now):
            books.prospects.board.reshape()
            books.out.append(Report("node_state", node=node, state=state))
            self._mishaps.fell_silent(node, state, now)
        for timer in books.timers.due(now):
            self._mishaps.expired(timer, now)
        self._assigner.reconsider(now)
        if len(books.queue) and now >= self._told_s + self._settings.waiting_report_s:
            self._told_s = now
            books.out += [books.tell(news, now) for news in books.queue.news()]
        self._placer.look(now)
        return self._settle(now)

    def on_settings(self, settings: FleetSettings, now: float) -> list[Effect]:
        """Go by these from now on, as far as they may change; who waits already goes on waiting."""
        self._settings = self._books.settings = followed(self._settings, settings)
        self._placer.look(now)
        return self._settle(now)

    def on_drain(self, now: float) -> list[Effect]:
        """Take nothing new; what was accepted is still served."""
        self._books.draining = True
        return self._settle(now)

    def on_drain_end(self, now: float) -> list[Effect]:
        """The drain's grace is over: stop what is left."""
        for call in self._books.calls.all():
            self._books.stop(call, "drain", now)
            self._books.answer(call, refusals.stopped(self._settings.retry_after_default_s), now)
        return self._settle(now)

    def next_tick(self, now: float) -> float:
        """Seconds until `on_tick` has something to do, at most `idle_tick_s`."""
        books = self._books
        due = [books.registry.next_change_s(), books.timers.next_s()]
        if len(books.queue):
            due.append(books.prospects.board.next_room_s(now))
            due.append(self._told_s + self._settings.waiting_report_s)
        earliest = min((when for when in due if when is not None), default=None)
        if earliest is None:
            return self._settings.idle_tick_s
        # Never 0: adding a tiny difference to a large `now` may not change it, and would spin.
        return min(self._settings.idle_tick_s, max(self._settings.min_tick_s, earliest - now))

    # Views.

    def statistics(self) -> Statistics:
        """Gauges and counters as of the last event."""
        return census.statistics(self._books)

    def receipt(self, request: RequestId, now: float) -> Receipt | None:
        """What became of a request, or how far it has come; None if nobody remembers."""
        call = self._books.calls.get(request)
        if call is None:
            return self._books.receipts.get(request, now)
        return receipt_of(call, "waiting" if call.node is None else "running", now)

    def queue(self, now: float) -> tuple[QueueView, ...]:
        """Everybody who waits, in the order in which places are offered."""
        return self._books.line(now)

    def fleet(self) -> tuple[NodeView, ...]:
        """Every node, with and without a link, in order of first arrival."""
        books = self._books
        nodes = books.registry.all()
        return tuple(census.node_view(node, books.leases) for node in nodes)

    def node(self, node: NodeId) -> NodeView | None:
        """One of these; None where nobody knows of it."""
        record = self._books.registry.get(node)
        return None if record is None else census.node_view(record, self._books.leases)

    def placement(self, now: float) -> tuple[PlacementView, ...]:
        """Every model on offer: how many runtimes are wanted, and what each would cost."""
        return self._placer.views(now)

    def models(self) -> tuple[ModelOffer, ...]:
        """One offer for every model of a linked node, by name, also where it serves turns alone."""
        registry = self._books.registry
        if self._offered != registry.offered:
            # Asked with every request, and different once in an hour.
            self._offered, self._offers = registry.offered, census.offers(registry.all())
        return self._offers

    def silent_s(self, node: NodeId, now: float) -> float | None:
        """How long nothing has been heard of a node; None where it has no link."""
        record = self._books.registry.get(node)
        return now - record.heard_s if record is not None and record.linked else None

    def holds(self, request: RequestId, attempt: int) -> bool:
        """Whether an attempt's place is taken, also after its request has ended."""
        return self._books.leases.holds(request, attempt)

    @property
    def capped(self) -> bool:
        """Whether the cap on streams of the whole fleet is what keeps anybody new out."""
        return 0 < self._settings.max_decodes <= len(self._books.leases)

    def ready(self, now: float) -> bool:
        """Whether a request could be served: some node is alive with a model that loads."""
        registry = self._books.registry
        nodes = (n for n in registry.all() if registry.state(n, now) == "alive")
        return not self._books.draining and any(census.can_serve(node) for node in nodes)

    def _settle(self, now: float) -> list[Effect]:
        self._look_again(now)
        # Here and not in `on_request`: the next decision finds the board made.
        self._books.prospects.board.refresh(now)
        return self._books.drained()

    def _served(self, call: Call, node: NodeId, now: float) -> None:
        if self._books.prospects.board.succeeded(node, call.model, now):
            self._books.out.append(
                Report("node_state", node=node, reason="breaker_closed", model=call.model)
            )

    def _look_again(self, now: float) -> None:
        self._assigner.reconsider(now)
        if self._settings.queue_length == 0:
            self._assigner.refuse_waiting(now)

    def _heard(self, node: NodeId, now: float) -> bool:
        back = self._books.registry.heard(node, now)
        if back:
            self._books.prospects.board.heard(node)
            self._books.out.append(Report("node_state", node=node, state="alive"))
        return back


def _kept(call: Call, started: Started) -> bool:
    """Whether a home had what it was believed to hold of a conversation that has a past."""
    home_tokens, cached_tokens = call.now_on.home_tokens, started.cached_tokens
    if not home_tokens and not call.terms.has_past:
        return True
    return found("warm", home_tokens, cached_tokens) == "warm"
