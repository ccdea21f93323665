"""MACHINE: what the coordinator's parts share: who lives, who waits, what is leased, what is to do.

Everything that ends a request goes through `end`, everything that takes it off a node through
`withdraw`; a lease comes back in `Leases.release` and nowhere else.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

from roost.core.ids import ModelId, RequestId
from roost.errors import Failure, Fault
from roost.fleet.calls import Call, Calls, Stopped, Stopper
from roost.fleet.choice.leases import Lease, Leases
from roost.fleet.choice.routing import Dice
from roost.fleet.deadlines import Deadlines
from roost.fleet.effects import Answer, Effect, Report, Waiting, Withdraw
from roost.fleet.line import refusals
from roost.fleet.line.line import Entry, Line, News
from roost.fleet.line.waits import Waits
from roost.fleet.nodes.registry import Registry
from roost.fleet.prospects import Prospects
from roost.fleet.retrying import Recovery
from roost.fleet.settings import FleetSettings
from roost.fleet.watching.receipts import Receipts
from roost.fleet.watching.views import QueueView

Timer = tuple[Literal["queue", "request"], RequestId]


class Books:
    """The state of one coordinator, and the small steps that keep it consistent."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        self.settings = settings
        self.dice = dice
        self.registry = Registry(settings)
        self.leases = Leases()
        self.prospects = Prospects(settings, self.registry, self.leases)
        self.recovery = Recovery(settings)
        self.waits = Waits(settings.rate_window_s)
        self.calls = Calls()
        self.receipts = Receipts(settings)
        self.queue = Line(settings.class_one_in)
        self.timers: Deadlines[Timer] = Deadlines()
        self.draining = False
        self.counts: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.out: list[Effect] = []

    def drained(self) -> list[Effect]:
        """Hand over what is to be done."""
        out, self.out = self.out, []
        return out

    def enqueue(self, call: Call, now: float, setback: Failure | None = None) -> None:
        """Let a request wait: by its share, or in front of the others if it had its turn before."""
        call.waiting_since_s = now
        call.setback = setback
        self.timers.set(("queue", call.id), call.unserved_since_s + self.settings.queue_wait_s)
        if setback is None:
            self.queue.append(entry_of(call, choosy=self.is_choosy(call)))
        else:
            self.queue.push_front(entry_of(call, choosy=self.is_choosy(call)))
        self.waits.begun(call.model, now)

    def is_choosy(self, call: Call) -> bool:
        """Whether there are nodes with room that it would not take: its wait says nothing of it."""
        terms = call.terms
        if terms.require or terms.unfit or self.is_mixed(call.model):
            return True
        return self.registry.narrow and terms.needs != "plain_turns"

    def is_mixed(self, model: ModelId) -> bool:
        """Whether the model is for one thing here and for another there."""
        return len(self.registry.modes(model)) > 1

    def serve(self, call: Call, now: float) -> None:
        """A request gets its place, on its tenant's account, whether or not it had to wait."""
        if call.id in self.queue:
            self.timers.drop(("queue", call.id))
            self.queue.served(call.id)
            self._look_who_waits(call.model, now)
        else:
            terms = call.terms
            self.queue.passed_by(terms.tenant, call.cost, terms.weight, talk_of(call))

    def unqueue(self, call: Call, now: float) -> None:
        """Take a request out of the line, if it is in it."""
        self.timers.drop(("queue", call.id))
        if self.queue.remove(call.id):
            self._look_who_waits(call.model, now)

    def _look_who_waits(self, model: ModelId, now: float) -> None:
        if not self.queue.by_model().get(model):
            self.waits.ended(model, now)

    def waiting(self, request: RequestId) -> Call:
        """The request behind an entry of the line."""
        call = self.calls.get(request)
        assert call is not None, "what waits lives"
        return call

    def answer(self, call: Call, failure: Failure, now: float) -> None:
        """End a request with this failure."""
        self.answers[failure.reason] += 1
        if failure.kind.fault is Fault.CAPACITY and failure.retry_after_s is not None:
            self.out.append(Report("request_shed", request=call.id, reason=failure.reason))
        self.out.append(Answer(call.id, failure))
        self.end(call, failure.reason, now)

    def stop(self, call: Call, by: Stopper, now: float) -> None:
        """Somebody wants the request stopped, whatever phase it is in: the one path for all."""
        free_s = 0.0 if call.node is None else None
        call.stopped = Stopped(by, call.phase, free_s)
        self.counts[f"stopped_{by}"] += 1
        self.withdraw(call)

    def withdraw(self, call: Call) -> None:
        """Take a request off its node, if it is on one; its lease stays until the node is done."""
        if call.node is not None:
            self.out.append(Withdraw(call.id, call.attempt, call.node))

    def end(self, call: Call, outcome: str, now: float) -> None:
        """The request has its one ending."""
        if call.trail and call.now_on.ended_s is None:
            call.now_on.ended_s = now
        self.receipts.keep(call, outcome, now)
        self.unqueue(call, now)
        self.timers.drop(("request", call.id))
        self.calls.end(call)

    def free(self, lease: Lease, now: float) -> None:
        """A place has come back."""
        self.waits.returned(lease.model, now - lease.since_s, now)

    def eta_s(self, model: ModelId, ahead: int, now: float) -> float | None:
        """Seconds until a place is free for somebody with so many ahead; None if not known."""
        return self.waits.foretell_s(model, self.leases.taken(model), ahead, now)

    def hint_s(self, model: ModelId, now: float) -> int:
        """Whole seconds after which somebody who is refused now should come back."""
        eta_s = self.eta_s(model, self.queue.by_model().get(model, 0), now)
        return refusals.hint_s(eta_s, self.settings.retry_after_default_s)

    def tell(self, news: News, now: float) -> Waiting:
        """What somebody who waits is told."""
        eta_s = self.eta_s(news.model, news.ahead, now)
        return Waiting(news.request, news.position, news.length, eta_s)

    def line(self, now: float) -> tuple[QueueView, ...]:
        """Everybody who waits, in order."""
        return tuple(
            QueueView(
                request=entry.request,
                tenant=entry.tenant,
                model=entry.model,
                class_=entry.class_,
                position=news.position,
                waited_s=now - self.waiting(entry.request).waiting_since_s,
                eta_s=self.eta_s(entry.model, news.ahead, now),
                cost_tokens=entry.cost,
                left_s=self.waiting(entry.request).left_s(now),
            )
            for entry, news in self.queue.places()
        )


def entry_of(call: Call, *, choosy: bool) -> Entry:
    """The request as the line sees it."""
    terms = call.terms
    return Entry(
        request=call.id,
        model=call.model,
        tenant=terms.tenant,
        class_=terms.class_,
        cost=call.cost,
        weight=terms.weight,
        deadline_s=math.inf if terms.timeout_s is None else call.arrived_s + terms.timeout_s,
        talk=talk_of(call),
        again=call.prompt_tokens + call.resumes_at if call.failures else 0,
        choosy=choosy,
    )


def talk_of(call: Call) -> bytes:
    """The conversation by which a tenant is divided; empty where it is not."""
    terms = call.terms
    # Without keys everybody behind one address is one tenant: there, conversations share.
    return terms.chain[:2][-1] if terms.chain and terms.tenant.startswith("addr:") else b""
