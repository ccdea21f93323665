"""DECIDER: claims about named conversations and about text that may be dropped; see `checkers`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from roost.sim.history import History
from roost.sim.request_facts import Trace


def conversations(history: History) -> list[list[Trace]]:
    """The turns that have begun, by conversation, in the order in which they did."""
    talks: dict[bytes, list[Trace]] = defaultdict(list)
    for trace in history.traces.values():
        if trace.conversation is not None and trace.began_s is not None:
            talks[trace.conversation].append(trace)
    for turns in talks.values():
        turns.sort(key=lambda trace: trace.began_s or 0.0)
    return list(talks.values())


def turns_take_turns(history: History) -> Iterator[str]:
    """A turn begins when the one before it has ended, and nobody overtakes."""
    for turns in conversations(history):
        for one, other in pairwise(turns):
            assert other.began_s is not None, "only turns that began are here"
            if one.over_s is None or one.over_s > other.began_s:
                yield f"{other.request} began while {one.request} of its conversation ran"
            if other.came_s < one.came_s:
                yield f"{one.request} overtook {other.request}, which had come before it"


def ends_are_kept(history: History) -> Iterator[str]:
    """Nobody hears of an end that a crash could undo."""
    for trace in history.traces.values():
        if trace.conversation is not None and trace.told_unkept and trace.reached:
            yield f"{trace.request} was told its end before it was kept"


def drops_are_told(history: History) -> Iterator[str]:
    """Pieces are missing exactly where that was said, and the newest are never among them."""
    for trace in history.traces.values():
        if not trace.dropped:
            continue
        if not history.drops:
            yield f"{trace.request} lost {trace.dropped} pieces that nobody allowed to drop"
        missing = _missing(trace)
        if missing is None:
            yield f"{trace.request} received what is not of its answer, or out of order"
        elif trace.saw_last_event and not trace.text.endswith(trace.oracle[-1]):
            yield f"{trace.request} lost its newest text"
        elif trace.saw_last_event and missing < trace.dropped:
            yield f"{trace.request} misses {missing} pieces and was told of {trace.dropped}"


def _missing(trace: Trace) -> int | None:
    """How many tokens of the answer were not received; None where others were."""
    oracle = iter(trace.oracle)
    received = [f"{word} " for word in trace.text.split()]
    if not all(token in oracle for token in received):
        return None
    return len(trace.oracle) - len(received)
