"""MACHINE: what failures, silence and time that has run out do to requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from roost.core.ids import NodeId, RequestId
from roost.core.snapshots import LinkState
from roost.errors import Failure, Fault
from roost.fleet.books import Books, Timer
from roost.fleet.calls import Call
from roost.fleet.effects import Disconnect, Report
from roost.fleet.line import refusals
from roost.fleet.retrying import LOSSES, verdict

Again = Literal["request_retried", "request_cut"]


class Mishaps:
    """Decides what becomes of requests whose attempts or patience have ended."""

    def __init__(self, books: Books, hope: Callable[[Call, float], bool]) -> None:
        self._books = books
        self._hope = hope

    def failed(self, request: RequestId, attempt: int, failure: Failure, now: float) -> None:
        """An attempt has failed; nothing if it is not the current one."""
        call = self._books.calls.current(request, attempt)
        if call is not None:
            self.setback(call, failure, now)

    def setback(self, call: Call, failure: Failure, now: float) -> None:
        """The current attempt is over without an answer: again, elsewhere, or not at all."""
        books = self._books
        node, call.node = call.node, None
        assert node is not None, "only a running attempt can fail"
        call.now_on.ended_s, call.now_on.failure = now, failure.reason
        replays = call.answered and call.resumable and failure.reason in LOSSES
        if replays:
            self._resume(call, failure)
        if verdict(failure, answered=call.answered) == "wait":
            books.counts["bounced"] += 1
            books.prospects.board.no_room(node, call.model, now)
            hint_s = books.hint_s(call.model, now)
            failure = Failure(failure.reason, failure.message, retry_after_s=hint_s)
        elif failure.kind.fault is Fault.PEER and failure.reason != "node_lost":
            self._blame(node, call, now)
        todo = books.recovery.judge(
            call,
            node,
            failure,
            now,
            elsewhere=lambda: self._hope(call, now),
            again=lambda: books.prospects.rest(call, node),
        )
        if todo == "answer":
            books.answer(call, _told(call, failure), now)
            return
        if replays or todo in {"elsewhere", "again"}:
            # Whether somebody goes on is known, and counted, when somebody has started.
            books.counts["retried"] += not replays
            event: Again = "request_cut" if replays else "request_retried"
            books.out.append(Report(event, node=node, request=call.id, reason=failure.reason))
        if todo != "wait":
            # Who is sent back for lack of room goes on waiting: that is all that it has done.
            call.unserved_since_s = now
        books.enqueue(call, now, setback=failure)

    def _resume(self, call: Call, failure: Failure) -> None:
        """Let the next attempt go on behind what was said: as if that had been in the prompt."""
        assert call.said is not None, "only what is kept can be gone on with"
        started = call.now_on.started
        if started is not None and not call.resumes_at:
            call.prompt_tokens = started.prompt_tokens
        call.resumes_at, call.loss = call.said.tokens, failure
        call.answered = False

    def _blame(self, node: NodeId, call: Call, now: float) -> None:
        """Count the failure against the node; its lease and its link are other matters."""
        if self._books.prospects.board.failed(node, call.model, now):
            self._books.counts["breakers_opened"] += 1
            self._books.out.append(
                Report("node_state", node=node, reason="breaker_open", model=call.model)
            )

    def fell_silent(self, node: NodeId, state: LinkState, now: float) -> None:
        """A node's link has changed its state for want of news."""
        if state in {"stale", "dead"}:
            self.lose(node, now, withdraw=state == "stale")
        if state == "dead":
            self.leave_leases(node)
            failure = refusals.node_dead(self._books.settings.link_dead_s)
            self._books.out.append(Disconnect(node, failure))

    def lose(self, node: NodeId, now: float, *, withdraw: bool = False) -> None:
        """Whatever runs there is lost."""
        # Newest first, because each goes to the head of the queue: the oldest ends up in front.
        for call in reversed(self._books.calls.on_node(node)):
            if withdraw:
                self._books.withdraw(call)
            self.setback(call, refusals.node_lost(), now)

    def leave_leases(self, node: NodeId) -> None:
        """Nobody will say any more that these places are free: they are."""
        self._books.leases.release_node(node)

    def expired(self, timer: Timer, now: float) -> None:
        """A request's time in the line, or its own deadline, is over."""
        kind, request = timer
        books = self._books
        call = books.calls.get(request)
        if call is None:
            # Both timers of a request may be due in the same tick; the first one ended it.
            return
        if kind == "request":
            assert call.terms.timeout_s is not None, "only a request with a timeout has the timer"
            books.stop(call, "deadline", now)
            books.answer(call, refusals.deadline(call.terms.timeout_s), now)
        else:
            waited_s, hint_s = now - call.unserved_since_s, books.hint_s(call.model, now)
            # A node that had no room says what it lacks. Of an answer that has begun the loss is
            # what its client has to hear.
            full = call.setback if call.setback and call.setback.reason == "node_busy" else None
            failure = call.loss or full or refusals.queue_timeout(waited_s, hint_s)
            books.answer(call, failure, now)


def _told(call: Call, failure: Failure) -> Failure:
    """What a client hears: to go on was not its idea, so not what is wrong with that either."""
    if call.loss is None or failure.kind.fault is not Fault.CALLER or failure.reason == "fenced":
        return failure
    return call.loss
