"""DECIDER: claims about owners and losses: who runs what, and how cut answers go on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from roost.core.ids import NodeId
from roost.sim.history import History
from roost.sim.node_facts import Ownership
from roost.sim.request_facts import Opened, Trace

FENCED_WITHIN_S = 0.5


def one_owner(history: History) -> Iterator[str]:
    """Epochs of one key only rise, and on a node a newer one ends what an older one has there."""
    for trace in history.traces.values():
        for one, other in pairwise(trace.opened):
            if other.epoch <= one.epoch:
                yield f"{trace.request} attempt {other.attempt} is no newer than {one.attempt}"
    there: defaultdict[tuple[NodeId, str], list[Ownership]] = defaultdict(list)
    for owner in history.owners:
        there[owner.node, owner.fence.key].append(owner)
    for (node, key), owners in there.items():
        for older, newer in pairwise(owners):
            if newer.fence.epoch <= older.fence.epoch:
                yield f"{node} ran {key} for an owner that was not the newest"
            until_s = history.ended_s if older.ended_s is None else older.ended_s
            if until_s > newer.began_s + FENCED_WITHIN_S:
                yield f"{node} ran {key} {until_s - newer.began_s:.1f} s beside a newer owner"


def replays_go_on(history: History) -> Iterator[str]:
    """A dispatch behind the first token goes on where the answer is, and nothing else does."""
    for trace in history.traces.values():
        begun_on = ""
        for opened in trace.opened:
            begun_on = begun_on if opened.resumes_at else opened.digest
            where = f"{trace.request} attempt {opened.attempt}"
            if opened.resumes_at != opened.heard:
                yield f"{where} goes on at {opened.resumes_at}, {opened.heard} tokens had come"
            if not opened.resumes_at:
                continue
            if not trace.replays or opened.resumes_at > history.replay_max_tokens:
                yield f"{where} goes on with {opened.resumes_at} tokens, which it may not"
            if opened.digest != begun_on:
                yield f"{where} goes on with other weights on {opened.node}"


def replays_are_told(history: History) -> Iterator[str]:
    """Whoever reads a stream to its end was told of each node that went on, and of no other."""
    for trace in history.traces.values():
        if not trace.saw_last_event or not trace.streamed or trace.dropped:
            continue
        went_on = sum(opened.started for opened in trace.opened if opened.resumes_at)
        if trace.marks != went_on:
            yield f"{trace.request} was told of {trace.marks} that went on, and {went_on} did"


def usage_adds_up(history: History) -> Iterator[str]:
    """What a client is told that it took is what it was sent."""
    for trace in history.traces.values():
        told = trace.told
        if told is None:
            continue
        # What was dropped has been computed: it is part of what the answer took.
        sent = len(trace.oracle) if trace.dropped else len(trace.text.split())
        # Vectors are no tokens.
        sent *= trace.mode == "generate"
        if (told.prompt_tokens, told.completion_tokens) != (trace.prompt_tokens, sent):
            yield (
                f"{trace.request} was told {told.prompt_tokens} + {told.completion_tokens} tokens, "
                f"and had {trace.prompt_tokens} + {sent}"
            )


def shorter_first(history: History) -> Iterator[str]:
    """Of the answers that one node's death has cut, the shorter are gone on with no later."""
    cut: defaultdict[tuple[NodeId, float, str], list[tuple[Trace, Opened]]] = defaultdict(list)
    for trace in history.traces.values():
        for lost, again in pairwise(trace.opened):
            # A node's death is one event; runtimes are heard of stream by stream.
            if again.resumes_at and lost.lost_after_s is not None and lost.over_s is not None:
                cut[lost.node, lost.over_s, trace.model].append((trace, again))
    for together in cut.values():
        together.sort(key=lambda one: one[0].prompt_tokens + one[1].resumes_at)
        for (short, sooner), (long, later) in pairwise(together):
            if sooner.at_s > later.at_s:
                yield f"{long.request} was gone on with before {short.request}, which is shorter"


CLAIMS: tuple[tuple[str, str, Callable[[History], Iterator[str]]], ...] = (
    (
        "one_owner",
        "A node runs a key for its newest owner alone, and every attempt is a newer one.",
        one_owner,
    ),
    (
        "replays_go_on",
        "An answer goes on only if asked to, at exactly n+1, on the same weights, up to its limit.",
        replays_go_on,
    ),
    (
        "replays_are_told",
        "A stream has one mark for every node that went on with it, none for one that did not.",
        replays_are_told,
    ),
    (
        "usage_adds_up",
        "However many attempts an answer took, its usage counts prompt and answer once.",
        usage_adds_up,
    ),
    (
        "shorter_first",
        "After a node's death the shorter answers are gone on with first.",
        shorter_first,
    ),
)
"""Name, claim, and how to find what breaks it."""
