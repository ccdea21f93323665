"""DECIDER: what must be true of models that operators and memory have a say in: one claim each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias

from roost.sim.history import History
from roost.sim.node_facts import Ordered, Weighing

_GRAIN_S = 1e-3
LOAD_WITHIN_S, OTHERS_WITHIN_S = 45.0, 5.0
HARD, EMERGENCY = 0.85, 0.95
Claim: TypeAlias = tuple[str, str, Callable[[History], Iterator[str]]]


def _orders_end(history: History) -> Iterator[str]:
    for one in history.orders:
        if one.ended_s is None:
            within_s = LOAD_WITHIN_S if one.what == "load" else one.wait_s + OTHERS_WITHIN_S
            most_s = one.given_s + within_s
            if most_s < history.ended_s and not _is_excused(history, one, history.ended_s):
                yield f"{_name(one)} of {one.given_s:.1f} s has no end"
        elif one.done and one.what == "load" and not one.there:
            yield f"{_name(one)} is said to be done, and nothing is loaded"
        elif one.done and one.what == "unload" and one.there:
            yield f"{_name(one)} is said to be done, and the runtime is still there"


def _is_excused(history: History, one: Ordered, until_s: float) -> bool:
    """Whether the node that got it has died, or slept, or was never reached."""
    return not one.life or history.troubled(one.node, one.given_s, until_s)


def _name(one: Ordered) -> str:
    return f"{one.node} {one.what} {one.model}"


def _pins_hold(history: History) -> Iterator[str]:
    for one in history.residences:
        if one.told_s is not None and one.pinned and not one.forced:
            yield f"{one.node} stopped {one.model}, which is pinned, at {one.told_s:.1f} s"


def _firsts_are_served(history: History) -> Iterator[str]:
    for one in history.residences:
        calm = one.told_s is not None and not history.troubled(one.node, one.began_s, one.told_s)
        if calm and one.preparing and not one.forced:
            yield f"{one.node} stopped {one.model} under {one.preparing} that had just begun"


def _loads_fit(history: History) -> Iterator[str]:
    for one in history.residences:
        if one.may_mb and one.taken_mb > one.may_mb + _GRAIN_S:
            yield f"{one.node} began to load {one.model}: {one.taken_mb:.0f} of {one.may_mb:.0f} MB"


def _passes_are_few(history: History) -> Iterator[str]:
    """One for each rise of a level, and one for each model that lacks memory."""
    lives: defaultdict[tuple[str, int], list[Weighing]] = defaultdict(list)
    for one in history.weighings:
        lives[one.node, one.life].append(one)
    for (node, _), weighings in lives.items():
        may, level = 0, 0
        for one in weighings:
            now = (one.share >= HARD) + (one.share >= EMERGENCY)
            may += (now > level) + one.asked
            level = now
        # The last one may be answered no more.
        made = weighings[-1].passes
        if made > may + 1:
            yield f"{node} made {made} passes, and had reason for {may}"


def _idle_models_go(history: History) -> Iterator[str]:
    for (node, model), idle_s in Counter(history.idle).items():
        yield f"{node} has kept {model} for {idle_s} s that nobody uses"


CLAIMS: tuple[Claim, ...] = (
    ("orders_end", "Every order ends, and what is said to be done is done.", _orders_end),
    ("pins_hold", "No pinned runtime goes, unless it is forced to.", _pins_hold),
    (
        "firsts_are_served",
        "No runtime goes from under a request that has just come to it.",
        _firsts_are_served,
    ),
    (
        "loads_fit",
        "No load begins that does not fit into the memory beside all that is there or coming.",
        _loads_fit,
    ),
    (
        "passes_are_few",
        "Memory is relieved once when it fills, and once for a model that lacks it.",
        _passes_are_few,
    ),
    ("idle_models_go", "At rest nothing stays longer than it is kept.", _idle_models_go),
)
