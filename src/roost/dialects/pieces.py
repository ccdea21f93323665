"""MACHINE: the events of one stream become pieces of an answer, each with its log probabilities.

Only text has any: those of thoughts, of calls and of the marks around them are nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from roost.core.events import Delta, Finished, Started, TokenChoice
from roost.core.pieces import Piece, Text
from roost.errors import Failure
from roost.text.answers import AnswerReader

Told: TypeAlias = tuple[Piece, tuple[TokenChoice, ...]]


class PieceTeller:
    """Reads one answer; `call_prefix` begins the ids of its calls.

    `has_begun` once there is text: from then on no other attempt can take over. With `logprobs` the
    answer is read token by token, so that each goes where its text went.
    """

    def __init__(self, call_prefix: str, *, logprobs: bool = False) -> None:
        self._call_prefix = call_prefix
        self._logprobs = logprobs
        self._reader: AnswerReader | None = None
        self._pending: list[TokenChoice] = []
        self.has_begun = False

    @property
    def is_plain(self) -> bool:
        """Whether all of the answer is text, so that deltas can be told as they are."""
        return self._reader is None

    @property
    def calls(self) -> int:
        """How many calls have been told."""
        return 0 if self._reader is None else self._reader.calls

    @property
    def failure(self) -> Failure | None:
        """Why the answer cannot be given as it was asked for; known after `finish`."""
        return None if self._reader is None else self._reader.failure

    def started(self, started: Started) -> None:
        """An attempt has begun; it is the last one of which text has come."""
        if not self.has_begun:
            reading = started.reading
            self._reader = AnswerReader(reading, self._call_prefix) if reading else None

    def delta(self, delta: Delta) -> list[Told]:
        """Take more of the answer."""
        self.has_begun = True
        if self._reader is None:
            return [(Text(delta.text), delta.logprobs)]
        if not (self._logprobs and delta.logprobs):
            return [(piece, ()) for piece in self._reader.push(delta.text)]
        out: list[Told] = []
        for text, choices in _tokens(delta):
            out += self._token(self._reader, text, choices)
        return out

    def finish(self, finished: Finished) -> list[Told]:
        """Take the end; see `failure` afterwards."""
        if self._reader is None:
            return []
        return [(piece, self._taken(piece)) for piece in self._reader.finish(finished)]

    def _token(
        self, reader: AnswerReader, text: str, choices: tuple[TokenChoice, ...]
    ) -> Iterator[Told]:
        before = reader.section
        pieces = reader.push(text)
        self._pending += choices
        yield from [(piece, self._taken(piece)) for piece in pieces]
        # What is pending belongs to a mark, or to what is between marks: it is no text.
        is_text = reader.section in ("start", "content") and reader.section == before
        if not is_text or reader.is_blank:
            self._pending.clear()

    def _taken(self, piece: Piece) -> tuple[TokenChoice, ...]:
        if not isinstance(piece, Text):
            return ()
        taken, self._pending = tuple(self._pending), []
        return taken


def _tokens(delta: Delta) -> Iterator[tuple[str, tuple[TokenChoice, ...]]]:
    """Cut a delta into its tokens, where their texts make up its own."""
    texts = [choice.chosen.text for choice in delta.logprobs]
    if "".join(texts) == delta.text:
        for text, choice in zip(texts, delta.logprobs, strict=True):
            yield text, (choice,)
    else:
        yield delta.text, delta.logprobs
