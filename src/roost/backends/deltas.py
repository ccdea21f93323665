"""MACHINE: text from a runtime becomes deltas: stop strings cut, counts exact, nothing lost.

`Deltas` lets text out as soon as it can. `TokenDeltas` does so a whole token at a time, with its
id, so that an answer that is cut can be gone on with exactly where its text ends.

The stop strings are looked for here and not by the engine: llama.cpp loses text that it held back
because it might begin a stop string when the answer ends at its limit.
"""

from __future__ import annotations

from collections import deque

import msgspec

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

    def push(
        self,
        text: str,
        tokens: int,
        choices: tuple[TokenChoice, ...] = (),
        ids: tuple[int, ...] = (),
    ) -> Delta | None:
        """Take text and the number of tokens behind it; return what may go out, if anything may.

        The ids of the tokens are of no use here. Once `stop_text` is set the answer is over:
        `finish` gives the counts that are left.
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


class _Group(msgspec.Struct):
    """Tokens whose text is whole together: a character's, say; it ends after `end` characters."""

    end: int = 0
    tokens: int = 0
    ids: tuple[int, ...] = ()
    choices: tuple[TokenChoice, ...] = ()


class TokenDeltas:
    """The same for a request that asks for ids: no delta ends within a token.

    What has gone out never begins a stop string, so one that spans the seam is still found by
    whoever goes on.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.tokens = 0
        self.stop_text: str | None = None
        self._filter = StopFilter(stops)
        self._told_tokens = 0
        self._taken_chars = 0
        self._given_chars = 0
        self._clear = ""
        self._open = _Group()
        self._groups: deque[_Group] = deque()

    def push(
        self,
        text: str,
        tokens: int,
        choices: tuple[TokenChoice, ...] = (),
        ids: tuple[int, ...] = (),
    ) -> Delta | None:
        """Take text, the number of tokens behind it and their ids; see `Deltas.push`."""
        self.tokens += tokens
        self._taken_chars += len(text)
        group = self._open
        group.tokens += tokens
        group.ids += ids
        group.choices += choices
        if text:
            group.end = self._taken_chars
            self._groups.append(group)
            self._open = _Group()
        out, self.stop_text = self._filter.push(text)
        self._clear += out
        return self._released() if self._groups else None

    def finish(self) -> Delta | None:
        """End the answer; return text still held and tokens not yet told; see `Deltas.finish`."""
        self._clear += self._filter.finish()
        whole = self._released() or Delta("", 0)
        tokens, self._told_tokens = self.tokens - self._told_tokens, self.tokens
        text, self._clear = self._clear, ""
        if not (whole.text or whole.tokens or text or tokens):
            return None
        return Delta(whole.text + text, whole.tokens + tokens, whole.logprobs, whole.ids)

    def cut(self) -> int:
        """End the answer where it may be gone on with: nothing more goes out.

        Returns how many tokens have been told, which the answer has cost its client.
        """
        return self._told_tokens

    def _released(self) -> Delta | None:
        """Give the tokens whose whole text is ruled out as part of a stop string."""
        clear_chars = self._given_chars + len(self._clear)
        out = _Group(self._given_chars)
        while self._groups and self._groups[0].end <= clear_chars:
            group = self._groups.popleft()
            out.end = group.end
            out.tokens += group.tokens
            out.ids += group.ids
            out.choices += group.choices
        if not out.tokens:
            return None
        size = out.end - self._given_chars
        text, self._clear = self._clear[:size], self._clear[size:]
        self._given_chars = out.end
        self._told_tokens += out.tokens
        return Delta(text, out.tokens, out.choices, out.ids)
