"""Only grammars pass that an engine can follow quickly, whatever text comes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.text.gbnf import ROOT, Node, Rules, chars
from roost.text.gbnf_check import STACKS_MAX, check_grammar
from roost.text.gbnf_match import open_ways
from roost.text.gbnf_read import read_gbnf
from tests.text.test_gbnf import nodes

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
GOOD = (
    JSON,
    'root ::= "yes" | "no" | "yesterday"',
    'root ::= item+\nitem ::= "- " [^\\r\\n]+ "\\n"',
    'root ::= ("ab" | "ac") "b"',
    'root ::= "(" root ")" | "[" root "]" | "x"',
    'root ::= [a-z]{1,1000} " " [a-z]{1,1000}',
    'root ::= "{" ("x" | "y") "}" | "{" "z" "}"',
)


@pytest.mark.parametrize("text", GOOD)
def test_usual_grammars_pass(text: str) -> None:
    """What people hold answers to passes, llama.cpp's own example of JSON included."""
    check_grammar(read_gbnf(text))


def _doubling(rule: str) -> str:
    steps = (rule.format(f"r{n + 1}", n=n) for n in range(40))
    return (
        "root ::= r0\n"
        + "\n".join(f"r{n} ::= {step}" for n, step in enumerate(steps))
        + "\nr40 ::= [a-z]"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("root ::= foo", "names 'foo'"),
        ('root ::= root "a" | "b"', "'root' begins with itself"),
        ('root ::= a? root "c" | "b"\na ::= "x"', "begins with itself"),
        ('root ::= (""*)* "a"', "may be empty"),
        ("root ::= ([a-z]? [a-z]?){0,500}", "may be empty"),
        ("root ::= ([a-z] | [a-z] [a-z])*", "choices that may begin with"),
        ("root ::= [a-z]* [a-c]", "repeats what may begin with 'a'"),
        ('root ::= x "b"\nx ::= "a" | "ab"', "nobody can tell which one"),
        ('root ::= "a" | "b" root | "b" root "c"', "nobody can tell which one"),
        (_doubling("{0} | {0} {0}"), "nobody can tell which one"),
        (_doubling("{0}? {0}?"), "may be empty"),
        ('root ::= (("a"{0,1000}){0,1000}){0,1000}', "written out"),
        ('root ::= (("a"{9,1000} "b"){9,1000} "c"){9,1000}', "written out"),
        ('root ::= "a" (' + "|".join(f'"{chr(0x4E00 + n)}"' for n in range(300)) + ")", "256 ways"),
        ("\n".join(f"r{n} ::= [a-z]" for n in range(2001)) + '\nroot ::= "a"', "has 2002 rules"),
    ],
)
def test_dangerous_grammars_are_refused(text: str, why: str) -> None:
    """What would be followed forever, or along too many ways, is refused, naming the rule."""
    with pytest.raises(RoostError, match=why):
        check_grammar(read_gbnf(text))


def test_a_tangle_is_given_up() -> None:
    """Rules that all name each other are either judged or refused, in a bounded time."""
    lines = [
        f'r{n} ::= "{chr(0x4E00 + n)}" r{(n * 7 + 1) % 500} "x" r{(n * 3) % 500} | "y"'
        for n in range(500)
    ]
    check_grammar(read_gbnf("root ::= r0\n" + "\n".join(lines)))


@settings(max_examples=50, deadline=None)
@given(nodes(), nodes(), st.integers(0, 2**32))
def test_ways_stay_few(one: Node, other: Node, seed: int) -> None:
    """Whatever passes is followed along at most so many ways, along any text."""
    rules: Rules = {ROOT: one, "other": other}
    try:
        check_grammar(rules)
    except RoostError:
        return
    assert _most_ways(rules, random.Random(seed)) <= STACKS_MAX


def test_ways_are_counted_as_they_are() -> None:
    """The count that is held to the limit is that of the ways which are really open."""
    rules: Rules = {ROOT: chars("az"), "other": chars("az")}
    assert _most_ways(rules, random.Random(0)) == 1


def _most_ways(rules: Rules, dice: random.Random) -> int:
    """Follow one random text, and give the most ways that were open."""
    text, most = "", 0
    for _ in range(20):
        ways = open_ways(rules, text)
        most = max(most, ways)
        text += dice.choice("abcd")
        if not ways:
            break
    return most
