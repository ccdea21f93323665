"""DECIDER: the gist of a talk: those of its sentences that nobody could guess again.

    read ──▶ weigh ──▶ take the heaviest that fit ──▶ in the order in which they were said

A sentence weighs by the names and numbers in it, by whether its speaker speaks of himself, and by
who that is: what a user says of himself is known nowhere else. A sentence that only says again
what a heavier one has said is left out. Equal talks have equal gists, in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from roost.text.sentences import Sentence, facts_of, read, words

Speaker = Literal["user", "assistant", ""]
LABELS: dict[Speaker, str] = {"user": "User: ", "assistant": "Assistant: ", "": ""}
FACTS_THAT_COUNT = 4
"""More names and numbers in one sentence make a list, not a heavier fact."""
NGRAM_WORDS = 4
DISTINCT_LEAST = 0.7
"""Of the sequences of four words in a text that does not repeat itself, so many are different."""
JUDGED_WORDS = 24
"""Shorter texts are not judged by what they repeat."""


class Remark(msgspec.Struct, frozen=True):
    """What somebody said at one time; "" is nobody in particular, as in somebody's summary."""

    speaker: Speaker
    text: str


class _Weighed(msgspec.Struct, frozen=True):
    place: int
    speaker: Speaker
    sentence: Sentence
    weight: int


def gist(talk: Iterable[Remark], max_bytes: int) -> str:
    """Return the gist of a talk in at most so many bytes of UTF-8; "" where nothing fits."""
    weighed = _weigh(talk)
    telling = [one for one in weighed if one.weight > 0] or weighed
    return _written(_fitting(telling, max_bytes))


def remarks(summary: str) -> list[Remark]:
    """Read a gist again, line by line; a line without a speaker is nobody's."""
    found: list[Remark] = []
    for line in summary.split("\n"):
        speaker: Speaker = "user" if line.startswith(LABELS["user"]) else ""
        speaker = "assistant" if line.startswith(LABELS["assistant"]) else speaker
        if text := line.removeprefix(LABELS[speaker]).strip():
            found.append(Remark(speaker, text))
    return found


def script(talk: Iterable[Remark]) -> str:
    """Write a talk as lines, each with its speaker, as a summary's reader gets it."""
    return "\n".join(f"{LABELS[one.speaker]}{one.text.strip()}" for one in talk)


def repeats_itself(text: str) -> bool:
    """Whether a text goes in circles, as small models do."""
    said = words(text)
    if len(said) < JUDGED_WORDS:
        return False
    grams = [tuple(said[at : at + NGRAM_WORDS]) for at in range(len(said) - NGRAM_WORDS + 1)]
    return len(set(grams)) < DISTINCT_LEAST * len(grams)


def kept_share(text: str, facts: frozenset[str]) -> float:
    """How many of these names and numbers a text still has, 0..1; 1 where there are none."""
    if not facts:
        return 1.0
    folded = text.casefold()
    said = frozenset(words(text)) | facts_of(text)
    return sum(fact in said or (" " in fact and fact in folded) for fact in facts) / len(facts)


def clipped(text: str, max_bytes: int) -> str:
    """Keep the first sentences of a text that fit into so many bytes."""
    kept: list[str] = []
    room = max_bytes
    for line in text.split("\n"):
        taken: list[str] = []
        for one in read(line):
            room -= len(one.text.encode()) + 1
            if room + 1 < 0:
                break
            taken.append(one.text)
        if taken:
            kept.append(" ".join(taken))
        if room + 1 < 0:
            break
    return "\n".join(kept)


def _weigh(talk: Iterable[Remark]) -> list[_Weighed]:
    weighed: list[_Weighed] = []
    for remark in talk:
        for sentence in read(remark.text):
            weight = _weight(sentence, remark.speaker)
            weighed.append(_Weighed(len(weighed), remark.speaker, sentence, weight))
    return weighed


def _weight(sentence: Sentence, speaker: Speaker) -> int:
    """Weigh one sentence; what is 0 or less tells nothing that a model would not say again."""
    facts = min(len(sentence.facts), FACTS_THAT_COUNT)
    ours = speaker != "assistant"
    own = 3 if sentence.own and ours else 0
    # Where no capital shows a name, whatever a user states may hold one.
    own = own or (3 if sentence.unmarked and ours else 0)
    asked = 4 if sentence.asks else 0
    return 2 * facts + own + (1 if ours and (facts or own) else 0) - asked


def _fitting(telling: Sequence[_Weighed], max_bytes: int) -> list[_Weighed]:
    """Take the heaviest, of equals the latest, since it may correct the others."""
    taken: list[_Weighed] = []
    said: set[str] = set()
    texts: set[str] = set()
    for one in sorted(telling, key=lambda one: (-one.weight, -one.place)):
        facts, text = one.sentence.facts, one.sentence.text.casefold()
        if text in texts or (one.speaker == "assistant" and facts and facts <= said):
            continue
        if _size([*taken, one]) <= max_bytes:
            taken.append(one)
            said |= facts
            texts.add(text)
    return taken


def _written(taken: Iterable[_Weighed]) -> str:
    ordered = sorted(taken, key=lambda one: one.place)
    lines = (
        LABELS[speaker] + " ".join(one.sentence.text for one in group)
        for speaker, group in groupby(ordered, key=lambda one: one.speaker)
    )
    return "\n".join(lines)


def _size(taken: Sequence[_Weighed]) -> int:
    return len(_written(taken).encode())
