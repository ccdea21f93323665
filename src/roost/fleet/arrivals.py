"""MACHINE: a new request for which there is no room yet: its place in the line, or a refusal."""

from __future__ import annotations

from roost.fleet.books import Books
from roost.fleet.calls import Call
from roost.fleet.line import refusals
from roost.fleet.settings import FleetSettings


def line_up(books: Books, settings: FleetSettings, call: Call, now: float) -> None:
    """Let one wait that is in the line already, or say at once that it cannot.

    A line that is too long loses whoever counts least, which may be somebody else.
    """
    if len(books.queue) > settings.queue_length:
        loser = books.waiting(books.queue.surplus(call.id))
        ahead = books.queue.by_model().get(loser.model, 1) - 1
        eta_s = books.eta_s(loser.model, ahead, now)
        hint_s = refusals.hint_s(eta_s, settings.retry_after_default_s)
        books.answer(loser, refusals.queue_full(hint_s, len(books.queue) - 1, eta_s), now)
    if call.id not in books.queue:
        return
    told = books.tell(books.queue.tell(call.id), now)
    left_s, timeout_s = call.left_s(now), call.terms.timeout_s or 0.0
    if left_s == 0:
        books.answer(call, refusals.deadline(timeout_s), now)
    elif left_s is not None and told.eta_s is not None and told.eta_s > left_s:
        hint_s = refusals.hint_s(told.eta_s, settings.retry_after_default_s)
        failure = refusals.too_late(timeout_s, told.eta_s, told.position, hint_s)
        books.answer(call, failure, now)
    else:
        books.out.append(told)
