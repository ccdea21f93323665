"""MACHINE: text from a runtime becomes deltas: stop strings cut, counts exact, nothing lost.

Text goes out as soon as it can. For a request that asks for ids it does so a whole token at a time,
with its id, so that an answer that is cut can be gone on with exactly where its text ends.

The stop strings are looked for here and not by the engine: llama.cpp loses text that it held back
because it might begin a stop string when the answer ends at its limit.
"""

from __future__ import annotations

from collections import deque

import msgspec

from roost.core.events import Delta, TokenChoice
from roost.text.stops import StopFilter


class Deltas:
    """One answer on its way out. The tokens of all deltas together are `tokens`.

    With `by_token` no delta ends within a token, and each has the ids of its tokens. What has gone
    out never begins a stop string then, so one that spans the seam is still found by whoever goes
    on.
    """

    def __init__(self, stops: tuple[str, ...], *, by_token: bool = False) -> None:
        self.tokens = 0
        self.stop_text: str | None = None
        self._filter = StopFilter(stops)
        self._taken_chars = 0
        self._way: _ByText | _ByToken = _ByToken() if by_token else _ByText()

    def push(
        self,
        text: str,
        tokens: int,
        choices: tuple[TokenChoice, ...] = (),
        ids: tuple[int, ...] = (),
    ) -> Delta | None:
        """Take text, the number of tokens behind it and their ids; return what may go out, if any.

        Once `stop_text` is set the answer is over: `finish` gives the counts that are left.
        """
        self.tokens += tokens
        self._taken_chars += len(text)
        clear, self.stop_text = self._filter.push(text)
        return self._way.push(_Group(self._taken_chars, tokens, ids, choices), clear)

    def finish(self, half: str = "") -> Delta | None:
        """End the answer; return text still held and tokens not yet told, if there are any.

        `half` stands for a character that the answer ends within, "" where it does not.

        A token without text, such as the one that ends a turn, is told in a delta without text.
        """
        half = half if self.stop_text is None else ""
        return self._way.finish(self._filter.finish() + half)

    def cut(self) -> int:
        """End the answer where it may be gone on with: nothing more goes out.

        Returns how many tokens have been told, which the answer has cost its client.
        """
        return self.tokens - self._way.due


class _Group(msgspec.Struct):
    """Tokens that come or go together; the text of the answer ends with theirs after `end`."""

    end: int = 0
    tokens: int = 0
    ids: tuple[int, ...] = ()
    choices: tuple[TokenChoice, ...] = ()

    def add(self, more: _Group) -> None:
        """Take those that follow into this one."""
        self.end = more.end
        self.tokens += more.tokens
        self.ids += more.ids
        self.choices += more.choices


class _ByText:
    """Clear text goes out with every token so far; `due` counts those that are not told."""

    def __init__(self) -> None:
        self.due = 0
        self._given_chars = 0
        self._choices: deque[tuple[int, TokenChoice]] = deque()

    def push(self, new: _Group, clear: str) -> Delta | None:
        """Take tokens; `clear` is the text that has turned out to be no part of a stop string."""
        self.due += new.tokens
        self._choices.extend((new.end, choice) for choice in new.choices)
        return self._delta(clear) if clear else None

    def finish(self, clear: str) -> Delta | None:
        """Give everything that is left."""
        return self._delta(clear) if clear or self.due else None

    def _delta(self, text: str) -> Delta:
        self._given_chars += len(text)
        tokens, self.due = self.due, 0
        return Delta(text, tokens, tuple(self._released()))

    def _released(self) -> list[TokenChoice]:
        """Give the choices whose whole text is out: a part of a stop string would leak here too."""
        released = []
        while self._choices and self._choices[0][0] <= self._given_chars:
            released.append(self._choices.popleft()[1])
        return released


class _ByToken:
    """Tokens go out once all of their text is clear; a character's tokens, say, go together."""

    def __init__(self) -> None:
        self.due = 0
        self._given_chars = 0
        self._clear = ""
        self._open = _Group()
        self._groups: deque[_Group] = deque()

    def push(self, new: _Group, clear: str) -> Delta | None:
        """Take tokens; `clear` is the text that has turned out to be no part of a stop string."""
        self.due += new.tokens
        group = self._open
        has_text = new.end > group.end
        group.add(new)
        if has_text:
            self._groups.append(group)
            self._open = _Group(group.end)
        self._clear += clear
        return self._released() if self._groups else None

    def finish(self, clear: str) -> Delta | None:
        """Give everything that is left; whatever a stop string begins in has no id any more."""
        self._clear += clear
        whole = self._released() or Delta("", 0)
        text, self._clear = self._clear, ""
        tokens, self.due = self.due, 0
        if not (whole.text or whole.tokens or text or tokens):
            return None
        return Delta(whole.text + text, whole.tokens + tokens, whole.logprobs, whole.ids)

    def _released(self) -> Delta | None:
        clear_chars = self._given_chars + len(self._clear)
        out = _Group(self._given_chars)
        while self._groups and self._groups[0].end <= clear_chars:
            out.add(self._groups.popleft())
        if not out.tokens:
            return None
        size = out.end - self._given_chars
        text, self._clear = self._clear[:size], self._clear[size:]
        self._given_chars = out.end
        self.due -= out.tokens
        return Delta(text, out.tokens, out.choices, out.ids)
