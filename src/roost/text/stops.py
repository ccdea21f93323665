"""MACHINE: find stop strings in text that arrives in pieces, and never let a part of one through.

An Aho-Corasick automaton, so the work is linear in the text however the stop strings overlap. The
stop string that is complete first wins, and of several that are complete at once the longest; that
choice depends on the text alone and never on where the pieces end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable


class _State:
    """A prefix of a stop string: `depth` characters long, `hit` is the stop string ending here."""

    __slots__ = ("depth", "fall", "hit", "next")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.next: dict[str, _State] = {}
        self.fall: _State | None = None
        self.hit: str | None = None


def _build(stops: Iterable[str]) -> _State:
    root = _State(0)
    for stop in stops:
        state = root
        for char in stop:
            state = state.next.setdefault(char, _State(state.depth + 1))
        state.hit = stop
    _link(root)
    return root


def _link(root: _State) -> None:
    """Give every state the longest proper suffix of it that also begins a stop string."""
    waiting = deque([root])
    while waiting:
        state = waiting.popleft()
        for char, child in state.next.items():
            child.fall = _step(root, state.fall, char) if state.fall else root
            # A state of its own hit is deeper, so its hit is the longer one and stays.
            child.hit = child.hit or child.fall.hit
            waiting.append(child)


def _step(root: _State, state: _State | None, char: str) -> _State:
    """Follow `char` from `state`, falling back to shorter prefixes until one continues with it."""
    while state is not None:
        if (found := state.next.get(char)) is not None:
            return found
        state = state.fall
    return root


class StopFilter:
    """Passes text on until a stop string is complete; without stop strings it holds nothing back.

    `stops` are non-empty strings. Memory is proportional to their total length.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        stops = tuple(stops)
        if not all(stops):
            raise ValueError("a stop string is empty")
        self._root = self._state = _build(stops)
        self._held = ""
        self._hit: str | None = None
        firsts = "".join(sorted({re.escape(stop[0]) for stop in stops}))
        self._first = re.compile(f"[{firsts}]") if stops else None

    @property
    def held(self) -> str:
        """The end of the text so far that may be the beginning of a stop string."""
        return self._held

    def push(self, text: str) -> tuple[str, str | None]:
        """Take a piece; return the text that is ruled out as part of a stop string, and the hit.

        After a hit everything that comes is swallowed and the same hit is returned.
        """
        if self._hit is not None:
            return "", self._hit
        if self._first is None:
            return text, None
        end = self._scan(text)
        text = self._held + text[:end]
        if (hit := self._state.hit) is not None:
            self._held, self._hit = "", hit
            return text[: len(text) - len(hit)], hit
        cut = len(text) - self._state.depth
        self._held = text[cut:]
        return text[:cut], None

    def finish(self) -> str:
        """Return what is still held: the text is over, so it begins no stop string."""
        rest, self._held, self._state = self._held, "", self._root
        return rest

    def _scan(self, text: str) -> int:
        """Move through `text` up to the first hit; return how many characters were read."""
        root, state, at = self._root, self._state, 0
        while at < len(text):
            if state is root and (at := self._next_first(text, at)) == len(text):
                break
            state = _step(root, state, text[at])
            at += 1
            if state.hit is not None:
                break
        self._state = state
        return at

    def _next_first(self, text: str, start: int) -> int:
        """Find the next character that begins a stop string; most text is skipped this way."""
        found = self._first.search(text, start) if self._first else None
        return found.start() if found else len(text)
