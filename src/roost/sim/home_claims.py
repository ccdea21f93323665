"""DECIDER: claims about homes: that conversations come back to them, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from roost.sim.history import History, Run, Trace

_GOOD_REASONS = frozenset({"home_busy", "home_slower"})


def second_turn_is_warm(history: History) -> Iterator[str]:
    """While nothing fails, whoever goes on comes home, and what it left there is still there."""
    if history.troubles:
        return
    for trace in history.traces.values():
        if trace.previous is None or not trace.opened:
            continue
        opened = trace.opened[0]
        if opened.why == "home_cold" and _made_room(history, trace):
            continue
        if opened.placement != "warm" and opened.why not in _GOOD_REASONS:
            yield f"{trace.request}, turn {trace.turn}, was {opened.placement} ({opened.why})"
        elif (
            opened.placement == "warm"
            and _undisturbed(history, trace)
            and not _held(history, trace)
        ):
            found = trace.cached_tokens
            yield f"{trace.request}, turn {trace.turn}, came home and found {found} tokens cached"


def warm_was_held(history: History) -> Iterator[str]:
    """Whatever goes wrong, who is told `warm` ran where most of its last prompt was."""
    for trace in history.traces.values():
        if trace.previous is None or not trace.opened or trace.opened[-1].label != "warm":
            continue
        if not _held(history, trace):
            found = trace.cached_tokens
            yield f"{trace.request}, turn {trace.turn}, was told warm with {found} tokens cached"


def _held(history: History, trace: Trace) -> bool:
    """Whether its node had half of what was prompt in the turn before, or more."""
    assert trace.previous is not None
    cached, asked = trace.cached_tokens or 0, history.traces[trace.previous].prompt_tokens
    return cached > 0 and 2 * cached >= asked


def _made_room(history: History, trace: Trace) -> bool:
    """Whether a runtime of the model had to go for another model until this turn."""
    return any(
        one.model == trace.model and one.told_s is not None and one.told_s <= trace.opened[0].at_s
        for one in history.residences
    )


def _undisturbed(history: History, trace: Trace) -> bool:
    """Whether nobody else ran on the home between this turn and the one before."""
    assert trace.previous is not None
    mine = _run(history, trace.request), _run(history, trace.previous)
    if mine[0] is None or mine[1] is None or mine[1].ended_s is None:
        return False
    span = mine[1].began_s, mine[0].began_s
    others = (run for run in history.runs if run not in mine and run.node == mine[0].node)
    return not any(
        run.began_s <= span[1] and (run.ended_s is None or run.ended_s >= span[0]) for run in others
    )


def _run(history: History, request: str) -> Run | None:
    return next((run for run in history.runs if run.request == request), None)


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "second_turn_is_warm",
        "While nothing fails, a conversation comes home, or that was busy, slower or made room.",
        second_turn_is_warm,
    ),
    (
        "warm_was_held",
        "Whatever fails, nobody is told warm whose node had lost most of what it held.",
        warm_was_held,
    ),
)
"""Name, claim, and how to find what breaks it."""
