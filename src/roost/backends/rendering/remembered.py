"""MACHINE: tokens of what a prompt is made of, remembered for whoever has sent it before.

A conversation comes with every turn anew, longer by a message or two, and a tokeniser reads all of
it. Tokenisers cut a text at control tokens before they do anything else, so what lies between the
control tokens of a template has the same tokens wherever it stands: a message has to be read once.

What is remembered is remembered of its owner, and told to nobody else (`latest`).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import TypeAlias

from roost.backends.rendering.latest import Latest

Unit: TypeAlias = tuple[str, ...]
"""Texts that follow each other and are tokenised one by one; only the first begins with a mark."""

Key: TypeAlias = tuple[str, bytes]
"""An owner, and a digest of a unit."""

MAX_BYTES = 16 * 1024 * 1024
ENTRY_BYTES = 200
"""About what an entry takes beside its tokens."""


class Remembered:
    """Units and their tokens, the latest used of them; `marks` are control tokens and their ids."""

    def __init__(self, marks: Mapping[str, int], max_bytes: int = MAX_BYTES) -> None:
        self._ids = frozenset(marks.values())
        self._cuts = re.compile("|".join(f"(?={re.escape(mark)})" for mark in marks))
        self._known: Latest[array[int]] = Latest(max_bytes, _size)

    def recall(self, owner: str, pieces: Sequence[str]) -> Recall:
        """Look up what is known of a prompt of this owner, in the pieces that a renderer gives."""
        units = list(self._units(pieces))
        keys = [(owner, _digest(unit)) for unit in units]
        return Recall(self, units, keys, [self._known.get(*key) for key in keys])

    def forget(self, owner: str) -> None:
        """Remember nothing of this owner."""
        self._known.forget(owner)

    def learn(self, keys: Iterable[Key], found: Iterable[array[int]]) -> None:
        """Remember the tokens of units; the longest unused give way."""
        for key, tokens in zip(keys, found, strict=True):
            self._known.keep(*key, tokens)

    def parted(self, tokens: Sequence[int], units: Sequence[Unit]) -> list[array[int]] | None:
        """Part the tokens of several units; None where it cannot be told whose they are."""
        starts = [at for at, token in enumerate(tokens) if token in self._ids]
        if not self._begins_with_mark(units[0]):
            starts.insert(0, 0)
        if len(starts) != len(units) or starts[0]:
            return None
        ends = [*starts[1:], len(tokens)]
        return [array("I", tokens[a:b]) for a, b in zip(starts, ends, strict=True)]

    def _units(self, pieces: Sequence[str]) -> Iterator[Unit]:
        unit: list[str] = []
        for part in chain.from_iterable(map(self._cuts.split, pieces)):
            if unit and self._cuts.match(part):
                yield tuple(unit)
                unit = []
            if part:
                unit.append(part)
        if unit:
            yield tuple(unit)

    def _begins_with_mark(self, unit: Unit) -> bool:
        return self._cuts.match(unit[0]) is not None


class Recall:
    """One prompt: what is `missing`, and with it the whole."""

    def __init__(
        self,
        remembered: Remembered,
        units: list[Unit],
        keys: list[Key],
        known: list[array[int] | None],
    ) -> None:
        self._remembered = remembered
        self._units = units
        self._keys = keys
        self._known = known
        self._open = [at for at, tokens in enumerate(known) if tokens is None]

    @property
    def missing(self) -> list[str]:
        """Texts that have to be tokenised one by one, to be joined."""
        return [text for at in self._open for text in self._units[at]]

    def whole(self, tokens: Sequence[int]) -> tuple[int, ...] | None:
        """Give all tokens, with those of what was missing; None where nobody knows their places."""
        if self._open:
            units = [self._units[at] for at in self._open]
            found = self._remembered.parted(tokens, units)
            if found is None:
                return None
            self._remembered.learn([self._keys[at] for at in self._open], found)
            for at, part in zip(self._open, found, strict=True):
                self._known[at] = part
        return tuple(chain.from_iterable(part for part in self._known if part is not None))


def marks_in(template: str, control_tokens: Sequence[str]) -> list[str]:
    """Find the control tokens that a template writes, and that are no part of others."""
    written = {token for token in control_tokens if token and token in template}
    return sorted(
        mark for mark in written if not any(mark in one for one in control_tokens if one != mark)
    )


def _digest(unit: Unit) -> bytes:
    digest = blake2b(digest_size=16)
    for text in unit:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def _size(tokens: array[int]) -> int:
    return ENTRY_BYTES + len(tokens) * tokens.itemsize
