"""MACHINE: the text of an answer, in any pieces, becomes thoughts, text and calls of tools.

    start ──▶ thinking ──▶ content ⇄ call

Where the text is cut makes no difference to what is found. What may be the beginning of a mark is
held until that is decided, and so is white space that may stand before one, since it belongs to
neither side. Thoughts are only where an answer begins: later the mark is a word like any other. In
quotes the mark that ends them is meant and not used, `</think>` as here.

A call is held until it is whole and told then, so that nobody acts on half of one. One that its
limit or a stop string cuts off is not told at all; one that cannot be read is a failure.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.events import Finished
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Piece, Text, Thought
from roost.core.reading import PLAIN, Reading
from roost.core.request import Message, ToolCall
from roost.errors import Failure

CALL_CHARS_MAX = 16 * 1024 * 1024
CALLS_MAX = 128
CLOSINGS_MAX = 64
"""So many closing marks may be part of one call's JSON before it is given up."""
SLICE_CHARS = 16 * 1024
"""Some clients do not read longer lines than a few times this."""

Section: TypeAlias = Literal["start", "thinking", "content", "call", "over"]
_QUOTES = "`'\""
_decode = msgspec.json.Decoder().decode


class _Call(msgspec.Struct):
    """A call as models write it."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


_call = msgspec.json.Decoder(_Call).decode
_calls = msgspec.json.Decoder(list[_Call]).decode


class AnswerReader:
    """Reads one answer; the ids of its calls are `call_prefix` and their number.

    `failure` is set once the answer cannot be given as it was asked for; nothing comes after it.
    `cut` says that a call was begun and not told.
    """

    def __init__(self, reading: Reading = PLAIN, call_prefix: str = "call_") -> None:
        self._reading = reading
        self._call_prefix = call_prefix
        self._state: Section = "start" if reading.think else "content"
        self._held = ""
        # White space is dropped at the beginning of thoughts and after the end of what is no text.
        self._trims = False
        self._before = ""
        self._parts: list[str] = []
        self._tail = ""
        self._size = self._scanned = self._closings = 0
        self.calls = 0
        self.cut = False
        self.failure: Failure | None = None
        self._plain = reading.think is None and reading.call is None
        # No text holds a NUL that matters, so where there is no mark nothing is looked for.
        self._opens = reading.call[0][0] if reading.call else "\0"
        self._closes = reading.think[1][0] if reading.think else "\0"
        if reading.begun:
            self.push(reading.begun)

    @property
    def section(self) -> Section:
        """What the text so far ends in."""
        return self._state

    @property
    def is_blank(self) -> bool:
        """Whether the last of the text is white space that belongs to nothing."""
        return self._trims and not self._held.strip()

    @property
    def thinks(self) -> bool:
        """Whether the text so far ends within thoughts."""
        return self._state == "thinking"

    def push(self, text: str) -> list[Piece]:
        """Take more of the answer; return what it is."""
        if self._plain:
            return [Text(text)] if text else []
        if not (self._held or self._trims) and (quick := self._quick(text)):
            return quick
        if self._state == "call" and not self._grown(text):
            return []
        if self._state != "call":
            self._held += text
        out: list[Piece] = []
        while self._step(out):
            pass
        return out

    def _quick(self, text: str) -> list[Piece]:
        """Pass on a piece with nothing in it that may be held; most are so."""
        if not text or text[-1].isspace():
            return []
        if self._state == "content":
            return [] if self._opens in text else [Text(text)]
        if self._state != "thinking" or self._closes in text:
            return []
        self._before = text[-1]
        return [Thought(text)]

    def finish(self, finished: Finished) -> list[Piece]:
        """The answer is over, so what is held is no mark; see `failure` and `cut` afterwards."""
        out: list[Piece] = []
        is_whole = finished.reason == "stop" and finished.stop_text is None
        held, state = self._held, self._state
        self._held, self._state = "", "over"
        if state == "thinking":
            think = self._reading.think
            closed = think is not None and held.startswith(think[1])
            self._think(out, "" if closed else held.rstrip())
        elif state in ("start", "content"):
            self._say(out, held)
        elif state == "call":
            self._end_call(out, is_whole=is_whole)
        if self._reading.mode == "required" and is_whole and not self.calls:
            self._fail("the model made no call, though one was demanded")
        return out

    # --- one step: True where there may be another one

    def _step(self, out: list[Piece]) -> bool:
        match self._state:
            case "start":
                return self._starts()
            case "thinking":
                return self._thinking(out)
            case "content":
                return self._content(out)
            case "call":
                return self._calling(out)
            case "over":
                self._held = ""
                return False

    def _starts(self) -> bool:
        assert self._reading.think is not None, "without thoughts there is nothing to wait for"
        opens, seen = self._reading.think[0], self._held.lstrip()
        if opens.startswith(seen) and seen != opens:
            return False
        if seen.startswith(opens):
            self._state, self._held, self._trims = "thinking", seen[len(opens) :], True
        else:
            self._state = "content"
        return True

    def _thinking(self, out: list[Piece]) -> bool:
        assert self._reading.think is not None, "whoever thinks has marks for it"
        closes, held = self._reading.think[1], self._held
        at = held.find(closes)
        if at < 0:
            keep = len(held) - _overlap(held, closes)
            keep = len(held[:keep].rstrip())
            self._think(out, held[:keep])
            self._held = held[keep:]
            return False
        end = at + len(closes)
        before = held[at - 1] if at else self._before
        if before and before in _QUOTES:
            if end == len(held):
                self._think(out, held[:at])
                self._held = held[at:]
                return False
            if held[end] == before:
                self._think(out, held[:end])
                self._held = held[end:]
                return True
        self._think(out, held[:at].rstrip())
        self._state, self._held, self._trims = "content", held[end:], True
        return True

    def _content(self, out: list[Piece]) -> bool:
        held = self._held
        if self._reading.call is None:
            self._say(out, held)
            self._held = ""
            return False
        opens = self._reading.call[0]
        at = held.find(opens)
        if at >= 0:
            self._say(out, held[:at].rstrip())
            self._state, self._held = "call", ""
            return self._grown(held[at + len(opens) :])
        keep = len(held) - _overlap(held, opens)
        keep = len(held[:keep].rstrip())
        self._say(out, held[:keep])
        self._held = held[keep:]
        return False

    def _calling(self, out: list[Piece]) -> bool:
        """Look for the closing mark; one that leaves no JSON before it stands inside of it."""
        assert self._reading.call is not None, "whoever calls has marks for it"
        closes, text = self._reading.call[1], "".join(self._parts)
        at = text.find(closes, self._scanned)
        if at < 0:
            return False
        self._scanned = at + 1
        self._closings += 1
        found = _read(text[:at])
        if found is None:
            if self._closings == CLOSINGS_MAX:
                self._fail("its JSON is not valid")
            return True
        self._forget_call()
        self._state, self._held, self._trims = "content", text[at + len(closes) :], True
        self._tell(out, found)
        return True

    def _end_call(self, out: list[Piece], *, is_whole: bool) -> None:
        assert self._reading.call is not None, "whoever calls has marks for it"
        text = "".join(self._parts)
        self._forget_call()
        if not is_whole:
            self.cut = True
            return
        # Models forget the closing mark, and where the prompt has begun a call it may end it too.
        rest = text[: len(text) - _overlap(text, self._reading.call[1])]
        closed = (text + self._reading.ends).partition(self._reading.call[1])[0]
        found = _read(rest) or _read(closed)
        if found is None:
            self._fail("its JSON is not valid")
        else:
            self._tell(out, found)

    # --- the parts

    def _think(self, out: list[Piece], text: str) -> None:
        text = self._trimmed(text)
        if text:
            self._before = text[-1]
            out.append(Thought(text))

    def _say(self, out: list[Piece], text: str) -> None:
        text = self._trimmed(text)
        if text:
            out.append(Text(text))

    def _trimmed(self, text: str) -> str:
        if self._trims:
            text = text.lstrip()
            self._trims = not text
        return text

    def _grown(self, text: str) -> bool:
        """Keep more of a call; whether there may be its end."""
        assert self._reading.call is not None, "whoever calls has marks for it"
        closes = self._reading.call[1]
        self._parts.append(text)
        self._size += len(text)
        seen = self._tail + text
        self._tail = seen[1 - len(closes) :] if len(closes) > 1 else ""
        if self._size > CALL_CHARS_MAX:
            self._fail(f"it is longer than {CALL_CHARS_MAX} characters")
        return closes in seen

    def _forget_call(self) -> None:
        self._parts, self._tail = [], ""
        self._size = self._scanned = self._closings = 0

    def _tell(self, out: list[Piece], found: list[ToolCall]) -> None:
        reading = self._reading
        for call in found:
            if reading.mode == "none" or (self.calls and not reading.parallel):
                return
            wrong = self._wrong(call)
            if wrong:
                self._fail(wrong)
                return
            index = self.calls
            self.calls += 1
            out.append(CallBegin(index, f"{self._call_prefix}{index}", call.name))
            text = call.arguments
            out += [
                CallArguments(index, text[at : at + SLICE_CHARS])
                for at in range(0, len(text), SLICE_CHARS)
            ]
            out.append(CallEnd(index))

    def _wrong(self, call: ToolCall) -> str:
        if self._reading.only and call.name != self._reading.only:
            return "it is of another tool than was demanded"
        if call.name not in self._reading.tools:
            return "there is no such tool"
        return "there are too many" if self.calls == CALLS_MAX else ""

    def _fail(self, why: str) -> None:
        if self.failure is None:
            message = f"The model's call of a tool cannot be used: {why}. Ask again."
            self.failure = Failure("bad_tool_call", message)
        self._forget_call()
        self._state, self._held = "over", ""


def read_answer(text: str, reading: Reading | None, finished: Finished) -> Message:
    """Read a whole answer into the message that a client gets; a call that fails is left out."""
    if reading is None:
        return Message("assistant", text)
    reader = AnswerReader(reading)
    pieces = reader.push(text) + reader.finish(finished)
    said = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    thought = "".join(piece.text for piece in pieces if isinstance(piece, Thought))
    return Message("assistant", said, reasoning=thought, calls=calls_in(pieces))


def calls_in(pieces: list[Piece]) -> tuple[ToolCall, ...]:
    """Give the calls that these pieces tell, each as one."""
    begun = [piece for piece in pieces if isinstance(piece, CallBegin)]
    arguments: dict[int, list[str]] = {call.index: [] for call in begun}
    for piece in pieces:
        if isinstance(piece, CallArguments):
            arguments[piece.index].append(piece.text)
    return tuple(ToolCall(one.id, one.name, "".join(arguments[one.index])) for one in begun)


def _overlap(text: str, mark: str) -> int:
    """Say how long an end of the text may be the beginning of the mark."""
    # Nearly every text ends with a letter that is in no mark, and then no slice is taken.
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text[-size] == mark[0] and mark.startswith(text[-size:]):
            return size
    return 0


def _read(text: str) -> list[ToolCall] | None:
    """Read the JSON of one call, or of a list of them; None where it is none."""
    text = text.strip()
    try:
        found = _calls(text) if text.startswith("[") else [_call(text)]
        calls = [ToolCall("", one.name, _arguments(one)) for one in found]
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return calls or None


def _arguments(call: _Call) -> str:
    """Give the arguments as the model wrote them, if they are an object, or a string with one."""
    raw = bytes(call.arguments) or bytes(call.parameters) or b"{}"
    value = _decode(raw)
    text = raw.decode()
    if isinstance(value, str):
        text, value = value, _decode(value)
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise msgspec.ValidationError("arguments are an object")
    return text
