"""VALUE: grammars that answers can be held to, and their text in the notation GBNF.

A grammar is made of code points: sets of them, sequences, choices, repetitions and rules by name.
What an engine reads is always written here, so its parser never meets what somebody else has typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

import msgspec

CODE_MAX = 0x10FFFF
ROOT = "root"
Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Chars(msgspec.Struct, frozen=True, tag="chars"):
    """One code point of these ranges, both ends included, in order and apart from each other."""

    ranges: Ranges


class Ref(msgspec.Struct, frozen=True, tag="ref"):
    """What the rule of this name says."""

    rule: str


class Seq(msgspec.Struct, frozen=True, tag="seq"):
    """One after another; none at all is the empty text."""

    parts: tuple[Node, ...]


class Alt(msgspec.Struct, frozen=True, tag="alt"):
    """One of these.

    `sealed` says that whoever made it knows: no text of one, with what follows the choice, is the
    beginning of another one's.
    """

    options: tuple[Node, ...]
    sealed: bool = False


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """The item `least` to `most` times; None is no limit."""

    item: Node
    least: int
    most: int | None


Node: TypeAlias = Chars | Ref | Seq | Alt | Repeat
Rules: TypeAlias = dict[str, Node]
"""Rules by name; a grammar begins with the one called `root`."""

EMPTY = Seq(())


def literal(text: str) -> Seq:
    """Exactly this text."""
    return Seq(tuple(Chars(((ord(char), ord(char)),)) for char in text))


def one_of(*texts: str) -> Alt:
    """One of these texts."""
    return Alt(tuple(map(literal, texts)))


def seq(*parts: Node) -> Seq:
    """One after another, sequences within it unfolded."""
    return Seq(tuple(_unfolded(parts)))


def optional(item: Node) -> Repeat:
    """The item or nothing."""
    return Repeat(item, 0, 1)


def chars(*ranges: str) -> Chars:
    """A code point of these ranges, each written as its first and last one, or as the only one."""
    return Chars(merged((ord(one[0]), ord(one[-1])) for one in ranges))


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Put ranges in order and join those that touch."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return tuple(out)


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """Take code points out of ranges."""
    out = list(ranges)
    for low, high in taken:
        apart = [((a, min(b, low - 1)), (max(a, high + 1), b)) for a, b in out]
        out = [one for pair in apart for one in pair if one[0] <= one[1]]
    return merged(out)


def inverted(ranges: Ranges) -> Ranges:
    """All other code points."""
    return without(((0, CODE_MAX),), ranges)


def written(rules: Rules) -> str:
    """Write a grammar as GBNF, its root first."""
    names = [ROOT, *sorted(rules.keys() - {ROOT})]
    return "".join(f"{name} ::= {_top(rules[name])}\n" for name in names)


def children(node: Node) -> tuple[Node, ...]:
    """What a node is made of."""
    if isinstance(node, Seq):
        return node.parts
    if isinstance(node, Alt):
        return node.options
    return (node.item,) if isinstance(node, Repeat) else ()


def _unfolded(parts: Iterable[Node]) -> Iterator[Node]:
    for part in parts:
        if isinstance(part, Seq):
            yield from _unfolded(part.parts)
        else:
            yield part


def _top(node: Node) -> str:
    return " | ".join(map(_joined, node.options)) if isinstance(node, Alt) else _joined(node)


def _joined(node: Node) -> str:
    if not isinstance(node, Seq):
        return _atom(node)
    runs = groupby(node.parts, _only_code)
    words = ([_quoted(run)] if is_text else map(_atom, run) for is_text, run in _split(runs))
    return " ".join(word for some in words for word in some) or '""'


def _split(runs: Iterable[tuple[int, Iterator[Node]]]) -> Iterator[tuple[bool, list[Node]]]:
    """Join neighbours that are one code point each into runs of text."""
    text: list[Node] = []
    for code, run in runs:
        if code >= 0:
            text += run
            continue
        if text:
            yield True, text
            text = []
        yield False, list(run)
    if text:
        yield True, text


def _only_code(node: Node) -> int:
    if isinstance(node, Chars) and len(node.ranges) == 1:
        low, high = node.ranges[0]
        return low if low == high else -1
    return -1


def _quoted(run: Iterable[Node]) -> str:
    return '"' + "".join(_escaped(_only_code(node)) for node in run) + '"'


def _atom(node: Node) -> str:
    if isinstance(node, Ref):
        return node.rule
    if isinstance(node, Chars):
        return _quoted([node]) if _only_code(node) >= 0 else _class(node.ranges)
    if isinstance(node, Repeat):
        return _atom(node.item) + _times(node)
    return f"({_top(node)})"


def _class(ranges: Ranges) -> str:
    pairs = ((_escaped(low), _escaped(high)) for low, high in ranges)
    return "[" + "".join(a if a == b else f"{a}-{b}" for a, b in pairs) + "]"


def _times(node: Repeat) -> str:
    short = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((node.least, node.most))
    most = "" if node.most is None else str(node.most)
    return short or "{" + (f"{node.least}," if node.least != node.most else "") + most + "}"


_PLAIN = re.compile(r"[A-Za-z0-9 !#$%&'()*+,./:;<=>?@_`{|}~]")


def _escaped(code: int) -> str:
    char = chr(code)
    if _PLAIN.fullmatch(char):
        return char
    width, letter = (2, "x") if code < 0x100 else (4, "u") if code < 0x10000 else (8, "U")
    return f"\\{letter}{code:0{width}X}"
