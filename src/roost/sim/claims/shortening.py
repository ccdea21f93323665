"""DECIDER: claims about pasts that were made shorter; see `checkers`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from roost.fleet.conversations.compacting import ASKED, MARK
from roost.sim.claims.homes import is_compacted
from roost.sim.claims.talks import conversations
from roost.sim.history import History
from roost.sim.request_facts import Shortened, Trace

WORDS_BESIDE = 2
"""Roles that the simulated template puts around a turn's own words."""


def conversations_never_fork(history: History) -> Iterator[str]:
    """A turn goes on from all that was said, or from the last summary and what it leaves."""
    for turns in conversations(history):
        said: tuple[str, ...] = ()
        for trace in turns:
            made = _last(history, trace)
            expected = said if made is None else given(said, made)
            if trace.past and trace.past != (*expected, trace.asked):
                yield f"{trace.request} went on from {len(trace.past) - 1} messages: not its past"
                break
            if trace.stays:
                said = (*said, trace.asked, trace.reached)


def given(said: tuple[str, ...], made: Shortened) -> tuple[str, ...]:
    """What a model gets of what was said, with this summary of it."""
    rest = said[2 * made.covers :]
    return (ASKED, MARK + made.text, *rest) if made.text else rest


def words_are_never_lost(history: History) -> Iterator[str]:
    """Whatever stands for it, everything that was said and read is kept."""
    short = {made.conversation for made in history.shortened}
    for turns in conversations(history):
        if turns[0].conversation not in short:
            continue
        said = tuple(
            words
            for trace in turns
            if trace.stays and trace.over_s is not None
            for words in (trace.asked, trace.reached)
        )
        key = turns[0].conversation or b""
        if history.words.get(key, ()) != said:
            yield f"of conversation {key.hex()} {len(history.words.get(key, ()))} messages are kept"


def nobody_talks_meanwhile(history: History) -> Iterator[str]:
    """While a past is made shorter no turn of it is on any node, and nobody else shortens it."""
    for made in history.shortened:
        for trace in history.traces.values():
            if trace.conversation == made.conversation and _ran_beside(history, trace, made):
                yield f"{made.job} made the past of {trace.request} shorter while that ran"
    for one, other in _neighbours(history):
        if other.began_s < one.ended_s and other.job != one.job:
            yield f"{other.job} and {one.job} made one past shorter at once"


def _ran_beside(history: History, trace: Trace, made: Shortened) -> bool:
    """Whether a turn was on a node while its past was made shorter."""
    spans = (
        (opened.at_s, history.ended_s if opened.over_s is None else opened.over_s)
        for opened in trace.opened
    )
    return any(since < made.ended_s and until > made.began_s for since, until in spans)


def compactions_keep_their_distance(history: History) -> Iterator[str]:
    """What is compacted ahead of time was left alone for a while after the last time."""
    least_s = history.compaction.debounce_s
    for one, other in _neighbours(history):
        if other.trigger == "proactive" and other.began_s < one.ended_s + least_s:
            yield f"{other.job} compacted again {other.began_s - one.ended_s:.1f} s after {one.job}"


def due_pasts_are_compacted(history: History) -> Iterator[str]:
    """A past that has reached its share of the budget, by real counts, is not sent again whole."""
    rules = history.compaction
    if rules.summariser == "off":
        return
    due = int(rules.threshold * min(rules.budget_tokens, history.ctx))
    for turns in conversations(history):
        for before, trace in pairwise(turns):
            tokens = before.held_tokens + before.heard
            if not before.stays or not trace.past or tokens < due:
                continue
            if (len(trace.past) - 1) // 2 <= rules.tail_pairs + 1:
                continue
            if not _spared(history, trace):
                yield f"{trace.request} was sent {tokens} tokens of a past once more, {due} are due"


def long_talks_go_on(history: History) -> Iterator[str]:
    """A turn is too long only where it would be so alone."""
    for trace in history.traces.values():
        if trace.conversation is None or history.compaction.summariser == "off":
            continue
        alone = len(trace.asked.split()) + WORDS_BESIDE
        for _, failure in trace.endings:
            if failure is None or failure.reason != "context_length_exceeded":
                continue
            if alone < history.ctx:
                yield f"{trace.request} was too long, and its own words are {alone} tokens"


def shortenings_are_told(history: History) -> Iterator[str]:
    """The first turn that goes on from a summary says so, and no other one does."""
    for turns in conversations(history):
        used: Shortened | None = None
        for trace in turns:
            made = _last(history, trace)
            is_first = made is not None and made is not used
            if trace.opened and is_compacted(trace) != is_first:
                yield f"{trace.request} was told {trace.opened[-1].label}, compacted: {is_first}"
            if trace.stays:
                used = made


def _last(history: History, trace: Trace) -> Shortened | None:
    """The last summary of its conversation that this turn's past was put together from."""
    mine = (
        made
        for made in reversed(history.shortened[: trace.summaries])
        if made.conversation == trace.conversation
        and (made.job == trace.request or not made.undone)
    )
    return next(mine, None)


def _spared(history: History, trace: Trace) -> bool:
    """Whether a past was compacted for this turn, or so lately that it is left alone."""
    began_s = trace.began_s or 0.0
    since_s = began_s - history.compaction.debounce_s
    return any(
        made.conversation == trace.conversation
        and (made.job == trace.request or since_s <= made.ended_s <= began_s)
        for made in history.shortened
    )


def _neighbours(history: History) -> Iterator[tuple[Shortened, Shortened]]:
    """Give each compaction with the next one of the same conversation."""
    by_talk: dict[bytes, list[Shortened]] = defaultdict(list)
    for made in history.shortened:
        if not made.undone:
            by_talk[made.conversation].append(made)
    for all_of_one in by_talk.values():
        yield from pairwise(all_of_one)


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "conversations_never_fork",
        "A turn's past is all that was said and reached its client, or a summary and the rest.",
        conversations_never_fork,
    ),
    (
        "words_are_never_lost",
        "Whatever is summarised, and whatever fails, every word that was said and read is kept.",
        words_are_never_lost,
    ),
    (
        "nobody_talks_meanwhile",
        "While a past is made shorter, no turn of its conversation runs, and no second does so.",
        nobody_talks_meanwhile,
    ),
    (
        "compactions_keep_their_distance",
        "Ahead of time nothing is compacted twice within the debounce.",
        compactions_keep_their_distance,
    ),
    (
        "due_pasts_are_compacted",
        "A past at its share of the budget, decoded tokens included, is compacted before a turn.",
        due_pasts_are_compacted,
    ),
    (
        "shortenings_are_told",
        "The first turn that goes on from a summary is told so, and nobody else.",
        shortenings_are_told,
    ),
    (
        "long_talks_go_on",
        "No turn is refused as too long that would fit alone.",
        long_talks_go_on,
    ),
)
"""Name, claim, and how to find what breaks it."""
