"""DECIDER: patterns of JSON Schema, as far as they are regular and anchored, become grammars."""

from __future__ import annotations

import re
from typing import NoReturn

from roost.errors import fail
from roost.text.gbnf import Alt, Node, Ranges, Repeat, inverted, merged, seq
from roost.text.gbnf_read import DEPTH_MAX, REPEAT_MAX
from roost.text.schema_scalars import CHAR, within_string

PATTERN_CHARS_MAX = 1000
_TIMES = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}")
_DIGITS: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
_SETS = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}
_ANY = inverted(((0x0A, 0x0A), (0x0D, 0x0D)))


def read_pattern(pattern: str) -> Node:
    """Read a pattern that begins with `^`; what a string holds that it matches, without quotes.

    Raises `bad_request` for what is no pattern and `unsupported` for what a grammar cannot say.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise _refused(f"it is longer than {PATTERN_CHARS_MAX} characters")
    if not pattern.startswith("^"):
        raise _refused("it does not begin with '^', so it may match anywhere")
    return _Pattern(pattern).whole()


def _refused(why: str) -> Exception:
    message = f"A 'pattern' of the schema cannot be held to: {why}."
    return fail("unsupported", message, param="response_format")


class _Pattern:
    """A place in a pattern; every method reads on from there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1

    def whole(self) -> Node:
        node = self._choice(0)
        closed = self._take("$")
        if self._at < len(self._text):
            self._fail("what stands behind its end")
        if isinstance(node, Alt):
            self._fail("a choice outside of a group")
        return node if closed else seq(node, Repeat(CHAR, 0, None))

    def _choice(self, depth: int) -> Node:
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")", "$"):
            item = self._item(depth)
            times = self._times()
            parts.append(item if times is None else Repeat(item, *times))
        return seq(*parts)

    def _item(self, depth: int) -> Node:
        if self._take("("):
            return self._group(depth + 1)
        if self._take("["):
            return within_string(self._class())
        if self._take("."):
            return within_string(_ANY)
        if self._peek() in tuple("^*+?{}])"):
            self._fail(f"'{self._peek()}' in this place")
        return within_string(self._one())

    def _group(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            self._fail(f"groups within more than {DEPTH_MAX} others")
        if self._take("?") and not self._take(":"):
            self._fail("groups that look ahead or behind, or have names")
        inner = self._choice(depth)
        if not self._take(")"):
            self._fail("a group that is not closed")
        return inner

    def _class(self) -> Ranges:
        negated = self._take("^")
        found: list[tuple[int, int]] = []
        while not self._take("]"):
            some = self._one()
            single = len(some) == 1 and some[0][0] == some[0][1]
            ahead = self._text[self._at : self._at + 2]
            if single and ahead[:1] == "-" and ahead not in ("-", "-]"):
                self._at += 1
                some = ((some[0][0], self._one()[-1][1]),)
            found += some
        out = inverted(merged(found)) if negated else merged(found)
        if not out or any(low > high for low, high in found):
            self._fail("a class of no characters")
        return out

    def _one(self) -> Ranges:
        char = self._next()
        if char != "\\":
            return ((ord(char), ord(char)),)
        kind = self._next()
        if kind.lower() in _SETS:
            found = _SETS[kind.lower()]
            return found if kind.islower() else inverted(found)
        code = self._escape(kind)
        return ((code, code),)

    def _escape(self, kind: str) -> int:
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if kind in "xu":
            width = 2 if kind == "x" else 4
            digits = self._text[self._at : self._at + width]
            if re.fullmatch(f"[0-9A-Fa-f]{{{width}}}", digits):
                self._at += width
                return int(digits, 16)
        if kind.isalnum():
            self._fail(f"'\\{kind}'")
        return ord(kind)

    def _times(self) -> tuple[int, int | None] | None:
        found = _TIMES.match(self._text, self._at)
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if found is None and simple is None:
            return None
        self._at = found.end() if found else self._at + 1
        self._take("?")
        return _counts(found) if found else simple

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            self._fail("an end that comes too early")
        self._at += 1
        return char

    def _take(self, sign: str) -> bool:
        taken = self._text.startswith(sign, self._at)
        self._at += len(sign) if taken else 0
        return taken

    def _fail(self, what: str) -> NoReturn:
        raise _refused(f"{what} cannot be used")


def _counts(found: re.Match[str]) -> tuple[int, int | None]:
    least = int(found[1])
    most = int(found[3]) if found[3] else None if found[2] else least
    if max(least, most or 0) > REPEAT_MAX or (most is not None and most < max(1, least)):
        raise _refused(f"it repeats {found[0]}; a grammar repeats at most {REPEAT_MAX} times")
    return least, most
