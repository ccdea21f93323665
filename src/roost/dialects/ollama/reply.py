"""MACHINE: the events of one stream become a reply of /api/chat or /api/generate.

    {…, "done": false} … {…, "done": true, "done_reason": …, counts and durations}

Each line is a JSON object. A stream that is cut ends with `{"error": "…"}` and never says `done`. A
call is one line, told when it is whole. There are no comments in this API: a sign of life is a line
that says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, TokenChoice
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Piece, Text, Thought
from roost.dialects.json_text import clean, encode_text, escape_line_ends
from roost.dialects.ollama.errors import error_json
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.openai.logprobs import plain_logprobs
from roost.dialects.pieces import PieceTeller, Told
from roost.errors import Failure, RoostError

ID_PREFIX = "ollama-"
DURATIONS = {
    "total_ns": "total_duration",
    "load_ns": "load_duration",
    "prefill_ns": "prompt_eval_duration",
    "decode_ns": "eval_duration",
}
"""Facts that are told as durations, in nanoseconds, and their names here."""

Shape: TypeAlias = Literal["chat", "generate"]
_encode = msgspec.json.Encoder().encode
_CALL = b'{"id":%b,"function":{"index":%d,"name":%b,"arguments":%b}}'
_MORE = b',"done":false}\n'


class _Lines:
    """What all lines of a reply share, in either of the two shapes."""

    def __init__(self, choice: Choice, shape: Shape) -> None:
        at = datetime.fromtimestamp(choice.created_s, UTC).isoformat().replace("+00:00", "Z")
        self._is_chat = shape == "chat"
        self._open = b'{"model":%b,"created_at":"%b",' % (encode_text(choice.model), at.encode())
        stay = choice.options.stay
        self.is_load = stay is not None and stay.alone
        self._alone = b"unload" if stay is not None and stay.unloads else b"load"
        self._facts: dict[str, Fact] = {}

    def open(self, text: str, thought: str = "", calls: bytes = b"") -> bytes:
        """Begin a line that says so much; `calls` is JSON of a list, or nothing."""
        more = b',"thinking":' + encode_text(thought) if thought else b""
        if not self._is_chat:
            return self._open + b'"response":' + encode_text(text) + more
        more += b',"tool_calls":' + calls if calls else b""
        said = b'"message":{"role":"assistant","content":' + encode_text(text)
        return self._open + said + more + b"}"

    def know(self, facts: Mapping[str, Fact]) -> None:
        """Keep what the last line tells beside the counts."""
        self._facts = dict(facts)

    def end(self, finished: Finished) -> bytes:
        """End the last line: the reason, what was counted and what was measured."""
        reason = self._alone if self.is_load else finished.reason.encode()
        facts, usage = dict(self._facts), finished.usage
        spans = {
            name: facts.pop(fact) for fact, name in DURATIONS.items() if facts.get(fact) is not None
        }
        counts = {"prompt_eval_count": usage.prompt_tokens, "eval_count": usage.completion_tokens}
        told = spans if self.is_load else spans | counts
        more: dict[str, object] = {**told, "roost": facts} if facts else dict(told)
        members = b"," + _encode(more)[1:] if more else b"}"
        return b',"done":true,"done_reason":"%b"' % reason + escape_line_ends(members)


class OllamaStream:
    """Encodes one streamed reply; whatever it is asked for after its end is nothing."""

    def __init__(self, choice: Choice, shape: Shape) -> None:
        self._lines = _Lines(choice, shape)
        self._options = choice.options
        self._teller = PieceTeller(_call_prefix(choice), logprobs=choice.options.logprobs)
        self._calls = _Calls()
        self.ended = False
        self.broken = False

    def head(self) -> bytes:
        """Give nothing: every line has all that a first one could."""
        return b""

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if self.ended:
            return b""
        if isinstance(event, Delta):
            return self._all(self._teller.delta(event))
        if isinstance(event, Started):
            self._teller.started(event)
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give what is left, and the line that says that it is done."""
        if self.ended:
            return b""
        rest = self._all(self._teller.finish(finished))
        failure = self._teller.failure
        if failure is not None:
            self.broken = True
            return rest + self.error(failure)
        self.ended = True
        return rest + self._lines.open("") + self._lines.end(finished) + b"\n"

    def error(self, failure: Failure) -> bytes:
        """Give one line with the error; nothing follows."""
        if self.ended:
            return b""
        self.ended = True
        return error_json(failure) + b"\n"

    def comment(self, text: str) -> bytes:
        """Give a line without a word, since every line here is read as an object."""
        return b"" if self.ended else self._lines.open("") + _MORE

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: some clients take every clean one for success."""
        return False

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put durations into the last line, and other `facts` under `roost`."""
        self._lines.know(facts)

    def _all(self, told: Iterable[Told]) -> bytes:
        return b"" if self._lines.is_load else b"".join(map(self._told, told))

    def _told(self, told: Told) -> bytes:
        piece, choices = told
        match piece:
            case Text(text) if text or choices:
                return self._lines.open(text) + self._logprobs(choices) + _MORE
            case Thought(text) if text and self._options.thoughts:
                return self._lines.open("", text) + _MORE
        call = self._calls.take(piece)
        return self._lines.open("", calls=b"[" + call + b"]") + _MORE if call else b""

    def _logprobs(self, choices: tuple[TokenChoice, ...]) -> bytes:
        if not (choices and self._options.logprobs):
            return b""
        return b',"logprobs":' + plain_logprobs(choices)


class OllamaBody:
    """Collects a reply that is sent whole: one object with all that the lines would say."""

    def __init__(self, choice: Choice, shape: Shape) -> None:
        self._lines = _Lines(choice, shape)
        self._options = choice.options
        self._teller = PieceTeller(_call_prefix(choice), logprobs=choice.options.logprobs)
        self._calls = _Calls()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._tokens: list[TokenChoice] = []
        self._told: list[bytes] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body once the answer is complete, nothing before.

        Raises the failure that ended the stream, or of an answer that cannot be used.
        """
        if isinstance(event, Started):
            self._teller.started(event)
        elif isinstance(event, Delta):
            self._take(self._teller.delta(event))
        elif isinstance(event, Failed):
            raise RoostError(event.failure)
        return self._ended(event) if isinstance(event, Finished) else b""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put durations into the body, and other `facts` under `roost`."""
        self._lines.know(facts)

    def _take(self, told: Iterable[Told]) -> None:
        for piece, choices in told:
            if isinstance(piece, Text):
                self._texts.append(piece.text)
                self._tokens += choices
            elif isinstance(piece, Thought):
                self._thoughts.append(piece.text)
            elif call := self._calls.take(piece):
                self._told.append(call)

    def _ended(self, finished: Finished) -> bytes:
        self._take(self._teller.finish(finished))
        if self._teller.failure is not None:
            raise RoostError(self._teller.failure)
        if self._lines.is_load:
            return self._lines.open("") + self._lines.end(finished)
        thought = "".join(self._thoughts) if self._options.thoughts else ""
        calls = b"[" + b",".join(self._told) + b"]" if self._told else b""
        logprobs = b""
        if self._options.logprobs:
            logprobs = b',"logprobs":' + plain_logprobs(self._tokens)
        said = self._lines.open("".join(self._texts), thought, calls)
        return said + logprobs + self._lines.end(finished)


class _Calls:
    """Puts the pieces of calls together; a call is JSON once it is whole."""

    def __init__(self) -> None:
        self._begun: CallBegin | None = None
        self._arguments: list[str] = []

    def take(self, piece: Piece) -> bytes:
        """Take a piece; return the call that it completes, if it does."""
        match piece:
            case CallBegin():
                self._begun, self._arguments = piece, []
            case CallArguments(_, text):
                self._arguments.append(text)
            case CallEnd() if self._begun is not None:
                begun, self._begun = self._begun, None
                # They are a JSON object already, which only has to stand on one line.
                arguments = escape_line_ends(clean("".join(self._arguments)).encode())
                parts = encode_text(begun.id), begun.index, encode_text(begun.name)
                return _CALL % (*parts, arguments.replace(b"\n", b" ").replace(b"\r", b" "))
        return b""


def _call_prefix(choice: Choice) -> str:
    """Begin the ids of calls: like no other reply's, since they must differ in a conversation."""
    return f"call_{choice.reply_id.removeprefix(ID_PREFIX)}_"
