"""DECIDER: what must be true of conversations that are put aside: one claim each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from roost.core.ids import SessionId
from roost.sim.history import History
from roost.sim.node_facts import Move, Run
from roost.sim.request_facts import Trace


def idle_slots_are_moved(history: History) -> Iterator[str]:
    """While a slot's content is written or read nothing runs on it."""
    runs: defaultdict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for run in history.runs:
        runs[run.life, run.runtime, run.slot].append(run)
    for move in history.moves:
        if move.slot < 0:
            continue
        until_s = history.ended_s if move.ended_s is None else move.ended_s
        for run in runs[move.life, move.runtime, move.slot]:
            if run.began_s < until_s and (run.ended_s is None or run.ended_s > move.began_s):
                yield f"{move.life} slot {move.slot}: {move.kind} while {run.request} ran"


def one_place_each(history: History) -> Iterator[str]:
    """A session is brought back once, after it was put aside, and its file is gone after that.

    Others may be lent a copy before and as long as its file is there, which is another claim.
    """
    for (life, session), moves in by_session(history).items():
        over = False
        for index, move in enumerate(moves if moves[0].kind != "copy" else ()):
            if (index == 0) != (move.kind == "park"):
                yield f"{life} session {session}: {move.kind} is move {index + 1} of it"
            if over and move.kind == "restore":
                yield f"{life} session {session} was restored after it was over"
            back = move.kind == "restore" and move.ok
            over = over or move.kind == "forget" or back
            gone = any(later.kind == "forget" for later in moves[index + 1 :])
            # A runtime that dies takes its files with it, without a word about each.
            if back and not gone and not history.troubles:
                yield f"{life} session {session} is in a slot again, and its file is kept"


def by_session(history: History) -> dict[tuple[str, SessionId], list[Move]]:
    """What was done with each session of each life, in order."""
    found: defaultdict[tuple[str, SessionId], list[Move]] = defaultdict(list)
    for move in history.moves:
        found[move.life, move.session].append(move)
    return found


def kept_within_limits(history: History) -> Iterator[str]:
    """Files in memory, on disk and in all are never more than the settings say."""
    for kept in history.aside:
        for name in ("ram_bytes", "disk_bytes", "files"):
            had, may = getattr(kept, name), getattr(kept, f"{name}_max")
            if had > may:
                yield f"{kept.life} kept {had} {name}, {may} may be"


def kept_as_told(history: History) -> Iterator[str]:
    """At rest the files are what the node says, and none is in transit."""
    for kept in history.aside:
        if kept.told is not None and kept.told != kept.at_rest:
            yield f"{kept.life} tells {kept.told} bytes in memory and on disk, has {kept.at_rest}"


def own_conversations_come_back(history: History) -> Iterator[str]:
    """What is brought back into a slot runs for the tenant whose it was."""
    holds: dict[tuple[str, str, int], str] = {}
    owners: dict[tuple[str, SessionId], str] = {}
    brought: set[tuple[str, str, int]] = set()
    for _, _, event in sorted(_contents(history), key=lambda one: one[:2]):
        place = event.life, event.runtime, event.slot
        whose = holds.get(place, "")
        if isinstance(event, Run):
            mine = _tenant(history, event)
            if event.reuse and place in brought and whose and mine != whose:
                yield f"{event.request} was given what belonged to {whose}"
            holds[place] = mine
            brought.discard(place)
        elif event.kind in {"park", "copy"}:
            owners[event.life, event.session] = whose
        else:
            holds[place] = owners.get((event.life, event.session), "")
            brought.add(place)


def _contents(history: History) -> Iterator[tuple[float, int, Run | Move]]:
    """When slots got what they hold, and when that was written; of one moment, in that order."""
    for run in history.runs:
        yield run.began_s, 1, run
    for move in history.moves:
        if move.kind in {"park", "copy"}:
            yield move.began_s, 2, move
        elif move.kind in {"restore", "lend"} and move.ok and move.ended_s is not None:
            yield move.ended_s, 0, move


def _tenant(history: History, run: Run | None) -> str:
    trace = history.traces.get(run.request) if run is not None else None
    return trace.tenant if trace is not None else ""


def context_survives(history: History) -> Iterator[str]:
    """With room for all and nothing failing, each next turn at home computes only what is new."""
    if history.troubles or not history.moves or not _all_well(history):
        return
    for trace in history.traces.values():
        before = history.traces.get(trace.previous) if trace.previous is not None else None
        if before is None or not trace.opened or not _both_whole(before, trace):
            continue
        if before.opened[0].node == trace.opened[0].node:
            cached, held = trace.cached_tokens or 0, before.held_tokens
            lost = cached < held and held >= 2 * history.aside[0].tokens_min
            if lost and not _is_being_written(history, before, trace):
                yield f"{trace.request} found {cached} of {held} tokens of the turn before"


def _is_being_written(history: History, before: Trace, trace: Trace) -> bool:
    """Whether what the turn before left was on its way into a file when the next one came."""
    runs = {run.request: run for run in history.runs}
    left, next_ = runs[before.request], runs[trace.request]
    return any(
        move.kind == "park"
        and (move.life, move.runtime, move.slot) == (left.life, left.runtime, left.slot)
        and move.began_s <= next_.began_s
        and (move.ended_s or history.ended_s) >= next_.ready_s
        for move in history.moves
    )


def _both_whole(before: Trace, trace: Trace) -> bool:
    ended = [kind for one in (before, trace) for kind, _ in one.endings]
    return ended == ["complete"] * 2


def _all_well(history: History) -> bool:
    """Whether no move failed and nothing was forgotten for want of room."""
    failed = any(move.kind != "forget" and not move.ok for move in history.moves)
    ends = [{move.kind for move in moves} for moves in by_session(history).values()]
    return not failed and not any(kinds == {"park", "forget"} for kinds in ends)


Claim = tuple[str, str, Callable[[History], Iterator[str]]]
CLAIMS: tuple[Claim, ...] = (
    (
        "idle_slots_are_moved",
        "Nothing runs on a slot whose content is being written or read.",
        idle_slots_are_moved,
    ),
    (
        "one_place_each",
        "What was put aside is brought back at most once, and never after it was forgotten.",
        one_place_each,
    ),
    ("kept_within_limits", "What is put aside stays within its limits.", kept_within_limits),
    ("kept_as_told", "At rest a node has put aside what it says, to the byte.", kept_as_told),
    (
        "own_conversations_come_back",
        "What was put aside comes back for its own tenant alone.",
        own_conversations_come_back,
    ),
    (
        "context_survives",
        "With room for all, a next turn at home computes only what is new.",
        context_survives,
    ),
)
"""Name, claim, and how to find what breaks it."""
