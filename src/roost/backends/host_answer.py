"""MACHINE: what a hosted library says about one run becomes the events of the contract."""

from __future__ import annotations

import msgspec

from roost.backends.base import Prepared
from roost.backends.deltas import Deltas
from roost.backends.host_frames import Began, Over, Said, Step, Work
from roost.core.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
    merge_deltas,
)
from roost.errors import Failure
from roost.text.utf8 import Utf8Decoder


class Answer:
    """One run. `over` after its terminal event; `released` once the library says its slot is free.

    A stop string ends the answer before the library knows; it has to be told to stop then.
    """

    def __init__(self, slot: int, prepared: Prepared) -> None:
        request = prepared.request
        self.over = False
        self.released = False
        self.work = Work()
        self._slot = slot
        self._prompt_tokens = len(prepared.tokens)
        self._limit = prepared.limit
        self._cached: int | None = None
        self._top = request.top_logprobs
        self._by_token = request.return_tokens
        self._deltas = Deltas(request.stop, by_token=request.return_tokens)
        self._utf8 = Utf8Decoder()
        self._held = ""

    def on_word(self, word: Step | Over) -> list[StreamEvent]:
        """Take what the library says; after the end only that the slot is free counts.

        Raises `ValueError` for numbers that cannot be.
        """
        if isinstance(word, Over):
            self.released, self.work = True, word.work
            return self._on_over(word)
        if self.over:
            return []
        if isinstance(word, Said):
            return self._on_said(word)
        done = word.cached if isinstance(word, Began) else word.done
        if not 0 <= done <= self._prompt_tokens or self._deltas.tokens:
            raise ValueError("a prompt cannot be computed in that way")
        if isinstance(word, Began):
            return self._started(done)
        return [*self._started(0), PrefillProgress(done, self._prompt_tokens)]

    def on_full(self) -> list[StreamEvent]:
        """There is no room for another token: what was said before is the whole answer."""
        self.released = True
        return [*self._started(0), *self._finished("length")]

    def on_failure(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        if self.over:
            return []
        self.over = True
        if self._by_token and failure.reason == "runtime_died":
            # What is held stays in: whoever goes on says it again.
            usage = msgspec.structs.replace(self._usage(), completion_tokens=self._deltas.cut())
            return [Failed(failure, usage)]
        rest = self._deltas.finish() if self._cached is not None else None
        return [*([rest] if rest else []), Failed(failure, self._usage())]

    def _on_over(self, word: Over) -> list[StreamEvent]:
        if self.over:
            return []
        if word.reason in {"stop", "length"}:
            return [
                *self._started(0),
                *self._finished("stop" if word.reason == "stop" else "length"),
            ]
        what = word.message or "the library has left it"
        return self.on_failure(
            Failure("runtime_error", f"The runtime could not complete the answer: {what}.")
        )

    def _on_said(self, said: Said) -> list[StreamEvent]:
        if self._deltas.tokens >= self._limit:
            raise ValueError("more tokens than were asked for")
        events = self._started(0)
        choices = (said.choice,) if said.choice and self._top is not None else ()
        ids = (said.token,) if self._by_token else ()
        delta = self._deltas.push(self._clear(said), 1, choices, ids)
        if delta:
            events.append(delta)
        if self._deltas.stop_text is not None:
            events += self._finished("stop")
        return events

    def _clear(self, said: Said) -> str:
        """Give the text that is complete with this token.

        Whoever may go on behind a token has to get all of it: one that ends within a character
        keeps its text until that is whole.
        """
        text = self._held + self._utf8.push(said.raw) + said.text
        self._held = text if self._by_token and self._utf8.unfinished else ""
        return "" if self._held else text

    def _started(self, cached: int) -> list[StreamEvent]:
        if self._cached is not None:
            return []
        self._cached = cached
        return [Started(self._prompt_tokens, cached, self._slot)]

    def _finished(self, reason: FinishReason) -> list[StreamEvent]:
        self.over = True
        held = self._deltas.push(self._held, 0) if self._held else None
        rest = self._deltas.finish(self._utf8.finish())
        if held:
            rest = merge_deltas(held, rest or Delta("", 0))
        end = Finished(reason, self._usage(), self._deltas.stop_text)
        return [rest, end] if rest else [end]

    def _usage(self) -> Usage:
        if self._cached is None:
            return Usage()
        return Usage(self._prompt_tokens, self._cached, self._deltas.tokens)
