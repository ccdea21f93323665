"""MACHINE: text from a runtime becomes deltas: stop strings cut, counts exact, nothing lost.

The stop strings are looked for here and not by the engine: llama.cpp loses text that it held back
because it might begin a stop string when the answer ends at its limit.
"""

from __future__ import annotations

from collections import deque

from roost.core.events import Delta, TokenChoice
from roost.text.stops import StopFilter


class Deltas:
    """One answer on its way out. The tokens of all deltas together are `tokens`."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.tokens = 0
        self.stop_text: str | None = None
        self._filter = StopFilter(stops)
        self._told_tokens = 0
        self._taken_chars = 0
        self._given_chars = 0
        self._choices: deque[tuple[int, TokenChoice]] = deque()

    def push(self, text: str, tokens: int, choices: tuple[TokenChoice, ...] = ()) -> Delta | None:
        """Take text and the number of tokens behind it; return what may go out, if anything may.

        Once `stop_text` is set the answer is over: `finish` gives the counts that are left.
        """
        self.tokens += tokens
        self._taken_chars += len(text)
        self._choices.extend((self._taken_chars, choice) for choice in choices)
        out, self.stop_text = self._filter.push(text)
        return self._delta(out) if out else None

    def finish(self) -> Delta | None:
        """End the answer; return text still held and tokens not yet told, if there are any.

        A token without text, such as the one that ends a turn, is told in a delta without text.
        """
        out = self._filter.finish()
        return self._delta(out) if out or self.tokens > self._told_tokens else None

    def _delta(self, text: str) -> Delta:
        self._given_chars += len(text)
        tokens, self._told_tokens = self.tokens - self._told_tokens, self.tokens
        return Delta(text, tokens, tuple(self._released()))

    def _released(self) -> list[TokenChoice]:
        """Give the choices whose whole text is out: a part of a stop string would leak here too."""
        released = []
        while self._choices and self._choices[0][0] <= self._given_chars:
            released.append(self._choices.popleft()[1])
        return released
