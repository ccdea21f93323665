"""MACHINE: what a program writes until it ends becomes the events of the contract.

A program tells no tokens while it writes, and at its end perhaps how many there were. Its text goes
out as it comes, and the count with the last piece: the program's own, or else one token for
`BYTES_PER_TOKEN`, which is a guess.
"""

from __future__ import annotations

from roost.backends.deltas import Deltas
from roost.backends.programs.once_words import count_in
from roost.core.card import Output
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.request import GenerateRequest
from roost.errors import Failure
from roost.text.stops import StopFilter
from roost.text.utf8 import Utf8Decoder

BYTES_PER_TOKEN = 4
ASIDE_MAX_CHARS = 64 * 1024
"""How much of what stands around an answer is kept, to look for counts and marks in it."""


class Answer:
    """One answer. `over` after its terminal event: nothing that the program writes counts then."""

    def __init__(self, slot: int, limit: int, request: GenerateRequest, output: Output) -> None:
        self.over = False
        self._slot = slot
        self._limit = limit
        self._output = output
        self._utf8 = Utf8Decoder()
        self._deltas = Deltas(request.stop)
        self._before: StopFilter | None = StopFilter((output.before,) if output.before else ())
        self._ahead: str | None = "" if output.after else None
        self._aside = ""
        self._size_bytes = 0

    def begin(self) -> list[StreamEvent]:
        """The program has been started."""
        return [Started(0, 0, self._slot)]

    def on_output(self, data: bytes) -> list[StreamEvent]:
        """Take what it has written."""
        return self._on_text(self._utf8.push(data))

    def on_end(self, status: int, errors: str) -> list[StreamEvent]:
        """It has ended, with this status, and has said this on its standard error."""
        if self.over:
            return []
        if status:
            return self.on_failure(_failure(_ended(status)))
        events = self._on_text(self._utf8.finish())
        if self._ahead is not None:
            return self.on_failure(_failure("it ended without the text that answers begin behind"))
        if self._before is not None:
            events += self._said(self._before.finish())
        if self.over:
            return events
        aside = f"{errors}\n{self._aside}"
        prompt = count_in(aside, self._output.prompt_tokens)
        told = count_in(aside, self._output.completion_tokens)
        said = self._guessed() if told is None else min(told, self._limit)
        ended = self._finished(said, prompt or 0, at_limit=(told or 0) >= self._limit)
        return [*events, *ended]

    def on_failure(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        if self.over:
            return []
        self.over = True
        said = self._guessed()
        return [*self._rest(said), Failed(failure, Usage(completion_tokens=said))]

    def _on_text(self, text: str) -> list[StreamEvent]:
        if self.over:
            return []
        if self._ahead is not None:
            text = self._behind(self._ahead + text)
        if self._before is None:
            self._aside = (self._aside + text)[-ASIDE_MAX_CHARS:]
            return []
        text = self._before.held + text
        clear, hit = self._before.push(text[len(self._before.held) :])
        if hit is not None:
            self._before, self._aside = None, text[len(clear) + len(hit) :]
        return self._said(clear)

    def _behind(self, text: str) -> str:
        """Leave out what stands before the answer."""
        _, mark, behind = text.partition(self._output.after)
        self._ahead = None if mark else text[-ASIDE_MAX_CHARS:]
        return behind

    def _said(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self._size_bytes += len(text.encode())
        delta = self._deltas.push(text, 0)
        events: list[StreamEvent] = [delta] if delta else []
        if self._deltas.stop_text is not None:
            events += self._finished(self._guessed(), 0, at_limit=False)
        return events

    def _finished(self, said: int, prompt: int, *, at_limit: bool) -> list[StreamEvent]:
        self.over = True
        usage = Usage(prompt, 0, said)
        end = Finished("length" if at_limit else "stop", usage, self._deltas.stop_text)
        return [*self._rest(said), end]

    def _rest(self, said: int) -> list[StreamEvent]:
        """Give what is held, and all the tokens."""
        rest = self._deltas.finish()
        text = rest.text if rest else ""
        return [Delta(text, said)] if text or said else []

    def _guessed(self) -> int:
        return min(-(-self._size_bytes // BYTES_PER_TOKEN), self._limit)


def _ended(status: int) -> str:
    # 128 + N is how the one that watches it tells a signal, -N is one that has ended both.
    if status < 0 or status > 128:
        return f"signal {-status if status < 0 else status - 128} ended it"
    return f"it ended with status {status}, and its last words are in the runtime's log"


def _failure(what: str) -> Failure:
    return Failure("runtime_error", f"The model's program could not complete the answer: {what}.")
