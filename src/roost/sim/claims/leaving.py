"""DECIDER: claims about owners and places: who computes what where, and how nodes are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from roost.core.ids import NodeId
from roost.sim.claims.talks import conversations
from roost.sim.history import History
from roost.sim.node_facts import Drain

GATEWAY = NodeId("gateway")
TOLD_WITHIN_S = 10.0
MOVED_WITHIN_S = 11.0
UNHEARD_TOKENS = 1


def owners_succeed(history: History) -> Iterator[str]:
    """Over restarts of the gateway too, whoever serves a turn is newer than who served the last."""
    for turns in conversations(history):
        opened = [one for trace in turns for one in trace.opened]
        for older, newer in pairwise(opened):
            if (newer.life, newer.epoch) <= (older.life, older.epoch):
                yield f"{newer.node} has epoch {newer.epoch}, {older.node} had {older.epoch} before"


def work_is_where_it_was_sent(history: History) -> Iterator[str]:
    """No engine computes for a request that was not sent to its node."""
    for run in history.runs:
        if not run.life:
            # Whatever is not of a node's process was not computed.
            continue
        trace = history.traces.get(run.request)
        sent = trace is not None and any(
            one.node == run.node and one.at_s <= run.began_s for one in trace.opened
        )
        if not sent:
            yield f"{run.node} ran {run.request}, which was not sent there"


def moves_take_turns(history: History) -> Iterator[str]:
    """A conversation that is moved is not talked in meanwhile, nor moved twice at once."""
    moves = [trace for trace in history.traces.values() if trace.moves is not None]
    for turns in conversations(history):
        mine = [move for move in moves if move.moves == turns[0].conversation]
        both = sorted((*turns, *mine), key=lambda trace: trace.arrived_s)
        for one, other in pairwise(both):
            free = one.over_s is not None and one.over_s <= other.arrived_s
            if not free and (one.moves is not None or other.moves is not None):
                yield f"{other.request} began while {one.request} of its conversation ran"


def drained_nodes_are_empty(history: History) -> Iterator[str]:
    """A drained node is told in time that nobody comes back, not before that is so, and lets go."""
    for drain in history.drains:
        if drain.told_s is not None and drain.left_when_told and not _failed_moves(history):
            yield f"{drain.node} was told while {drain.left_when_told} conversations were there"
        if drain.until_s is None or _otherwise_ill(history, drain):
            continue
        told = drain.told_s is not None
        if told and drain.sessions > drain.busy:
            yield f"{drain.node} was told that nobody comes back, and keeps {drain.sessions}"
        if not told and drain.until_s - drain.since_s > TOLD_WITHIN_S and _all_well(history, drain):
            yield f"{drain.node} was drained for {drain.until_s - drain.since_s:.1f} s and not told"
        if drain.left and not _failed_moves(history) and not _lately(history, drain):
            yield f"{drain.left} conversations are still on {drain.node}"


def _failed_moves(history: History) -> bool:
    moves = (trace for trace in history.traces.values() if trace.moves is not None)
    return any(all(kind != "complete" for kind, _ in trace.endings) for trace in moves)


def _otherwise_ill(history: History, drain: Drain) -> bool:
    """Whether anything but the drain itself was wrong with this node, or with the gateway."""
    assert drain.until_s is not None, "only drains that have ended are judged"
    return any(
        trouble.node in {drain.node, GATEWAY}
        and (trouble.kind != "park_node" or trouble.since_s != drain.since_s)
        and trouble.since_s <= (drain.until_s or 0.0)
        and (trouble.until_s is None or trouble.until_s >= drain.since_s)
        for trouble in history.troubles
    )


def _all_well(history: History, drain: Drain) -> bool:
    """Whether nothing was wrong with anybody else, who has to take the conversations."""
    until_s = history.ended_s if drain.until_s is None else drain.until_s
    return not any(
        trouble.node != drain.node
        and trouble.since_s <= until_s
        and (trouble.until_s is None or trouble.until_s >= drain.since_s)
        for trouble in history.troubles
    )


def _lately(history: History, drain: Drain) -> bool:
    """Whether there was not the time to move everybody."""
    until_s = history.ended_s if drain.until_s is None else drain.until_s
    since_s = until_s - MOVED_WITHIN_S
    if drain.since_s > since_s or not _all_well(history, drain):
        return True
    return any(
        run.node == drain.node and (run.ended_s is None or run.ended_s > since_s)
        for run in history.runs
        if run.began_s < until_s
    )


def cells_are_conserved(history: History) -> Iterator[str]:
    """At rest a node reports of each slot the KV that its engine has there, within its context.

    A slot that nobody comes back to counts as empty, whatever is still in it.
    """
    for cell in history.cells:
        if cell.told and abs(cell.told - cell.real) > UNHEARD_TOKENS:
            yield f"slot {cell.slot} of {cell.runtime} on {cell.node} has {cell.real}: {cell.told}"
        if cell.real > cell.ctx:
            yield f"slot {cell.slot} of {cell.runtime} on {cell.node} has {cell.real} of {cell.ctx}"


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "owners_succeed",
        "Every turn of a conversation has a newer owner than the last, over restarts too.",
        owners_succeed,
    ),
    (
        "work_is_where_it_was_sent",
        "Nothing is computed but where the gateway has sent it.",
        work_is_where_it_was_sent,
    ),
    (
        "moves_take_turns",
        "A conversation that is moved off a node is not talked in meanwhile.",
        moves_take_turns,
    ),
    (
        "drained_nodes_are_empty",
        "A drained node is told when nobody comes back, in time and not before, and lets go.",
        drained_nodes_are_empty,
    ),
    (
        "cells_are_conserved",
        "At rest the KV that nodes report is the KV that their engines have.",
        cells_are_conserved,
    ),
)
"""Name, claim, and how to find what breaks it."""
