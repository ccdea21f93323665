"""DECIDER: GBNF as people write it becomes a grammar, or an error that says where it goes wrong."""

from __future__ import annotations

import re
from typing import NoReturn

from roost.errors import RoostError, fail
from roost.text.gbnf import (
    CODE_MAX,
    ROOT,
    Alt,
    Chars,
    Node,
    Ref,
    Repeat,
    Rules,
    Seq,
    inverted,
    literal,
    merged,
)

GRAMMAR_CHARS_MAX = 64 * 1024
DEPTH_MAX = 32
REPEAT_MAX = 1000
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_TIMES = re.compile(r"\{[ \t]*(\d{1,9})[ \t]*(?:(,)[ \t]*(\d{1,9})?[ \t]*)?\}")
_HEX = {"x": 2, "u": 4, "U": 8}
_SHORT = {"t": "\t", "r": "\r", "n": "\n"}
_LITERAL_ESCAPES = '"[]\\'
_TOO_DEEP = f"groups may be {DEPTH_MAX} deep"


def read_gbnf(text: str) -> Rules:
    """Read a grammar; raises `bad_request` with the line at fault."""
    if len(text) > GRAMMAR_CHARS_MAX:
        message = f"The grammar has {len(text)} characters, {GRAMMAR_CHARS_MAX} are read."
        raise fail("bad_request", message, param="grammar")
    rules = _Reader(text).rules()
    if ROOT not in rules:
        raise fail("bad_request", "The grammar has no rule 'root'.", param="grammar")
    return rules


class _Reader:
    """A place in a text; every method reads on from there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rules(self) -> Rules:
        found: Rules = {}
        self._skip(_LINES)
        while self._at < len(self._text):
            name = self._name("a rule's name")
            self._expect("::=")
            self._skip(_LINES)
            if name in found:
                self._fail(f"the rule '{name}' is there twice")
            found[name] = self._choice(0)
            if self._at < len(self._text) and self._peek() not in "\r\n":
                self._fail("a rule ends with its line")
            self._skip(_LINES)
        return found

    def _choice(self, depth: int) -> Node:
        options = [self._sequence(depth)]
        while self._take("|"):
            self._skip(_LINES)
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        gap = _LINES if depth else _SPACE
        self._skip(gap)
        while self._peek() not in ("", "|", ")", "\r", "\n"):
            item = self._item(depth)
            if isinstance(item, Seq) and len(item.parts) == 1:
                item = item.parts[0]
            while (times := self._times()) is not None:
                item = Repeat(item, *times)
            parts += item.parts if isinstance(item, Seq) else (item,)
            self._skip(gap)
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _item(self, depth: int) -> Node:
        if self._take('"'):
            return self._quoted()
        if self._take("["):
            return self._class()
        if self._take("("):
            return self._group(depth + 1)
        if self._take("."):
            return Chars(((0, CODE_MAX),))
        return Ref(self._name("a text, a class, a group or a rule's name"))

    def _group(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            self._fail(_TOO_DEEP)
        self._skip(_LINES)
        inner = self._choice(depth)
        self._expect(")")
        # One that is repeated as a whole must not be unfolded into what is around it.
        return Alt((inner,)) if isinstance(inner, Seq) and inner.parts else inner

    def _quoted(self) -> Node:
        codes = []
        while not self._take('"'):
            codes.append(self._code())
        text = literal("".join(map(chr, codes)))
        # A repetition behind a text is of all of it, as in llama.cpp.
        return text if len(text.parts) == 1 or self._times_ahead() is None else Alt((text,))

    def _class(self) -> Node:
        negated = self._take("^")
        ranges = []
        while not self._take("]"):
            low = high = self._code()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                high = self._code()
            if low > high:
                self._fail("a range goes from the lower to the higher character")
            ranges.append((low, high))
        found = inverted(merged(ranges)) if negated else merged(ranges)
        return Chars(found) if found else self._fail("a class matches nothing")

    def _code(self) -> int:
        char = self._next()
        if char in "\r\n":
            self._fail("a text or class is not closed in its line")
        if char != "\\":
            return ord(char)
        kind = self._next()
        if kind in _LITERAL_ESCAPES:
            return ord(kind)
        if kind in _SHORT:
            return ord(_SHORT[kind])
        return self._hex(kind)

    def _hex(self, kind: str) -> int:
        digits = self._text[self._at : self._at + _HEX.get(kind, 0)]
        if not re.fullmatch("[0-9A-Fa-f]+", digits) or len(digits) != _HEX[kind]:
            self._fail(f"the escape '\\{kind}' means nothing")
        self._at += len(digits)
        code = int(digits, 16)
        if code > CODE_MAX or 0xD800 <= code < 0xE000:
            self._fail("there is no such character")
        return code

    def _times_ahead(self) -> str | None:
        self._skip(_SPACE)
        return self._peek() if self._peek() and self._peek() in "*+?{" else None

    def _times(self) -> tuple[int, int | None] | None:
        sign = self._times_ahead()
        if sign is None:
            return None
        if sign != "{":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        found = _TIMES.match(self._text, self._at)
        if found is None:
            self._fail("a repetition is written {m}, {m,} or {m,n}")
        self._at = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > REPEAT_MAX or (most is not None and most < max(1, least)):
            self._fail(f"a repetition goes from the lower to the higher number, to {REPEAT_MAX}")
        return least, most

    def _name(self, wanted: str) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            self._fail(f"{wanted} is missing")
        self._at = found.end()
        self._skip(_SPACE)
        return found[0]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            self._fail("it ends too early")
        self._at += 1
        return char

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._fail(f"'{sign}' is missing")

    def _skip(self, gap: re.Pattern[str]) -> None:
        found = gap.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _fail(self, what: str) -> NoReturn:
        raise wrong(f"line {self._text.count(chr(10), 0, self._at) + 1}: {what}")


def wrong(what: str) -> RoostError:
    """Say what is wrong with a grammar."""
    return fail("bad_request", f"The grammar cannot be used: {what}.", param="grammar")
