"""MACHINE: what a llama.cpp server says about one completion becomes the events of the contract."""

from __future__ import annotations

import msgspec

from roost.backends.telling import Telling
from roost.core.events import Delta, PrefillProgress, StreamEvent, TokenChoice, TokenLogprob
from roost.core.request import GenerateRequest
from roost.errors import Failure
from roost.text.utf8 import HALF

LOGPROB_MIN = -9999.0
"""Stands for minus infinity, which JSON cannot write and llama.cpp writes as null."""

FINAL_FIELDS = (
    "content",
    "stop",
    "stop_type",
    "tokens_predicted",
    "tokens_evaluated",
    "timings",
)
"""What the last message needs; without a list it repeats the whole prompt and every setting."""


class _Progress(msgspec.Struct):
    total: int
    processed: int
    cache: int = 0


class Timings(msgspec.Struct):
    """How long the server took: `prompt_n` tokens computed in `prompt_ms`, and so on."""

    cache_n: int = 0
    prompt_n: int = 0
    prompt_ms: float = 0.0
    predicted_n: int = 0
    predicted_ms: float = 0.0


class _Token(msgspec.Struct):
    token: str = ""
    bytes: tuple[int, ...] = ()
    logprob: float | None = None


class _Choice(_Token):
    top_logprobs: tuple[_Token, ...] = ()


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Said(msgspec.Struct):
    content: str = ""
    tokens: tuple[int, ...] = ()
    stop: bool = False
    stop_type: str = ""
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    prompt_progress: _Progress | None = None
    completion_probabilities: tuple[_Choice, ...] = ()
    timings: Timings | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Said)


class Answer:
    """One completion. `over` after its terminal event; `slot_free` when the server ended it itself.

    Where ids are asked for, a server tells only the last one of a character that takes several
    tokens: the text in `unsure` has to be tokenised then, and its ids given to `on_ids`. The first
    `steps` completions only fill the slot; what they say beside progress is of no matter.
    """

    def __init__(
        self, slot: int, prompt_tokens: int, request: GenerateRequest, steps: int = 0
    ) -> None:
        self.slot_free = False
        self.unsure = ""
        self.timings: Timings | None = None
        self._telling = Telling(slot, prompt_tokens, request)
        self._prompt_tokens = prompt_tokens
        self._steps = steps
        self._top = request.top_logprobs
        self._textless = False
        self._waiting: _Said | None = None
        # That the prompt is whole. The first token comes within moments and says so as well: it
        # does not wait until this has been told, which is for the case that it has no text yet.
        self._whole: list[StreamEvent] = []

    @property
    def over(self) -> bool:
        """Whether it has ended for its client."""
        return self._telling.over

    def on_data(self, data: bytes) -> list[StreamEvent]:
        """Take the data of one server-sent event."""
        try:
            said = _decoder.decode(data)
        except msgspec.DecodeError:
            return self.on_failure(_failure("it broke the protocol"))
        if said.error:
            return self.on_failure(_blame(said.error))
        if said.prompt_progress:
            return self._on_progress(said.prompt_progress)
        if self._steps:
            self._steps -= said.stop
            return []
        events = self._telling.started(said.timings.cache_n if said.timings else 0)
        if self._telling.by_token and said.content and len(said.tokens) != self._new(said):
            self.unsure, self._waiting = said.content, said
            return events
        return events + self._on_said(said, said.tokens)

    def on_ids(self, ids: tuple[int, ...]) -> list[StreamEvent]:
        """The text in `unsure` has these ids, if the model has written it the usual way."""
        said, self._waiting, self.unsure = self._waiting, None, ""
        assert said is not None, "only what is unsure is asked for"
        usual = len(ids) == self._new(said) and ids[-1:] == said.tokens[-1:]
        return self._on_said(said, ids if usual else said.tokens)

    def on_full(self) -> list[StreamEvent]:
        """There is no room for another token: what was said before is the whole answer."""
        self.slot_free = True
        return self._telling.started(0) + self._telling.finished("length")

    def _on_said(self, said: _Said, ids: tuple[int, ...]) -> list[StreamEvent]:
        events = self._on_text(said, ids)
        if not self.over and said.stop:
            events += self._on_final(said)
        whole, self._whole = self._whole, []
        return events if events and isinstance(events[0], Delta) else whole + events

    def on_failure(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        whole, self._whole = self._whole, []
        return whole + self._telling.failed(failure)

    def _on_progress(self, progress: _Progress) -> list[StreamEvent]:
        events = self._telling.started(progress.cache)
        # The first report, before anything is computed, is no progress.
        if progress.processed <= progress.cache:
            return events
        report = PrefillProgress(progress.processed, self._prompt_tokens)
        if report.done >= report.total:
            self._whole = [report]
            return events
        return [*events, report]

    def _new(self, said: _Said) -> int:
        return max(0, said.tokens_predicted - self._telling.deltas.tokens)

    def _on_text(self, said: _Said, ids: tuple[int, ...]) -> list[StreamEvent]:
        choices = (
            () if self._top is None else tuple(map(self._choice, said.completion_probabilities))
        )
        new = self._new(said)
        self._textless = not said.content and (new > 0 or self._textless)
        delta = self._telling.deltas.push(said.content, new, choices, ids)
        events: list[StreamEvent] = [delta] if delta else []
        if self._telling.deltas.stop_text is not None:
            events += self._telling.finished("stop")
        return events

    def _on_final(self, said: _Said) -> list[StreamEvent]:
        self.slot_free = True
        self.timings = said.timings
        if said.stop_type != "limit":
            return self._telling.finished("stop")
        # A server keeps bytes that are no character yet to itself, and at a limit for good. Only
        # the counts tell: its last tokens have no text.
        return self._telling.finished("length", HALF if self._textless else "")

    def _choice(self, choice: _Choice) -> TokenChoice:
        return TokenChoice(_logprob(choice), tuple(map(_logprob, choice.top_logprobs[: self._top])))


def _logprob(token: _Token) -> TokenLogprob:
    value = LOGPROB_MIN if token.logprob is None else min(0.0, token.logprob)
    raw = bytes(byte for byte in token.bytes if 0 <= byte < 256)
    return TokenLogprob(token.token, value, raw)


def _blame(error: _Error) -> Failure:
    """Say what a server's error means; its own words may hold paths, addresses and prompts."""
    if "context" in error.message.lower():
        return _failure("its context memory is full")
    return _failure(f"it reported an error of code {error.code}")


def _failure(what: str) -> Failure:
    return Failure("runtime_error", f"The runtime could not complete the answer: {what}.")
