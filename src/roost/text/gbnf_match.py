"""DECIDER: whether a text is one of a grammar's, and what its shortest text is."""

from __future__ import annotations

from typing import TypeAlias

from roost.text.gbnf import ROOT, Alt, Chars, Node, Ref, Repeat, Rules, Seq

Stack: TypeAlias = "tuple[Node, Stack] | None"
"""What is still to come, the next first."""


def matches(rules: Rules, text: str, *, whole: bool = True) -> bool:
    """Whether this is a text of the grammar, or the beginning of one where not `whole`."""
    stacks = _after(rules, text)
    return None in stacks if whole else bool(stacks)


def open_ways(rules: Rules, text: str) -> int:
    """How many ways there are to go on after a text, its end included; an engine follows each."""
    return len(_after(rules, text))


def _after(rules: Rules, text: str) -> set[Stack]:
    stacks = _ready((rules[ROOT], None), rules)
    for char in text:
        after = {stack[1] for stack in stacks if stack and _takes(stack[0], char)}
        stacks = {one for stack in after for one in _ready(stack, rules)}
    return stacks


def _takes(node: Node, char: str) -> bool:
    return isinstance(node, Chars) and any(low <= ord(char) <= high for low, high in node.ranges)


def _ready(stack: Stack, rules: Rules) -> set[Stack]:
    """Follow every way to where it needs a character, or to the end."""
    found: set[Stack] = set()
    seen = {stack}
    waiting = [stack]
    while waiting:
        one = waiting.pop()
        if one is None or isinstance(one[0], Chars):
            found.add(one)
            continue
        # What may be empty and is repeated leads back to where it was.
        more = set(_next(one[0], one[1], rules)) - seen
        seen |= more
        waiting += more
    return found


def _next(node: Node, rest: Stack, rules: Rules) -> list[Stack]:
    if isinstance(node, Ref):
        return [(rules[node.rule], rest)]
    if isinstance(node, Alt):
        return [(option, rest) for option in node.options]
    if isinstance(node, Seq):
        for part in reversed(node.parts):
            rest = (part, rest)
        return [rest]
    assert isinstance(node, Repeat)
    if node.most == 0:
        return [rest]
    most = None if node.most is None else node.most - 1
    again: Stack = (node.item, (Repeat(node.item, max(0, node.least - 1), most), rest))
    return [again] if node.least else [again, rest]


def shortest(rules: Rules) -> str | None:
    """Find a shortest text of the grammar; None where it has no text that ends."""
    known: dict[str, str] = {}
    before = None
    while before != known:
        before = dict(known)
        for name, node in rules.items():
            text = _least(node, known)
            if text is not None and len(text) < len(known.get(name, text + " ")):
                known[name] = text
    return known.get(ROOT)


def _least(node: Node, known: dict[str, str]) -> str | None:
    if isinstance(node, Chars):
        return _plain(node)
    if isinstance(node, Ref):
        return known.get(node.rule)
    if isinstance(node, Repeat):
        one = _least(node.item, known) if node.least else ""
        return None if one is None else one * node.least
    if isinstance(node, Alt):
        texts = [text for one in node.options if (text := _least(one, known)) is not None]
        return min(texts, key=len, default=None)
    parts = [_least(part, known) for part in node.parts]
    return None if None in parts else "".join(part for part in parts if part)


def _plain(node: Chars) -> str:
    """A letter or digit of a set, where it has one."""
    for char in "xa0A":
        if _takes(node, char):
            return char
    return chr(node.ranges[0][0])
