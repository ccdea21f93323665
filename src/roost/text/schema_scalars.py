"""DECIDER: texts of JSON scalars as grammars: strings of a length or format, numbers in a range."""

from __future__ import annotations

import math

import msgspec

from roost.text.gbnf import (
    EMPTY,
    Alt,
    Chars,
    Node,
    Ranges,
    Repeat,
    Seq,
    chars,
    inverted,
    literal,
    merged,
    one_of,
    optional,
    seq,
    without,
)

DIGITS_MAX = 16
"""More digits than a double holds are noise, and a model that has begun to write them goes on."""

_SPECIAL: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DIGIT = chars("09")
_HEX = chars("09", "AF", "af")
# Halves of surrogate pairs are no characters: no escape may make one.
_UNICODE = Alt(
    (
        Seq((chars("09", "AC", "EF", "ac", "ef"), Repeat(_HEX, 3, 3))),
        Seq((chars("D", "d"), chars("07"), Repeat(_HEX, 2, 2))),
    )
)
CHAR = Alt(
    (
        Chars(inverted(_SPECIAL)),
        seq(
            literal("\\"),
            Alt((chars('"', "\\", "/", "b", "f", "n", "r", "t"), seq(literal("u"), _UNICODE))),
        ),
    )
)
"""One character within a string, escaped where it has to be."""

BOOLEAN = one_of("true", "false")
NULL = literal("null")
_WHOLE = Alt((literal("0"), Seq((chars("19"), Repeat(_DIGIT, 0, DIGITS_MAX - 1)))))
_FRACTION = seq(literal("."), Repeat(_DIGIT, 1, DIGITS_MAX))
_EXPONENT = Seq((chars("E", "e"), optional(chars("+", "-")), Repeat(_DIGIT, 1, 3)))
INTEGER = Seq((optional(chars("-")), _WHOLE))
NUMBER = Seq((*INTEGER.parts, optional(_FRACTION), optional(_EXPONENT)))


def quoted(inner: Node) -> Node:
    """A string with this between its quotes."""
    return seq(literal('"'), inner, literal('"'))


def string(char: Node, least: int = 0, most: int | None = None) -> Node:
    """A string of so many characters."""
    return quoted(EMPTY if most == 0 else Repeat(char, least, most))


def within_string(ranges: Ranges) -> Node:
    """A character of these ranges as it is written in a string, the plain ones if there are any."""
    plain = without(merged(ranges), _SPECIAL)
    if plain:
        return Chars(plain)
    codes = [code for low, high in ranges for code in range(low, high + 1)]
    return one_of(*(_ESCAPES.get(chr(code), f"\\u{code:04x}") for code in codes))


def _two(tens: str, ones: str = "09") -> Node:
    return Seq((chars(tens), chars(ones)))


def _formats() -> dict[str, Node]:
    month = Alt((seq(literal("0"), chars("19")), seq(literal("1"), chars("02"))))
    day = Alt((seq(literal("0"), chars("19")), _two("12"), seq(literal("3"), chars("01"))))
    date = seq(Repeat(_DIGIT, 4, 4), literal("-"), month, literal("-"), day)
    hour = Alt((_two("01"), seq(literal("2"), chars("03"))))
    colon, sixty = literal(":"), _two("05")
    clock = seq(hour, colon, sixty, colon, sixty, optional(seq(literal("."), Repeat(_DIGIT, 1, 9))))
    zone = Alt((literal("Z"), seq(chars("+", "-"), hour, colon, sixty)))
    uuid = [Repeat(_HEX, count, count) for count in (8, 4, 4, 4, 12)]
    return {
        "date": date,
        "time": seq(clock, zone),
        "date-time": seq(date, literal("T"), clock, zone),
        "uuid": seq(uuid[0], *(part for one in uuid[1:] for part in (literal("-"), one))),
    }


FORMATS = _formats()
"""The formats that a grammar can hold a string to; others are remarks, as the standard says."""


def integer(least: int | None, most: int | None) -> Node:
    """A whole number in this range, which is not empty; None is no bound."""
    if least is None and most is None:
        return INTEGER
    options: list[Node] = []
    if least is None or least < 0:
        below = None if least is None else -least
        above = 1 if most is None or most >= 0 else -most
        options.append(seq(literal("-"), _natural(above, below)))
    if most is None or most >= 0:
        options.append(_natural(max(0, least or 0), most))
    return Alt(tuple(options), sealed=True)


class Bounds(msgspec.Struct, frozen=True):
    """A range of numbers: with its ends (`least`, `most`) or without them; None is no bound."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def negated(self) -> Bounds:
        """The range of these numbers with the other sign."""
        ends = (self.most, self.least, self.below, self.above)
        return Bounds(*(None if end is None else -end for end in ends))

    def whole(self) -> tuple[int | None, int | None]:
        """The first and the last whole number."""
        low = [math.ceil(self.least)] if self.least is not None else []
        low += [math.floor(self.above) + 1] if self.above is not None else []
        high = [math.floor(self.most)] if self.most is not None else []
        high += [math.ceil(self.below) - 1] if self.below is not None else []
        return max(low, default=None), min(high, default=None)


def number(bounds: Bounds) -> Node | None:
    """A number in this range; None where there are no such numbers, or only between two others."""
    if bounds == Bounds():
        return NUMBER
    negative = [seq(literal("-"), one) for one in _unsigned(bounds.negated)]
    options = [*_unsigned(bounds), *negative]
    return Alt(tuple(options), sealed=True) if options else None


def _unsigned(bounds: Bounds) -> list[Node]:
    """Numbers of 0 and more in a range: whole ones, and those with a fraction."""
    low, high = bounds.whole()
    low = max(0, low or 0)
    options: list[Node] = [_natural(low, high)] if high is None or low <= high else []
    tops = [math.floor(end) - 1 for end in (bounds.most, bounds.below) if end is not None]
    top = min(tops, default=None)
    above = bounds.above
    from_above = above is not None and above >= max(0, bounds.least or 0)
    if above is not None and from_above and above == int(above) and (top is None or above <= top):
        zeros = (Repeat(chars("0"), 0, DIGITS_MAX - 2), chars("19"), Repeat(_DIGIT, 0, 1))
        options.append(seq(literal(f"{int(above)}."), *zeros))
    if top is None or low <= top:
        options.append(seq(_natural(low, top), _FRACTION))
    return options


def _natural(least: int, most: int | None) -> Node:
    """A number of 0 and more without a sign, by its digits."""
    first, last = str(least), "9" * DIGITS_MAX if most is None else str(most)
    options = []
    for count in range(len(first), len(last) + 1):
        low = first if count == len(first) else "1" + "0" * (count - 1)
        high = last if count == len(last) else "9" * count
        options.append(_between(low, high))
    return options[0] if len(options) == 1 else Alt(tuple(options), sealed=True)


def _between(low: str, high: str) -> Node:
    """Numbers of as many digits as both."""
    rest = len(low) - 1
    if rest < 0:
        return EMPTY
    if low[0] == high[0]:
        return seq(literal(low[0]), _between(low[1:], high[1:]))
    a, b = int(low[0]), int(high[0])
    options: list[Node] = []
    if low[1:].strip("0"):
        options.append(seq(literal(low[0]), _between(low[1:], "9" * rest)))
        a += 1
    if high[1:].strip("9"):
        options.append(seq(literal(high[0]), _between("0" * rest, high[1:])))
        b -= 1
    if a <= b:
        options.append(Seq((chars(f"{a}{b}"), *([Repeat(_DIGIT, rest, rest)] if rest else []))))
    return options[0] if len(options) == 1 else Alt(tuple(options))
