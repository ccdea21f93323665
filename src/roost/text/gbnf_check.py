"""DECIDER: whether an engine can follow a grammar quickly, whatever a model says.

An engine follows every way at once in which a text may fit, for each candidate of each token, while
everybody else on it waits. Thirty characters can make that take forever: `([a-z]? [a-z]?){0,500}`.
So a grammar has to be one in which the next character decides. Where it does not, in a choice,
either its options are texts that come apart, or some ways stay open until its end, which has to be
told by what follows; and it must not be within itself. In all there are at most `STACKS_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from roost.text.gbnf import Alt, Chars, Node, Ref, Repeat, Rules, Seq, children
from roost.text.gbnf_read import wrong
from roost.text.gbnf_words import (
    PASSES_MAX,
    TANGLED,
    Words,
    deepest_first,
    following,
    placed,
    refs,
)

RULES_MAX = 2000
SIZE_MAX = 20_000
"""Nodes in all rules together, each as often as it is repeated."""

STACKS_MAX = 256
"""Ways that are open at once. llama.cpp has a stack for each, and tries every token of a vocabulary
on all of them once the one that it has drawn does not fit: half a millisecond for each stack."""


def check_grammar(rules: Rules) -> None:
    """Raise `bad_request` for a grammar that an engine cannot follow, or not quickly."""
    if len(rules) > RULES_MAX:
        raise wrong(f"it has {len(rules)} rules, {RULES_MAX} are followed")
    size = sum(map(_size, rules.values()))
    if size > SIZE_MAX:
        raise wrong(f"written out, it has {size} parts, {SIZE_MAX} are followed")
    for name, node in rules.items():
        for ref in refs(node):
            if ref not in rules:
                raise wrong(f"the rule '{name}' names '{ref}', which is not there")
    words = Words(rules)
    begins = {name: list(words.leading(node)) for name, node in rules.items()}
    order, circle = deepest_first(begins)
    if circle is not None:
        raise wrong(f"the rule '{circle}' begins with itself")
    judge = _Judge(rules, words)
    for name, after in following(rules, words).items():
        judge.check(name, after)
    judge.count(order)


def _size(node: Node) -> int:
    inner = 1 + sum(map(_size, children(node)))
    return inner * max(1, node.most or node.least) if isinstance(node, Repeat) else inner


class _Judge:
    """Looks at what leaves a choice, and counts the ways that stay open."""

    def __init__(self, rules: Rules, words: Words) -> None:
        self._rules = rules
        self._words = words
        self._loose: dict[int, str] = {}
        self._starts: dict[str, int] = {}

    def check(self, rule: str, after: int) -> None:
        """Check a rule that may be followed by these characters."""
        for node, then in placed(self._rules[rule], after, self._words):
            if isinstance(node, Repeat):
                self._check_repeat(rule, node, then)
            elif isinstance(node, Alt):
                self._check_choice(rule, node, then)

    def _check_repeat(self, rule: str, node: Repeat, after: int) -> None:
        words = self._words
        if words.nullable(node.item):
            raise wrong(f"the rule '{rule}' repeats something that may be empty")
        both = words.first(node.item) & after if node.least != node.most else 0
        if both:
            what = f"repeats what may begin with {words.example(both)}, and so may what follows"
            raise wrong(f"the rule '{rule}' {what}: nobody can tell where it ends")

    def _check_choice(self, rule: str, node: Alt, after: int) -> None:
        words = self._words
        first = [words.first(one) | (after if words.nullable(one) else 0) for one in node.options]
        both = _overlap(first)
        if not both:
            return
        empty = any(map(words.nullable, node.options))
        if not empty and _come_apart([list(self._run(one)) for one in self._options(node)]):
            return
        if not node.sealed and (empty or words.all(node) & after):
            what = f"has choices that may begin with {words.example(both)}"
            raise wrong(f"the rule '{rule}' {what}: nobody can tell which one it is")
        self._loose[id(node)] = rule

    def _options(self, node: Node) -> Iterator[Node]:
        """What there is to choose from, choices within it unfolded."""
        inner = self._rules[node.rule] if isinstance(node, Ref) else node
        if isinstance(inner, Alt):
            for option in inner.options:
                yield from self._options(option)
        else:
            yield node

    def _run(self, node: Node) -> Iterator[int]:
        """The characters that a text of the node begins with, in order, while it is sure."""
        if isinstance(node, Chars):
            yield self._words.mask(node)
        elif isinstance(node, Seq):
            for part in node.parts:
                yield from self._run(part)
                if not isinstance(part, (Chars, Seq)):
                    return
        elif isinstance(node, Ref):
            yield from self._run(self._rules[node.rule])

    def count(self, order: Iterable[str]) -> None:
        """Raise where more ways are open at once than an engine can follow.

        In `order`, the rules that a rule begins with come before it.
        """
        for name in order:
            self._starts[name] = self._begins(self._rules[name])
        stacks = dict.fromkeys(self._rules, 1)
        for _ in range(PASSES_MAX):
            before = dict(stacks)
            for name in self._words.order:
                stacks[name] = self._stacks(self._rules[name], name, stacks)
            if before == stacks:
                return
        raise wrong(TANGLED)

    def _begins(self, node: Node) -> int:
        """How many ways there are to begin a text of the node."""
        if isinstance(node, Ref):
            return self._starts[node.rule]
        found = int(isinstance(node, Chars))
        for child in children(node):
            found += self._begins(child)
            if isinstance(node, Seq) and not self._words.nullable(child):
                break
        return found

    def _along(self, node: Seq) -> Iterator[int]:
        """How many ways there are to begin each rest of a sequence, the last one first."""
        count = 0
        for part in reversed(node.parts):
            count = self._begins(part) + (count if self._words.nullable(part) else 0)
            yield count

    def _stacks(self, node: Node, rule: str, known: dict[str, int]) -> int:
        """How many ways can be open at once anywhere in the node."""
        if isinstance(node, Ref):
            return known[node.rule]
        inner = [self._stacks(child, rule, known) for child in children(node)]
        if id(node) not in self._loose:
            begun = self._along(node) if isinstance(node, Seq) else [self._begins(node)]
            found = max([*inner, *begun], default=1)
        elif self._reaches(node, self._loose[id(node)]):
            raise wrong(f"the rule '{rule}' has choices that begin alike, and is within them")
        else:
            found = sum(inner)
        if found > STACKS_MAX:
            raise wrong(f"in the rule '{rule}' more than {STACKS_MAX} ways are open at once")
        return found

    def _reaches(self, node: Node, rule: str) -> bool:
        """Whether a choice can be within itself."""
        seen, waiting = set(refs(node)), list(refs(node))
        while waiting:
            more = set(refs(self._rules[waiting.pop()])) - seen
            seen |= more
            waiting += more
        return rule in seen


def _overlap(masks: Iterable[int]) -> int:
    """The characters that are in more than one of these sets."""
    seen = both = 0
    for mask in masks:
        both, seen = both | (seen & mask), seen | mask
    return both


def _come_apart(runs: Sequence[Sequence[int]]) -> bool:
    """Whether each of these texts comes to a character that no other one has there."""
    groups = [(0, list(runs))]
    while groups:
        at, group = groups.pop()
        if len(group) > 1:
            if any(len(run) <= at for run in group):
                return False
            groups += [(at + 1, alike) for alike in _alike(group, at)]
    return True


def _alike(runs: list[Sequence[int]], at: int) -> list[list[Sequence[int]]]:
    """Put those together that may have the same character at this place."""
    groups: dict[int, list[Sequence[int]]] = {}
    for run in runs:
        groups.setdefault(run[at], []).append(run)
    if not _overlap(groups):
        return list(groups.values())
    found: list[tuple[int, list[Sequence[int]]]] = []
    for mask, group in groups.items():
        touching = [one for one in found if one[0] & mask]
        found = [one for one in found if not one[0] & mask]
        found.append(reduce(_together, touching, (mask, group)))
    return [group for _, group in found]


def _together(
    one: tuple[int, list[Sequence[int]]], other: tuple[int, list[Sequence[int]]]
) -> tuple[int, list[Sequence[int]]]:
    return one[0] | other[0], one[1] + other[1]
