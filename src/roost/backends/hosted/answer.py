"""MACHINE: what a hosted library says about one run becomes the events of the contract."""

from __future__ import annotations

from roost.backends.base import Prepared
from roost.backends.hosted.frames import Began, Over, Said, Step, Work
from roost.backends.telling import Telling
from roost.core.events import FinishReason, PrefillProgress, StreamEvent
from roost.errors import Failure
from roost.text.utf8 import Utf8Decoder


class Answer:
    """One run. `over` after its terminal event; `released` once the library says its slot is free.

    A stop string ends the answer before the library knows; it has to be told to stop then.
    """

    def __init__(self, slot: int, prepared: Prepared) -> None:
        request = prepared.request
        self.released = False
        self.work = Work()
        self._telling = Telling(slot, len(prepared.tokens), request)
        self._prompt_tokens = len(prepared.tokens)
        self._limit = prepared.limit
        self._top = request.top_logprobs
        self._utf8 = Utf8Decoder()
        self._held = ""

    @property
    def over(self) -> bool:
        """Whether it has ended for its client."""
        return self._telling.over

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
        if not 0 <= done <= self._prompt_tokens or self._telling.deltas.tokens:
            raise ValueError("a prompt cannot be computed in that way")
        if isinstance(word, Began):
            return self._telling.started(done)
        return [*self._telling.started(0), PrefillProgress(done, self._prompt_tokens)]

    def on_full(self) -> list[StreamEvent]:
        """There is no room for another token: what was said before is the whole answer."""
        self.released = True
        return [*self._telling.started(0), *self._finished("length")]

    def on_failure(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        return self._telling.failed(failure)

    def _on_over(self, word: Over) -> list[StreamEvent]:
        if self.over:
            return []
        if word.reason in {"stop", "length"}:
            return [
                *self._telling.started(0),
                *self._finished("stop" if word.reason == "stop" else "length"),
            ]
        what = word.message or "the library has left it"
        return self.on_failure(
            Failure("runtime_error", f"The runtime could not complete the answer: {what}.")
        )

    def _on_said(self, said: Said) -> list[StreamEvent]:
        if self._telling.deltas.tokens >= self._limit:
            raise ValueError("more tokens than were asked for")
        events = self._telling.started(0)
        choices = (said.choice,) if said.choice and self._top is not None else ()
        ids = (said.token,) if self._telling.by_token else ()
        delta = self._telling.deltas.push(self._clear(said), 1, choices, ids)
        if delta:
            events.append(delta)
        if self._telling.deltas.stop_text is not None:
            events += self._finished("stop")
        return events

    def _clear(self, said: Said) -> str:
        """Give the text that is complete with this token.

        Whoever may go on behind a token has to get all of it: one that ends within a character
        keeps its text until that is whole.
        """
        text = self._held + self._utf8.push(said.raw) + said.text
        self._held = text if self._telling.by_token and self._utf8.unfinished else ""
        return "" if self._held else text

    def _finished(self, reason: FinishReason) -> list[StreamEvent]:
        held = self._telling.deltas.push(self._held, 0) if self._held else None
        return self._telling.finished(reason, self._utf8.finish(), held)
