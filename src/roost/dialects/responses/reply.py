"""MACHINE: the events of one stream become a response of /v1/responses, streamed or whole.

    response.created response.in_progress
        (output_item.added (content_part.added …delta* …done content_part.done)? output_item.done)*
        (response.completed | response.incomplete | response.failed)

Items and parts are numbered and never overlap; every event has its `event:` line and a
`sequence_number` that rises by one from 0; exactly one terminal event ends a stream, and it holds
the whole response, which is what a request without a stream gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Piece, Text, Thought
from roost.dialects.json_text import encode_text
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Fact
from roost.dialects.pieces import PieceTeller, Told
from roost.dialects.responses.response import (
    Json,
    Output,
    call_prefix,
    encoded,
    ended,
    failed,
    part_of,
    response_of,
)
from roost.errors import Failure, RoostError
from roost.text import sse


class ResponseStream:
    """Encodes one streamed response; whatever it is asked for after its end, it returns nothing."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._teller = PieceTeller(call_prefix(choice))
        self._output = Output(choice)
        self._number = 0
        self._begun = self._is_open = False
        self._facts: Mapping[str, Fact] = {}
        self.ended = False

    def head(self) -> bytes:
        """Give the events in front of everything, the first time they are asked for."""
        if self._begun or self.ended:
            return b""
        self._begun = True
        response = response_of(self._choice, "in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if self.ended:
            return b""
        if isinstance(event, Started):
            self._teller.started(event)
        elif isinstance(event, Delta):
            return self.head() + self._all(self._teller.delta(event))
        elif isinstance(event, Finished):
            return self.finish(event)
        elif isinstance(event, Failed):
            return self.error(event.failure)
        return b""

    def finish(self, finished: Finished) -> bytes:
        """Give what is left, and the whole response as the end."""
        if self.ended:
            return b""
        whole = finished.reason == "stop"
        rest = self.head() + self._all(self._teller.finish(finished)) + self._close(whole=whole)
        failure = self._teller.failure
        if failure is not None:
            return rest + self.error(failure)
        self.ended = True
        response = ended(self._choice, finished, self._output.items, self._facts)
        return rest + self._event(f"response.{response['status']}", response=response)

    def error(self, failure: Failure) -> bytes:
        """Give the response that failed, with as much of it as there is; nothing follows."""
        if self.ended:
            return b""
        told = self.head() + self._close(whole=False)
        self.ended = True
        response = failed(self._choice, failure, self._output.items)
        return told + self._event("response.failed", response=response)

    def comment(self, text: str) -> bytes:
        """Give a comment that keeps a waiting connection alive."""
        return b"" if self.ended else sse.encode_comment(text)

    @property
    def broken(self) -> bool:
        """Whether its end has to be broken off: no, it is told in full."""
        return False

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: it has an event of its own, with the response."""
        return True

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the response at the end."""
        self._facts = facts

    def _all(self, told: Iterable[Told]) -> bytes:
        return b"".join(self._piece(piece) for piece, _ in told)

    def _piece(self, piece: Piece) -> bytes:
        match piece:
            case Thought(text):
                return self._said(piece, "reasoning", "response.reasoning_text.delta", text)
            case Text(text):
                if not text:
                    return b""
                return self._said(piece, "message", "response.output_text.delta", text)
            case CallBegin():
                return self._close(whole=True) + self._open(piece)
            case CallArguments(_, text):
                self._output.add(text)
                return self._delta("response.function_call_arguments.delta", text)
            case CallEnd():
                return self._close(whole=True)

    def _said(self, piece: Thought | Text, kind: str, event: str, text: str) -> bytes:
        opened = b""
        if not self._is_open or self._output.kind != kind:
            opened = self._close(whole=True) + self._open(piece)
        self._output.add(text)
        return opened + self._delta(event, text)

    def _open(self, piece: Thought | Text | CallBegin) -> bytes:
        item = self._output.open(piece)
        self._is_open = True
        told = self._event("response.output_item.added", output_index=self._index, item=item)
        if isinstance(piece, CallBegin):
            return told
        part = part_of("output_text" if isinstance(piece, Text) else "reasoning_text", "")
        return told + self._event("response.content_part.added", **self._place(), part=part)

    def _close(self, *, whole: bool) -> bytes:
        """Close the open item, if one is."""
        if not self._is_open:
            return b""
        self._is_open = False
        kind = self._output.kind
        item, text = self._output.close(whole=whole)
        place = self._place()
        if kind == "function_call":
            del place["content_index"]
            name = item["name"]
            done = "response.function_call_arguments.done"
            told = self._event(done, **place, name=name, arguments=text)
        elif kind == "message":
            told = self._event("response.output_text.done", **place, text=text, logprobs=[])
            told += self._event(
                "response.content_part.done", **place, part=part_of("output_text", text)
            )
        else:
            part = part_of("reasoning_text", text)
            told = self._event("response.reasoning_text.done", **place, text=text)
            told += self._event("response.content_part.done", **place, part=part)
        return told + self._event("response.output_item.done", output_index=self._index, item=item)

    @property
    def _index(self) -> int:
        return len(self._output.items) - 1

    def _place(self) -> Json:
        item = self._output.items[-1]
        return {"item_id": item["id"], "output_index": self._index, "content_index": 0}

    def _delta(self, event: str, text: str) -> bytes:
        """Encode a delta; the most frequent event by far is put together by hand."""
        content = b"" if event.startswith("response.function") else b'"content_index":0,'
        data = b'{"type":"%b","sequence_number":%d,"item_id":%b,"output_index":%d,%b"delta":%b%b}'
        more = b',"logprobs":[]' if event == "response.output_text.delta" else b""
        item_id = encode_text(str(self._output.items[-1]["id"]))
        name = event.encode()
        told = data % (name, self._number, item_id, self._index, content, encode_text(text), more)
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (name, told)

    def _event(self, event: str, **members: object) -> bytes:
        told = {"type": event, "sequence_number": self._number, **members}
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (event.encode(), encoded(told))


class ResponseBody:
    """Collects a response that is sent whole; it is the one that a stream would end with."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._teller = PieceTeller(call_prefix(choice))
        self._output = Output(choice)
        self._is_open = False
        self._facts: Mapping[str, Fact] = {}

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
        if not isinstance(event, Finished):
            return b""
        self._take(self._teller.finish(event))
        if self._teller.failure is not None:
            raise RoostError(self._teller.failure)
        self._close(whole=event.reason == "stop")
        return encoded(ended(self._choice, event, self._output.items, self._facts))

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the body."""
        self._facts = facts

    def _take(self, told: Iterable[Told]) -> None:
        for piece, _ in told:
            match piece:
                case Thought(text) | Text(text):
                    kind = "reasoning" if isinstance(piece, Thought) else "message"
                    if not text:
                        continue
                    if not self._is_open or self._output.kind != kind:
                        self._open(piece)
                    self._output.add(text)
                case CallBegin():
                    self._open(piece)
                case CallArguments(_, text):
                    self._output.add(text)
                case CallEnd():
                    self._close(whole=True)

    def _open(self, piece: Thought | Text | CallBegin) -> None:
        self._close(whole=True)
        self._output.open(piece)
        self._is_open = True

    def _close(self, *, whole: bool) -> None:
        if self._is_open:
            self._output.close(whole=whole)
            self._is_open = False
