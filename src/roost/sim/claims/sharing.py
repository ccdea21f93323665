"""DECIDER: what must be true of beginnings that are computed once for several: one claim each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from roost.core.ids import NodeId
from roost.node.slots import common_tokens, pack
from roost.sim.claims.aside import Claim, by_session
from roost.sim.history import History
from roost.sim.node.aside import MOVE_WITHIN_S
from roost.sim.node_facts import Kept, Run

SEATED_WITHIN_S = 0.5
"""A slot that somebody leaves is free within this time."""


def nobody_is_held_for_long(history: History) -> Iterator[str]:
    """Who is ready has a slot after the wait that is allowed, and what has to be moved then."""
    limits = {kept.life: kept for kept in history.aside}
    for run in history.runs:
        kept = limits.get(run.life)
        if kept is None:
            continue
        moves_s = 2 * MOVE_WITHIN_S if kept.ram_bytes_max else 0.0
        allowed_s = kept.shared_wait_s + moves_s + SEATED_WITHIN_S
        waited_s = run.began_s - run.ready_s
        ill = history.troubled(run.node, run.ready_s, run.began_s)
        if waited_s > allowed_s and not ill:
            yield f"{run.request} waited {waited_s:.2f} s for a slot, {allowed_s:.2f} s may be"


def beginnings_are_computed_once(history: History) -> Iterator[str]:
    """Who is ready while another one computes the same beginning has not computed it again."""
    if history.troubles or any(move.ok is False and move.slot >= 0 for move in history.moves):
        return
    limits = {kept.life: kept for kept in history.aside}
    places: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in history.runs:
        places[run.life, run.runtime].append(run)
    for (life, _), runs in places.items():
        kept = limits.get(life, Kept(life))
        for run in runs if kept.ram_bytes_max else ():
            leaders = [one for one in runs if _computes(one, run, history)]
            shared = max((_common(one, run) for one in leaders), default=0)
            if shared >= kept.shared_tokens_min + run.cached and not _gave_up(run, kept):
                yield f"{run.request} computed {shared - run.cached} tokens of another one again"


def what_is_kept_is_not_computed_again(history: History) -> Iterator[str]:
    """What an idle slot or a file begins with has not been computed again for its own tenant.

    Where there is room for all that was put aside, and nobody is using the same beginning.
    """
    if history.troubles or any(move.ok is False and move.slot >= 0 for move in history.moves):
        return
    roomy = {kept.life: kept for kept in history.aside if 2 * kept.ram_bytes < kept.ram_bytes_max}
    for run in history.runs:
        kept = roomy.get(run.life)
        if kept is None or not kept.shared_wait_s:
            continue
        least = kept.shared_tokens_min + run.cached
        alike = [one for one in history.runs if _is_alike(one, run, least, history)]
        idle = [one for one in alike if one.ended_s is not None and one.ended_s < run.ready_s]
        is_used = any(one not in idle and one.began_s < run.began_s for one in alike)
        if idle and not is_used and not _gave_up(run, kept):
            yield f"{run.request} computed what {idle[-1].request} has left"


def _is_alike(one: Run, run: Run, least: int, history: History) -> bool:
    """Whether both begin with so many equal tokens, on one runtime, for one tenant."""
    place = (one.life, one.runtime) == (run.life, run.runtime) and one is not run
    if not place or _tenant(one, history) != _tenant(run, history):
        return False
    return _is_whole(one, history) and _common(one, run) >= least


def _is_whole(one: Run, history: History) -> bool:
    trace = history.traces.get(one.request)
    return trace is not None and [kind for kind, _ in trace.endings] == ["complete"]


def _computes(one: Run, run: Run, history: History) -> bool:
    """Whether `one` computed its prompt when `run` became ready, and nobody took it away."""
    if one.computed_s is None or not one.began_s < run.ready_s < one.computed_s:
        return False
    return _is_whole(one, history) and _tenant(one, history) == _tenant(run, history)


def _tenant(run: Run, history: History) -> str:
    trace = history.traces.get(run.request)
    return trace.tenant if trace is not None else run.request


def _common(one: Run, other: Run) -> int:
    return common_tokens(pack(one.prompt), pack(other.prompt))


def _gave_up(run: Run, kept: Kept) -> bool:
    return run.began_s - run.ready_s >= kept.shared_wait_s


def copies_are_read_whole(history: History) -> Iterator[str]:
    """A copy is read after it was written, and its file is there until the last has read it.

    Or until its runtime has died, which reads nothing any more.
    """
    for (life, session), moves in by_session(history).items():
        first = moves[0]
        gone_s = [move.began_s for move in moves if move.kind == "forget"]
        for move in moves[1:]:
            if move.kind != "lend":
                continue
            if first.ended_s is None or move.began_s < first.ended_s:
                yield f"{life} copy {session} was read before it was written"
            until_s = history.ended_s if move.ended_s is None else move.ended_s
            ill = history.troubled(NodeId(life.partition("/")[0]), move.began_s, until_s)
            if any(at_s < until_s for at_s in gone_s) and not ill:
                yield f"{life} copy {session} was removed while it was read"


CLAIMS: tuple[Claim, ...] = (
    (
        "nobody_is_held_for_long",
        "Who needs a slot waits no longer for another one's prompt than is allowed.",
        nobody_is_held_for_long,
    ),
    (
        "beginnings_are_computed_once",
        "Nobody computes what another one of its tenant was computing when it came.",
        beginnings_are_computed_once,
    ),
    (
        "what_is_kept_is_not_computed_again",
        "Nobody computes what an idle slot or a file of its tenant begins with.",
        what_is_kept_is_not_computed_again,
    ),
    (
        "copies_are_read_whole",
        "A slot is filled from a copy that is whole, and stays until that has been done.",
        copies_are_read_whole,
    ),
)
"""Name, claim, and how to find what breaks it."""
