"""MACHINE: prompts whose past is computed again, and why, request by request and as a habit.

A runtime says how many tokens of a prompt it had: that is where the prompt parts from what was
there. One timestamp in a system prompt makes every turn part at the same token, and nobody notices
but by the bill; so that token is told.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

from roost.core.events import Started
from roost.core.ids import ModelId
from roost.core.request import Terms
from roost.fleet.effects import Dispatch

TURNS = 64
TURNS_MIN = 16
MODELS_MAX = 64
LOST_MIN = 64
"""Fewer tokens than these are no loss worth a word."""

PAST_MESSAGES = 3
"""A chat of so many messages has an answer in its past."""

Why = Literal["diverged", "evicted", "moved", "lost", "unknown"]


class Miss(NamedTuple):
    """Why so many tokens of a past were computed again; `at` is how many were there."""

    why: Why
    at: int
    lost: int
    detail: str = ""

    @property
    def text(self) -> str:
        """Say it in a few words."""
        match self.why:
            case "diverged":
                return f"diverged at token {self.at}"
            case "evicted":
                return "its place had gone to others"
            case "moved":
                return f"its node could not be used: {self.detail}"
            case "lost":
                return f"what was kept is gone: {self.detail}"
            case "unknown":
                return "nothing of it was known here"


def miss_of(terms: Terms, dispatch: Dispatch, started: Started) -> Miss | None:
    """Judge one start; None where most of the past was there, or where there is none.

    Only of conversations that this gateway has seen is it known how much there should have been;
    of another one that goes on, half of the prompt is taken for its past. A past that was made
    shorter is meant to be computed again.
    """
    had, believed = started.cached_tokens, dispatch.home_tokens
    if terms.rewritten:
        return None
    if believed == 0 and (terms.fresh or len(terms.chain) < PAST_MESSAGES):
        return None
    past = believed or started.prompt_tokens // 2
    if past - had < LOST_MIN or 2 * had >= past:
        return None
    lost = past - had
    if dispatch.placement in ("moved", "lost"):
        why: Why = "moved" if dispatch.placement == "moved" else "lost"
        return Miss(why, had, lost, dispatch.why)
    if had > 0:
        return Miss("diverged", had, lost)
    return Miss("evicted" if believed else "unknown", had, lost)


class Habit(NamedTuple):
    """A model whose pasts are mostly computed again: how often of how many turns, mostly why."""

    model: ModelId
    misses: int
    turns: int
    mostly: str


class CacheMisses:
    """Remembers the last turns of each model."""

    def __init__(self) -> None:
        self._models: OrderedDict[ModelId, deque[Miss | None]] = OrderedDict()

    def on_started(
        self, model: ModelId, terms: Terms, dispatch: Dispatch, started: Started
    ) -> Miss | None:
        """A request holds a slot; what it missed, if it did."""
        if dispatch.resumes_at or (not dispatch.home_tokens and len(terms.chain) < PAST_MESSAGES):
            return None
        miss = miss_of(terms, dispatch, started)
        turns = self._models.setdefault(model, deque(maxlen=TURNS))
        turns.append(miss)
        self._models.move_to_end(model)
        if len(self._models) > MODELS_MAX:
            self._models.popitem(last=False)
        return miss

    def habits(self) -> Iterator[Habit]:
        """Name the models of whose last turns more than half missed their past."""
        for model, turns in self._models.items():
            misses = [one for one in turns if one is not None]
            if len(turns) >= TURNS_MIN and 2 * len(misses) > len(turns):
                (mostly, _), *_ = Counter(one.text for one in misses).most_common(1)
                yield Habit(model, len(misses), len(turns), mostly)
