"""DECIDER: claims about homes: that conversations come back to them, and what is said of it.

They hold in any trouble: each asks of one home at a time whether anything was wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from roost.core.ids import NodeId
from roost.sim.history import History
from roost.sim.node_facts import Run
from roost.sim.request_facts import Trace

GATEWAY = NodeId("gateway")
SEAM_TOKENS = 2
_GOOD_REASONS = frozenset({"home_busy", "home_slower", "compacted"})


def second_turn_is_warm(history: History) -> Iterator[str]:
    """While nothing is wrong with its home, whoever goes on comes there and finds what it left."""
    for trace, previous in _later_turns(history):
        opened = trace.opened[0]
        if _in_trouble(history, trace, previous) or _made_room(history, trace):
            continue
        home = "moved" if previous.moves is not None else "warm"
        if opened.placement not in {home, "warm"} and opened.why not in _GOOD_REASONS:
            yield f"{trace.request}, turn {trace.turn}, was {opened.placement} ({opened.why})"
        elif (
            opened.placement == home
            and opened.node == previous.opened[-1].node
            and len(trace.opened) == 1
            and _undisturbed(history, trace, previous)
            and not _held(trace, previous)
        ):
            found = trace.cached_tokens
            yield f"{trace.request}, turn {trace.turn}, came home and found {found} tokens cached"


def labels_are_true(history: History) -> Iterator[str]:
    """Who is told `warm` ran where most of its last prompt was, and `cold` had no last prompt."""
    for trace, previous in _later_turns(history):
        label, name = trace.opened[-1].label, f"{trace.request}, turn {trace.turn},"
        if label == "warm" and not _held(trace, previous):
            yield f"{name} was told warm with {trace.cached_tokens} tokens cached"
        if label == "cold" and not history.troubled(GATEWAY, 0.0, trace.arrived_s):
            yield f"{name} was told cold and has a past"
        there = trace.opened[-1].node == previous.opened[-1].node
        if label == "moved" and there and not (is_compacted(trace) or previous.moves):
            yield f"{name} was told moved and is where it was"
        if label == "warm" and previous.moves and not _restarted(history, trace, previous):
            yield f"{name} was told warm and has been moved"


def is_compacted(trace: Trace) -> bool:
    """Whether its past was made shorter, as its client is told; a retry has reasons of its own."""
    return any(opened.why == "compacted" for opened in trace.opened)


def losses_are_counted(history: History) -> Iterator[str]:
    """Who is told `moved` or `lost` is told how much of its last prompt was computed again."""
    for trace, previous in _later_turns(history):
        opened = trace.opened[-1]
        if opened.label not in {"moved", "lost"} or not opened.started or opened.resumes_at:
            continue
        if is_compacted(trace):
            # What that took away is told apart; nothing of the last prompt was to be found again.
            continue
        most = previous.prompt_tokens
        # What was computed for nobody ends in a seam that the next turn writes anew.
        held = most - SEAM_TOKENS if previous.moves else most
        if _restarted(history, trace, previous):
            # A disk has a number of tokens, and not how many of them were prompt.
            most += previous.heard + 1
        cost, most = (max(0, tokens - (trace.cached_tokens or 0)) for tokens in (held, most))
        if not cost <= opened.lost_tokens <= most:
            told = f"{opened.label} at {opened.lost_tokens} tokens"
            yield f"{trace.request}, turn {trace.turn}, was told {told} and cost {cost}"


def homes_are_kept(history: History) -> Iterator[str]:
    """Who insists on its home is served there, with its KV, or not at all."""
    for trace, previous in _later_turns(history, dispatched=False):
        if not trace.insists:
            continue
        home = previous.opened[-1].node
        for opened in trace.opened:
            if opened.node != home:
                yield f"{trace.request} insisted on {home} and was given {opened.node}"
        if trace.text and not _held(trace, previous):
            yield f"{trace.request} insisted on {home} and was computed anew"
        gone = any(failure and failure.reason == "session_gone" for _, failure in trace.endings)
        if gone and not _may_be_gone(history, trace, previous):
            yield f"{trace.request} was told that its home is gone, and nothing had happened"


def _later_turns(history: History, *, dispatched: bool = True) -> Iterator[tuple[Trace, Trace]]:
    """Turns with a past, each with the last one before it of which something is in a KV cache."""
    for trace in history.traces.values():
        if trace.previous is None or (dispatched and not trace.opened):
            continue
        previous = history.traces[trace.previous]
        if previous.opened:
            yield trace, previous


def _held(trace: Trace, previous: Trace) -> bool:
    """Whether its node had half of what was prompt in the turn before, or more."""
    cached = trace.cached_tokens or 0
    return cached > 0 and 2 * cached >= previous.prompt_tokens


def _in_trouble(history: History, trace: Trace, previous: Trace) -> bool:
    """Whether anything was wrong with the home, or with the gateway, since it became the home.

    A gateway that starts again knows the homes of named conversations once its nodes are back.
    """
    home, since_s, at_s = previous.opened[-1].node, previous.arrived_s, trace.opened[0].at_s
    if history.troubled(home, since_s, at_s):
        return True
    for trouble in history.troubles:
        until_s = at_s if trouble.until_s is None else trouble.until_s
        if trouble.node != GATEWAY or trouble.since_s > at_s or until_s < since_s:
            continue
        if trace.conversation is None or trouble.kind != "kill_gateway" or until_s >= at_s:
            return True
    return False


def _restarted(history: History, trace: Trace, previous: Trace) -> bool:
    """Whether a gateway was killed between two turns, or while one of them ran."""
    until_s = history.ended_s if trace.over_s is None else trace.over_s
    return any(
        trouble.kind == "kill_gateway" and previous.arrived_s <= trouble.since_s <= until_s
        for trouble in history.troubles
    )


def _may_be_gone(history: History, trace: Trace, previous: Trace) -> bool:
    """Whether its home was in trouble, or had to give its slot to somebody else."""
    home, since_s = previous.opened[-1].node, previous.arrived_s
    until_s = history.ended_s if trace.over_s is None else trace.over_s
    if any(history.troubled(one, since_s, until_s) for one in (home, GATEWAY)):
        return True
    return any(
        run.node == home and run.request not in {trace.request, previous.request}
        for run in history.runs
        if run.began_s <= until_s and (run.ended_s is None or run.ended_s >= since_s)
    )


def _made_room(history: History, trace: Trace) -> bool:
    """Whether a runtime of the model had to go for another model until this turn."""
    return any(
        one.model == trace.model and one.told_s is not None and one.told_s <= trace.opened[0].at_s
        for one in history.residences
    )


def _undisturbed(history: History, trace: Trace, previous: Trace) -> bool:
    """Whether nobody else ran on the home between this turn and the one before."""
    mine = _run(history, trace.request), _run(history, previous.request)
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
        "A conversation comes home, or that was in trouble, busy, slower or made room.",
        second_turn_is_warm,
    ),
    (
        "labels_are_true",
        "Nobody is told warm whose node had lost most of what it held, nor cold who has a past.",
        labels_are_true,
    ),
    (
        "losses_are_counted",
        "Who is told moved or lost is told how many tokens that cost, no more and no fewer.",
        losses_are_counted,
    ),
    (
        "homes_are_kept",
        "Who requires its home runs there, on its KV, or not at all, and only what is gone is so.",
        homes_are_kept,
    ),
)
"""Name, claim, and how to find what breaks it."""
