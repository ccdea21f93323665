"""DECIDER: claims about where models are loaded, and who has to go for them; see `checkers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from roost.sim.history import History
from roost.sim.node_facts import Residence

_GRAIN_S = 1e-3
Claim: TypeAlias = tuple[str, str, Callable[[History], Iterator[str]]]


def _one_load_for_all(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.loads and 0 < history.replicas <= opened.runtimes and not trace.retries:
                yield (
                    f"{trace.request} made {opened.node} load {trace.model}, which "
                    f"{opened.runtimes} others run or load"
                )


def _wishes_have_reasons(history: History) -> Iterator[str]:
    for wish in history.wishes:
        if wish.model in history.kept:
            continue
        if not wish.waiting and (wish.places or not wish.roomy):
            yield f"{wish.node} was asked for {wish.model}, for which nobody waits"
        if wish.under_way:
            yield f"{wish.node} was asked for {wish.model}, which {wish.under_way} others load"


def _room_before_eviction(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.loads and opened.evicts and opened.roomy and not trace.retries:
                yield (
                    f"{trace.request} drove {opened.evicts} out of {opened.node}, and "
                    f"{opened.roomy} had room"
                )


def _well_told(history: History) -> Iterator[tuple[Residence, float]]:
    """Runtimes that a healthy node has stopped, and when."""
    for one in history.residences:
        if one.told_s is not None and not history.troubled(one.node, one.began_s, one.told_s):
            yield one, one.told_s


def _busy_runtimes_stay(history: History) -> Iterator[str]:
    for one, told_s in _well_told(history):
        if one.busy and not one.forced:
            yield f"{one.node} stopped {one.model} at {told_s:.1f} s with {one.busy} streams on it"


def _runtimes_stay_a_while(history: History) -> Iterator[str]:
    for one, told_s in _well_told(history):
        if one.ordered:
            continue
        stayed_s = 0.0 if one.ready_s is None else told_s - one.ready_s
        if stayed_s < one.stays_s - _GRAIN_S:
            yield f"{one.node} stopped {one.model} after {stayed_s:.1f} s of {one.stays_s:.1f} s"


def _nodes_keep_to_their_room(history: History) -> Iterator[str]:
    for one in history.residences:
        if 0 < one.room < one.together:
            yield f"{one.node} loaded {one.model} as runtime {one.together} of {one.room}"


CLAIMS: tuple[Claim, ...] = (
    (
        "one_load_for_all",
        "No request starts a load of what others run or load, if those have not failed it.",
        _one_load_for_all,
    ),
    (
        "wishes_have_reasons",
        "What a node is asked for nobody loads, and is waited for, kept, or full and fits there.",
        _wishes_have_reasons,
    ),
    (
        "room_before_eviction",
        "No load drives a model out while another node has room for it.",
        _room_before_eviction,
    ),
    ("busy_runtimes_stay", "A healthy node stops no runtime in use.", _busy_runtimes_stay),
    (
        "runtimes_stay_a_while",
        "A runtime stays as long as the settings say, and as long as its load took.",
        _runtimes_stay_a_while,
    ),
    (
        "nodes_keep_to_their_room",
        "No node has more runtimes than it may.",
        _nodes_keep_to_their_room,
    ),
)
