"""DECIDER: what texts of a grammar begin with, consist of and are followed by.

Sets of characters are bit masks: each bit is a range of code points that no rule tells apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

from roost.text.gbnf import (
    CODE_MAX,
    ROOT,
    Alt,
    Chars,
    Node,
    Ranges,
    Ref,
    Repeat,
    Rules,
    Seq,
    children,
)
from roost.text.gbnf_read import wrong

TANGLED = "its rules name each other in too many ways"
PASSES_MAX = 50
"""How often all rules are gone through until nothing changes; straight ones need two."""

VISITS_MAX = 200_000
"""Nodes that are looked at to find out what follows what, each as often as it takes."""


def refs(node: Node) -> Iterator[str]:
    """The rules that a node names."""
    if isinstance(node, Ref):
        yield node.rule
    for child in children(node):
        yield from refs(child)


def deepest_first(edges: Mapping[str, Iterable[str]]) -> tuple[list[str], str | None]:
    """Put names behind those they lead to, as far as there are no circles; and one in a circle."""
    out: dict[str, None] = {}
    circle = None
    for name in edges:
        path = {} if name in out else {name: iter(edges[name])}
        while path:
            last, rest = next(reversed(path.items()))
            following = next((one for one in rest if one not in out), None)
            if following is None:
                out[last] = None
                del path[last]
            elif following in path:
                circle = following
            else:
                path[following] = iter(edges[following])
    return list(out), circle


class Words:
    """What texts of nodes can be: empty, their first characters, and all they are made of."""

    def __init__(self, rules: Rules) -> None:
        self.order, _ = deepest_first({name: list(refs(node)) for name, node in rules.items()})
        self._cuts = _cuts(rules)
        self._masks: dict[Ranges, int] = {}
        self._nullable: set[str] = set()
        self._first = dict.fromkeys(rules, 0)
        self._all = dict.fromkeys(rules, 0)
        if all(self._grow(rules) for _ in range(PASSES_MAX)):
            raise wrong(TANGLED)

    def _grow(self, rules: Rules) -> bool:
        grew = False
        for name in self.order:
            node = rules[name]
            now = self.first(node), self.all(node), self.nullable(node)
            grew |= now != (self._first[name], self._all[name], name in self._nullable)
            self._first[name], self._all[name], _ = now
            self._nullable |= {name} if now[2] else set()
        return grew

    def nullable(self, node: Node) -> bool:
        """Whether nothing at all fits."""
        if isinstance(node, Ref):
            return node.rule in self._nullable
        if isinstance(node, Repeat):
            return node.least == 0 or self.nullable(node.item)
        if isinstance(node, Alt):
            return any(map(self.nullable, node.options))
        return isinstance(node, Seq) and all(map(self.nullable, node.parts))

    def first(self, node: Node) -> int:
        """The characters a text of the node may begin with."""
        if isinstance(node, Chars):
            return self.mask(node)
        if isinstance(node, Ref):
            return self._first[node.rule]
        out = 0
        for child in children(node):
            out |= self.first(child)
            if isinstance(node, Seq) and not self.nullable(child):
                break
        return out

    def all(self, node: Node) -> int:
        """The characters of any text of the node."""
        if isinstance(node, Chars):
            return self.mask(node)
        out = self._all[node.rule] if isinstance(node, Ref) else 0
        for child in children(node):
            out |= self.all(child)
        return out

    def leading(self, node: Node) -> Iterator[str]:
        """The rules that a text of the node may begin with."""
        if isinstance(node, Ref):
            yield node.rule
        for child in children(node):
            yield from self.leading(child)
            if isinstance(node, Seq) and not self.nullable(child):
                break

    def mask(self, node: Chars) -> int:
        """The characters of a set."""
        if (known := self._masks.get(node.ranges)) is not None:
            return known
        out = 0
        for low, high in node.ranges:
            first, end = bisect_left(self._cuts, low), bisect_right(self._cuts, high)
            out |= (1 << end) - (1 << first)
        self._masks[node.ranges] = out
        return out

    def example(self, mask: int) -> str:
        """One of these characters, to show to a person."""
        return repr(chr(self._cuts[(mask & -mask).bit_length() - 1]))


def _cuts(rules: Rules) -> list[int]:
    """The first code point of each class of those that nothing tells apart."""
    found = {0}
    for node in rules.values():
        for low, high in _ranges(node):
            found |= {low, min(high + 1, CODE_MAX)}
    return sorted(found)


def _ranges(node: Node) -> Iterator[tuple[int, int]]:
    if isinstance(node, Chars):
        yield from node.ranges
    for child in children(node):
        yield from _ranges(child)


def following(rules: Rules, words: Words) -> dict[str, int]:
    """Find which characters may follow each rule; raises `bad_request` if that takes too long."""
    found = dict.fromkeys(rules, 0)
    waiting = dict.fromkeys([ROOT, *reversed(words.order)])
    visits = 0
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        for node, after in placed(rules[name], found[name], words):
            visits += 1
            if isinstance(node, Ref) and after & ~found[node.rule]:
                found[node.rule] |= after
                waiting[node.rule] = None
        if visits > VISITS_MAX:
            raise wrong(TANGLED)
    return found


def placed(node: Node, after: int, words: Words) -> Iterator[tuple[Node, int]]:
    """Give every node within this one with the characters that may follow it there."""
    yield node, after
    if isinstance(node, Repeat):
        again = words.first(node.item) if node.most != 1 else 0
        yield from placed(node.item, after | again, words)
    elif isinstance(node, Seq):
        for part in reversed(node.parts):
            yield from placed(part, after, words)
            after = words.first(part) | (after if words.nullable(part) else 0)
    else:
        for option in children(node):
            yield from placed(option, after, words)
