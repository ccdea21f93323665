"""DECIDER: claims about prompts computed ahead: one answer each, and places that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from roost.sim.history import History
from roost.sim.request_facts import Handed, Tried


def handoffs_are_answered_once(history: History) -> Iterator[str]:
    """A secret is good for one answer, for whoever got it, in its time and its gateway's life."""
    for one in _made(history):
        spent = [tried for tried in one.tries if tried.spent]
        if len(spent) > 1:
            yield f"the prompt of {one.prefill} was answered {len(spent)} times"
        for tried in spent:
            why = _why_not(history, one, tried)
            if why:
                yield f"the prompt of {one.prefill} was answered {why}"


def handoffs_are_kept(history: History) -> Iterator[str]:
    """Who comes in time with what is his own, and has not come before, is not sent away."""
    for one in _made(history):
        for place, tried in enumerate(one.tries):
            gone = any(before.spent for before in one.tries[:place])
            if not tried.spent and not gone and not _why_not(history, one, tried):
                yield f"{one.prefill} was told at {tried.at_s:.1f} s that its prompt is gone"


def handoffs_keep_to_their_room(history: History) -> Iterator[str]:
    """There are never more than the settings say, and nobody is refused while there are fewer."""
    limits = history.handoffs
    for place, one in enumerate(history.handed):
        there = [
            before
            for before in history.handed[:place]
            if before.life == one.life and _until_s(history, before) > one.at_s
        ]
        own = sum(before.tenant == one.tenant for before in there)
        full = own >= limits.each_max or len(there) >= limits.all_max
        if full and one.refused is None:
            yield f"{one.prefill} is one more than the {own} and {len(there)} that may be"
        if not full and one.refused is not None:
            yield f"{one.prefill} was refused beside {own} and {len(there)} others"


def handoff_places_return(history: History) -> Iterator[str]:
    """At rest those have a place that were computed and not spent, and whose time is not over."""
    rest = history.rest
    if rest is None:
        return
    left = sum(
        one.life == history.life and _until_s(history, one) > history.ended_s
        for one in history.handed
    )
    if rest.handoffs != left:
        yield f"at rest {rest.handoffs} prompts have a place, {left} wait to be answered"


def _made(history: History) -> Iterator[Handed]:
    return (one for one in history.handed if one.made_s is not None)


def _why_not(history: History, one: Handed, tried: Tried) -> str:
    """Why nobody may have the answer on this try; "" where it may be had."""
    if tried.tenant != one.tenant:
        return f"for {tried.tenant}"
    if tried.life != one.life:
        return "by another life of the gateway"
    return "after its time" if tried.at_s >= _ends_s(history, one) else ""


def _ends_s(history: History, one: Handed) -> float:
    assert one.made_s is not None, "only what is made has a time"
    return one.made_s + history.handoffs.ttl_s


def _until_s(history: History, one: Handed) -> float:
    """Until when it has a place, as far as its gateway lives."""
    if one.refused is not None:
        return one.at_s
    if one.made_s is None:
        return history.ended_s + 1.0 if one.over_s is None else one.over_s
    spent = (tried.at_s for tried in one.tries if tried.spent)
    return next(spent, _ends_s(history, one))


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "handoffs_are_answered_once",
        "A prompt computed ahead is answered once, for its own tenant, while it may be.",
        handoffs_are_answered_once,
    ),
    (
        "handoffs_are_kept",
        "Nobody with a secret of his own is told that it is gone before it is.",
        handoffs_are_kept,
    ),
    (
        "handoffs_keep_to_their_room",
        "There are as many handoffs as may be, no more, and nobody is refused for fewer.",
        handoffs_keep_to_their_room,
    ),
    (
        "handoff_places_return",
        "At rest no handoff has a place that nobody can ask for.",
        handoff_places_return,
    ),
)
"""Name, claim, and how to find what breaks it."""
