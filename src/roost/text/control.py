"""DECIDER: keep the text of users from becoming tokens that steer the model.

A rendered conversation mixes two kinds of text. The template's own has to be tokenised with special
tokens, or the model sees no turns; a user's must not be, or writing `<|im_end|>` ends one. After
rendering nobody can tell them apart, so every control token's text inside a message is cut
before: a marker character that occurs nowhere goes in after its first character, the template is
rendered with the marked texts, and the result is split at the markers. The pieces are tokenised
one by one. No piece holds a control token that a user wrote, and joined they are the unmarked text.

A message is also cut where it could complete a control token together with its neighbours: at a
start that is the tail of one, at an end that is the head of one.

This holds for templates that print messages whole or stripped of white space. One that looks for a
control token inside a message will not find it, which is the point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from roost.core.prefixes import common_length
from roost.errors import fail

_PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_TRIE_LEVELS = 24
TOKENS_MAX = 20_000
TOKEN_CHARS_MAX = 256


class ControlTokens:
    """The control tokens of one model, prepared for finding them; build it once and keep it.

    Raises `unsupported` above `TOKENS_MAX` tokens or `TOKEN_CHARS_MAX` characters in one: the list
    comes out of a model file, and nothing there may cost without a limit.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = tuple(sorted({token for token in tokens if token}))
        longest = max(map(len, self._tokens), default=0)
        if len(self._tokens) > TOKENS_MAX or longest > TOKEN_CHARS_MAX:
            raise fail("unsupported", "The model has too many or too long control tokens.")
        self._starts = _starts(self._tokens)
        self._single = frozenset(token for token in self._tokens if len(token) == 1)
        self._heads = frozenset(t[:n] for t in self._tokens for n in range(1, len(t)))
        self._tails = frozenset(t[n:] for t in self._tokens for n in range(1, len(t)))
        self._longest = longest
        self._inside = "\0".join(self._tokens)

    @property
    def has_escapes(self) -> bool:
        """Whether a token holds a backslash: then JSON may write one that its text did not hold."""
        return "\\" in self._inside

    def marker(self, texts: Sequence[str]) -> str:
        """Pick a private-use character that marks cuts in these texts, which are all there are.

        Raises `bad_request` where one holds a control token of a single character, which cannot be
        cut, or where all of them together use every private-use character.
        """
        if any(token in text for text in texts for token in self._single):
            raise fail(
                "bad_request",
                "A message holds a control token of the model that cannot be neutralised.",
                param="messages",
            )
        return _free_character((*texts, self._inside))

    def mark(self, text: str, marker: str) -> str:
        """Put the marker wherever the text has to be cut."""
        if self._starts is None or not text:
            return text
        inner = self._inner_cuts(text)
        marks = sorted({*inner, *self._edge_cuts(text, inner)})
        if not marks:
            return text
        bounds = (0, *marks, len(text))
        return marker.join(text[a:b] for a, b in pairwise(bounds))

    def _inner_cuts(self, text: str) -> list[int]:
        """Find the place after the first character of each occurrence, also of overlapping ones.

        Every occurrence begins at one of the starts found and has two characters or more, so each
        is cut, and a piece, being a part of the text, holds none.
        """
        return [found.end() for found in self._starts.finditer(text)] if self._starts else []

    def _edge_cuts(self, text: str, inner: Sequence[int]) -> Iterator[int]:
        """Find where the text, with or without white space around it, may join its neighbours."""
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        for left, right in {(0, len(text)), (start, end)}:
            if left < right:
                yield from self._joints(text[left:right], left, inner)

    def _joints(self, text: str, offset: int, inner: Sequence[int]) -> Iterator[int]:
        """Compare the ends of `text`, which begins at `offset`, up to the nearest inner cuts."""
        head = inner[0] - offset if inner else len(text)
        tail = offset + len(text) - inner[-1] if inner else len(text)
        whole = not inner and len(text) < self._longest and text in self._inside
        if whole or any(text[:n] in self._tails for n in self._lengths(head)):
            yield offset
        if whole or any(text[-n:] in self._heads for n in self._lengths(tail)):
            yield offset + len(text)

    def _lengths(self, limit: int) -> range:
        return range(1, min(self._longest - 1, limit) + 1)


def split(rendered: str, marker: str) -> tuple[str, ...]:
    """Cut rendered text at the markers; the pieces are non-empty and, joined, the unmarked text."""
    return tuple(piece for piece in rendered.split(marker) if piece)


def _starts(tokens: Sequence[str]) -> re.Pattern[str] | None:
    """Compile a pattern that matches the first character of every occurrence of a token.

    That character is consumed, so that the search can skip to it, and the rest is only looked at,
    so that overlapping occurrences are found as well.
    """
    groups = (
        f"{re.escape(first)}(?={_any_of([token[1:] for token in group])})"
        for first, group in groupby(tokens, itemgetter(0))
    )
    return re.compile("|".join(groups)) if tokens else None


def _any_of(rests: list[str], level: int = 0) -> str:
    """Write a pattern for any of these sorted strings as a trie.

    A plain alternation tries each of a model's thousands of reserved tokens at every `<`. Below
    `_TRIE_LEVELS` branches it has to do, because patterns may not nest without end.
    """
    if not rests[0]:
        return ""
    if level == _TRIE_LEVELS:
        return f"(?:{'|'.join(map(re.escape, rests))})"
    branches = []
    for _, group in groupby(rests, itemgetter(0)):
        same = list(group)
        # What the first and the last begin with, all that sort between them do.
        head = same[0][: common_length(same[0], same[-1])]
        below = _any_of([rest[len(head) :] for rest in same], level + 1)
        branches.append(re.escape(head) + below)
    return f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0]


def _free_character(texts: Sequence[str]) -> str:
    """Pick a private-use character that occurs in none of the texts.

    The first one is nearly always free; only a conversation that uses it is read character by
    character, once, so that no crafted text can make this slow.
    """
    first = chr(_PRIVATE_USE[0][0])
    if not any(first in text for text in texts):
        return first
    used: set[str] = set().union(*texts)
    every = chain.from_iterable(range(low, high + 1) for low, high in _PRIVATE_USE)
    free = next((c for c in map(chr, every) if c not in used), None)
    if free is None:
        raise fail("bad_request", "The messages use every private-use character.", param="messages")
    return free
