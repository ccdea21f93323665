"""MACHINE: the events of one stream become the reply of /v1/chat/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, TokenChoice
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Text, Thought
from roost.dialects.json_text import encode_text
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Ends, Fact, envelope_of
from roost.dialects.openai.logprobs import chat_logprobs
from roost.dialects.pieces import PieceTeller, Told
from roost.errors import Failure, RoostError
from roost.text import sse

KIND = "chat.completion"
CHUNK_KIND = "chat.completion.chunk"
_PLAIN_END = b'},"finish_reason":null}]}\n\n'
_LAST = b'"delta":{},"finish_reason":"%b"}]'
_WHOLE = b'{"index":%d,"message":{"role":"assistant","content":%b%b,"refusal":null},"logprobs":%b,'
_CALL = b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}'
_CALL_BEGIN = b'"tool_calls":[{"index":%d,"id":%b,"type":"function","function":%b}]'
_CALL_MORE = b'"tool_calls":[{"index":%d,"function":{"arguments":%b}}]'


class ChatStream:
    """Encodes one choice of a streamed reply; whatever it is asked for after its end is nothing.

    A chunk with the role comes first and once: by `head()`, or with the first text. A choice that
    is `alone` ends the reply, with usage where that is asked for and `[DONE]`.
    """

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._envelope = envelope_of(choice, CHUNK_KIND)
        self._open = b'[{"index":%d,' % choice.index
        self._text_open = b""
        self._teller = PieceTeller(_call_prefix(choice), logprobs=choice.options.logprobs)
        self._headed = False
        self.broken = False
        self._reopen()

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been encoded."""
        return self._envelope.ended

    def head(self) -> bytes:
        """Give the chunk in front of the text, the first time it is asked for."""
        if self._headed or self.ended:
            return b""
        self._headed = True
        delta = b'"delta":{"role":"assistant","content":""},"finish_reason":null}]'
        return self._envelope.event(self._open + delta)

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if isinstance(event, Delta):
            return self._delta(event)
        if isinstance(event, Started):
            self._teller.started(event)
            self._envelope.answered_by(event.digest)
            self._reopen()
            return b""
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give what is left, the chunk with the reason, usage if asked for, and `[DONE]`."""
        if self.ended:
            return b""
        rest = b"".join(map(self._told, self._teller.finish(finished)))
        failure = self._teller.failure
        if failure is not None:
            self.broken = True
            return self.head() + rest + self._envelope.error_event(failure)
        last = self._open + _LAST % _reason(finished, self._teller)
        if not self._choice.alone:
            return self.head() + rest + self._envelope.last_choice(last)
        usage = finished.usage if self._choice.options.include_usage else None
        return self.head() + rest + self._envelope.last_events(last, usage)

    def error(self, failure: Failure) -> bytes:
        """Give one error event; no reason and no `[DONE]` follow."""
        return self._envelope.error_event(failure)

    def comment(self, text: str) -> bytes:
        """Give a comment that keeps a waiting connection alive."""
        return b"" if self.ended else sse.encode_comment(text)

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: some clients take every clean one for success."""
        return False

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` on the last chunk."""
        self._envelope.add_roost(facts)

    def _reopen(self) -> None:
        self._text_open = self._envelope.event_open + self._open + b'"delta":{"content":'

    def _delta(self, delta: Delta) -> bytes:
        if self.ended:
            return b""
        if self._teller.is_plain and not delta.logprobs:
            # The common case, made short: one copy of the text, nothing else.
            if not delta.text:
                return b""
            self._teller.has_begun = True
            chunk = self._text_open + encode_text(delta.text) + _PLAIN_END
        else:
            chunk = b"".join(map(self._told, self._teller.delta(delta)))
        return self.head() + chunk if chunk and not self._headed else chunk

    def _told(self, told: Told) -> bytes:
        piece, choices = told
        with_logprobs = bool(choices) and self._choice.options.logprobs
        if isinstance(piece, Text):
            if not (piece.text or with_logprobs):
                return b""
            closing = _with_logprobs(choices) if with_logprobs else _PLAIN_END
            return self._text_open + encode_text(piece.text) + closing
        if isinstance(piece, CallEnd):
            return b""
        said = _delta_of(piece)
        return self._envelope.event_open + self._open + b'"delta":{' + said + _PLAIN_END


class ChatBody:
    """Collects one choice of a reply that is sent whole."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._envelope = envelope_of(choice, KIND)
        self._teller = PieceTeller(_call_prefix(choice), logprobs=choice.options.logprobs)
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._tokens: list[TokenChoice] = []
        self._calls: list[tuple[CallBegin, list[str]]] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body once the answer is complete, nothing before.

        Of a choice that is not alone that is the choice itself. Raises the failure that ended the
        stream, or of an answer that cannot be used: a reply sent whole has a status to tell it.
        """
        if isinstance(event, Started):
            self._teller.started(event)
            self._envelope.answered_by(event.digest)
        elif isinstance(event, Delta):
            self._take(self._teller.delta(event))
        elif isinstance(event, Failed):
            raise RoostError(event.failure)
        if not isinstance(event, Finished):
            return b""
        choice = self._ended(event)
        return self._envelope.body([choice], event.usage) if self._choice.alone else choice

    def _ended(self, finished: Finished) -> bytes:
        self._take(self._teller.finish(finished))
        if self._teller.failure is not None:
            raise RoostError(self._teller.failure)
        said = "".join(self._texts)
        more = b""
        if self._thoughts:
            more += b',"reasoning_content":' + encode_text("".join(self._thoughts))
        if self._calls:
            more += b',"tool_calls":[' + b",".join(map(_whole_call, self._calls)) + b"]"
        content = b"null" if self._calls and not said else encode_text(said)
        logprobs = chat_logprobs(self._tokens) if self._choice.options.logprobs else b"null"
        parts = (self._choice.index, content, more, logprobs)
        return _WHOLE % parts + b'"finish_reason":"%b"}' % _reason(finished, self._teller)

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the body."""
        self._envelope.add_roost(facts)

    def _take(self, told: Sequence[Told]) -> None:
        for piece, choices in told:
            if isinstance(piece, Text):
                self._texts.append(piece.text)
                self._tokens += choices
            elif isinstance(piece, Thought):
                self._thoughts.append(piece.text)
            elif isinstance(piece, CallBegin):
                self._calls.append((piece, []))
            elif isinstance(piece, CallArguments):
                self._calls[-1][1].append(piece.text)


def chat_ends(choice: Choice) -> Ends:
    """Tell how a chat of several choices ends."""
    return Ends(choice, CHUNK_KIND if choice.options.stream else KIND)


def _call_prefix(choice: Choice) -> str:
    """Begin the ids of calls: like no other reply's, since they must differ in a conversation."""
    unique = choice.reply_id.rpartition("-")[2]
    return f"call_{unique}_{choice.index}_" if choice.index else f"call_{unique}_"


def _reason(finished: Finished, teller: PieceTeller) -> bytes:
    """Name the reason of an end: calls are one, unless the answer was cut at its limit."""
    if teller.calls and finished.reason == "stop":
        return b"tool_calls"
    return finished.reason.encode()


def _delta_of(piece: Thought | CallBegin | CallArguments) -> bytes:
    match piece:
        case Thought(text):
            return b'"reasoning_content":' + encode_text(text)
        case CallBegin(index, id, name):
            function = b'{"name":' + encode_text(name) + b',"arguments":""}'
            return _CALL_BEGIN % (index, encode_text(id), function)
        case CallArguments(index, text):
            return _CALL_MORE % (index, encode_text(text))


def _whole_call(call: tuple[CallBegin, list[str]]) -> bytes:
    begun, arguments = call
    return _CALL % tuple(map(encode_text, (begun.id, begun.name, "".join(arguments))))


def _with_logprobs(choices: Sequence[TokenChoice]) -> bytes:
    return b'},"logprobs":' + chat_logprobs(choices) + _PLAIN_END[1:]
