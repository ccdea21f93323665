"""DECIDER: claims about vectors and scores: whole or none, and where the model is for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from roost.errors import Fault
from roost.sim.history import History
from roost.sim.request_facts import Trace


def vectors_come_whole(history: History) -> Iterator[str]:
    """Whoever asked for vectors has one of each text, in order, or has heard of none."""
    for trace in _listings(history):
        if trace.text and trace.text != "".join(trace.oracle):
            got = len(trace.text.split())
            yield f"{trace.request} received {got} vectors, not its {len(trace.oracle)}"


def models_do_what_they_are_for(history: History) -> Iterator[str]:
    """Nothing is given to a node whose model of that name is for something else."""
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.mode not in {None, trace.mode}:
                yield f"{trace.request} wants {trace.mode}, {opened.node} is for {opened.mode}"


def vectors_are_made_again(history: History) -> Iterator[str]:
    """One death is not told to whoever waits for vectors: nobody has seen any of them yet."""
    for trace in _listings(history):
        failures = [failure for _, failure in trace.endings if failure is not None]
        if len(trace.opened) != 1 or not any(one.kind.fault is Fault.PEER for one in failures):
            continue
        if _has_budget(history, trace) and _somebody_else(history, trace):
            yield f"{trace.request} was told {failures[0].reason} after one attempt"


def _listings(history: History) -> Iterator[Trace]:
    return (trace for trace in history.traces.values() if trace.mode != "generate")


def _has_budget(history: History, trace: Trace) -> bool:
    at_s = history.ended_s if trace.over_s is None else trace.over_s
    retries = (when for one in history.traces.values() for when in one.retries)
    return sum(at_s - history.retry_window_s < when <= at_s for when in retries) < max(
        1, history.retry_floor
    )


def _somebody_else(history: History, trace: Trace) -> bool:
    """Whether a node that serves the same had been well all the while."""
    until_s = history.ended_s if trace.over_s is None else trace.over_s
    others = {
        opened.node
        for one in history.traces.values()
        for opened in one.opened
        if one.model == trace.model and opened.mode == trace.mode
    }
    others.discard(trace.opened[0].node)
    return any(not history.troubled(node, 0.0, until_s) for node in others)


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "vectors_come_whole",
        "Vectors and scores come all of them, once and in order, or none does.",
        vectors_come_whole,
    ),
    (
        "models_do_what_they_are_for",
        "A node is asked for what its model is for, and for nothing else.",
        models_do_what_they_are_for,
    ),
    (
        "vectors_are_made_again",
        "Who waits for vectors is not told of one death while somebody else can make them.",
        vectors_are_made_again,
    ),
)
"""Name, claim, and how to find what breaks it."""
