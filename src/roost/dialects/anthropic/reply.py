"""MACHINE: the events of one stream become a reply of /v1/messages, streamed or whole.

    message_start (content_block_start content_block_delta* content_block_stop)*
        (message_delta message_stop | error)

Every event has its `event:` line, since some clients drop those without. Blocks are numbered from 0
and never overlap; each has one kind, and only deltas that fit it. The first event waits for the
counts of the prompt, which are part of it; until then only pings are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Piece, Text, Thought
from roost.dialects.anthropic.errors import error_json
from roost.dialects.json_text import clean, encode_text, escape_line_ends
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.pieces import PieceTeller, Told
from roost.errors import Failure, RoostError

ID_PREFIX = "msg_"

_Kind: TypeAlias = Literal["", "thinking", "text", "tool_use"]
_encode = msgspec.json.Encoder().encode
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_USAGE = (
    b'{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,'
    b'"output_tokens":%d}'
)
_MESSAGE = (
    b'{"id":%b,"type":"message","role":"assistant","model":%b,"content":%b,'
    b'"stop_reason":%b,"stop_sequence":%b,"usage":%b%b}'
)
_BLOCKS = {
    "thinking": b'{"type":"thinking","thinking":"","signature":""}',
    "text": b'{"type":"text","text":""}',
}


class MessageStream:
    """Encodes one streamed reply; whatever it is asked for after its end, it returns nothing."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._teller = PieceTeller(call_prefix(choice))
        self._usage = Usage()
        self._begun = False
        self._kind: _Kind = ""
        self._index = 0
        self._roost = b""
        self.ended = False
        self.broken = False

    def head(self) -> bytes:
        """Give nothing: what comes first has counts in it that are not known yet."""
        return b""

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if self.ended:
            return b""
        if isinstance(event, Started):
            self._teller.started(event)
            self._usage = Usage(event.prompt_tokens, event.cached_tokens)
            return self._begin()
        if isinstance(event, Delta):
            return self._begin() + self._all(self._teller.delta(event))
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give what is left, the reason with the usage, and the end."""
        if self.ended:
            return b""
        rest = self._begin() + self._all(self._teller.finish(finished)) + self._close()
        failure = self._teller.failure
        if failure is not None:
            self.broken = True
            return rest + self.error(failure)
        self.ended = True
        reason, sequence = stop_of(finished, self._teller)
        delta = b'{"stop_reason":"%b","stop_sequence":%b}' % (reason, sequence)
        usage = usage_json(finished.usage)
        data = b'{"type":"message_delta","delta":%b,"usage":%b%b}' % (delta, usage, self._roost)
        return rest + _framed(b"message_delta", data) + _STOP

    def error(self, failure: Failure) -> bytes:
        """Give one error event; nothing follows."""
        if self.ended:
            return b""
        self.ended = True
        request_id = self._choice.reply_id.removeprefix(ID_PREFIX)
        return _framed(b"error", error_json(failure, request_id))

    def comment(self, text: str) -> bytes:
        """Give a ping, whatever the state: this API has no words for it."""
        return b"" if self.ended else _PING

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: some clients take every clean one for success."""
        return False

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` beside the usage at the end."""
        self._roost = roost_json(facts)

    def _begin(self) -> bytes:
        """Give the first event, the first time it is asked for."""
        if self._begun:
            return b""
        self._begun = True
        message = message_json(self._choice, b"[]", b"null", b"null", usage_json(self._usage))
        return _framed(b"message_start", b'{"type":"message_start","message":' + message + b"}")

    def _all(self, told: Iterable[Told]) -> bytes:
        return b"".join(self._piece(piece) for piece, _ in told)

    def _piece(self, piece: Piece) -> bytes:
        match piece:
            case Thought(text):
                if not self._choice.options.thoughts:
                    return b""
                said = b'{"type":"thinking_delta","thinking":%b}' % encode_text(text)
                return self._within("thinking") + self._delta(said)
            case Text(text):
                if not text:
                    return b""
                said = b'{"type":"text_delta","text":%b}' % encode_text(text)
                return self._within("text") + self._delta(said)
            case CallBegin(_, id, name):
                named = encode_text(id), encode_text(name)
                block = b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % named
                return self._open("tool_use", block)
            case CallArguments(_, text):
                said = b'{"type":"input_json_delta","partial_json":%b}' % encode_text(text)
                return self._delta(said)
            case CallEnd():
                return self._close()

    def _within(self, kind: Literal["thinking", "text"]) -> bytes:
        """Open a block of this kind unless one is open."""
        return b"" if self._kind == kind else self._open(kind, _BLOCKS[kind])

    def _open(self, kind: _Kind, block: bytes) -> bytes:
        closed = self._close()
        self._kind = kind
        data = b'{"type":"content_block_start","index":%d,"content_block":%b}'
        return closed + _framed(b"content_block_start", data % (self._index, block))

    def _delta(self, said: bytes) -> bytes:
        data = b'{"type":"content_block_delta","index":%d,"delta":%b}' % (self._index, said)
        return _framed(b"content_block_delta", data)

    def _close(self) -> bytes:
        """Close the open block, if one is."""
        if not self._kind:
            return b""
        self._kind = ""
        data = b'{"type":"content_block_stop","index":%d}' % self._index
        self._index += 1
        return _framed(b"content_block_stop", data)


class MessageBody:
    """Collects a reply that is sent whole; its blocks are those that a stream would have."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._teller = PieceTeller(call_prefix(choice))
        self._pieces: list[Piece] = []
        self._roost = b""

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
        """Put `facts` under `roost` in the body."""
        self._roost = roost_json(facts)

    def _take(self, told: Iterable[Told]) -> None:
        self._pieces += [piece for piece, _ in told]

    def _ended(self, finished: Finished) -> bytes:
        self._take(self._teller.finish(finished))
        if self._teller.failure is not None:
            raise RoostError(self._teller.failure)
        blocks = content_json(self._pieces, thoughts=self._choice.options.thoughts)
        reason, sequence = stop_of(finished, self._teller)
        usage = usage_json(finished.usage)
        return message_json(
            self._choice, blocks, b'"' + reason + b'"', sequence, usage, self._roost
        )


class CountBody:
    """Tells how long a prompt is."""

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body at the end. Raises the failure that ended it."""
        if isinstance(event, Failed):
            raise RoostError(event.failure)
        if not isinstance(event, Finished):
            return b""
        return b'{"input_tokens":%d}' % event.usage.prompt_tokens

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Say nothing of it: a count is the same wherever it is made."""


def content_json(pieces: Iterable[Piece], *, thoughts: bool) -> bytes:
    """Encode the blocks of an answer; neighbouring pieces of one kind are one block."""
    blocks: list[tuple[_Kind, list[str], CallBegin | None]] = []
    for piece in pieces:
        match piece:
            case Thought(text) if thoughts:
                _join(blocks, "thinking", text)
            case Text(text) if text:
                _join(blocks, "text", text)
            case CallBegin():
                blocks.append(("tool_use", [], piece))
            case CallArguments(_, text):
                blocks[-1][1].append(text)
    return b"[" + b",".join(_block(*block) for block in blocks) + b"]"


def _join(blocks: list[tuple[_Kind, list[str], CallBegin | None]], kind: _Kind, text: str) -> None:
    if not blocks or blocks[-1][0] != kind:
        blocks.append((kind, [], None))
    blocks[-1][1].append(text)


def _block(kind: _Kind, texts: list[str], call: CallBegin | None) -> bytes:
    text = "".join(texts)
    if call is not None:
        # The arguments are JSON already; only what ends lines in strings is written otherwise.
        named = encode_text(call.id), encode_text(call.name), escape_line_ends(clean(text).encode())
        return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % named
    if kind == "thinking":
        return b'{"type":"thinking","thinking":%b,"signature":""}' % encode_text(text)
    return b'{"type":"text","text":%b}' % encode_text(text)


def call_prefix(choice: Choice) -> str:
    """Begin the ids of calls: like no other reply's, since they must differ in a conversation."""
    return f"toolu_{choice.reply_id.removeprefix(ID_PREFIX)}_"


def stop_of(finished: Finished, teller: PieceTeller) -> tuple[bytes, bytes]:
    """Name the reason of an end, and the stop sequence as JSON; a cut answer asks for no tool."""
    if finished.reason == "length":
        return b"max_tokens", b"null"
    if finished.stop_text is not None:
        return b"stop_sequence", encode_text(finished.stop_text)
    return (b"tool_use" if teller.calls else b"end_turn"), b"null"


def usage_json(usage: Usage) -> bytes:
    """Encode token counts: what was computed of the prompt and what was cached, apart."""
    computed = usage.prompt_tokens - usage.cached_tokens
    return _USAGE % (computed, usage.cached_tokens, usage.completion_tokens)


def message_json(
    choice: Choice, content: bytes, reason: bytes, sequence: bytes, usage: bytes, more: bytes = b""
) -> bytes:
    """Encode a message of which all parts are JSON already."""
    named = encode_text(choice.reply_id), encode_text(choice.model)
    return _MESSAGE % (*named, content, reason, sequence, usage, more)


def roost_json(facts: Mapping[str, Fact]) -> bytes:
    """Encode the member `roost` with a comma before it."""
    return b',"roost":' + escape_line_ends(_encode(dict(facts)))


def _framed(event: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event, data)
