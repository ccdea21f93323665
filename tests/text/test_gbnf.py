"""GBNF is read, written so that it is read as the same again, and matched."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.text.gbnf import (
    ROOT,
    Alt,
    Chars,
    Node,
    Repeat,
    Seq,
    chars,
    inverted,
    literal,
    merged,
    without,
    written,
)
from roost.text.gbnf_match import matches, shortest
from roost.text.gbnf_read import GRAMMAR_CHARS_MAX, read_gbnf

ALIKE = {
    'root ::= "a" # said once\n': ["a"],
    'root ::= "a"\n\n# nothing\nb ::= "c"': ["a"],
    'root ::= a b\r\na ::= "x" |\n "y"\r\nb ::= [^x-z\\x00-\\x20]\r\n': ["xa", "y{"],
    'root ::= ("a" | "b" "c")+': ["a", "bc", "abca"],
    'root ::= (\n  "a"\n  | "b"\n)?': ["", "a", "b"],
    'root ::= "ab"{2} [0-9]{1,3} "-"*': ["abab1", "abab123--"],
    'root ::= "\\x41\\u00e4\\U0001F600\\n\\"\\\\\\[\\]"': ['Aä😀\n"\\[]'],
    "root ::= . [a-] [\\]^\\x2D]": ["xa]", "\n-^"],
    "root ::= [-x]": ["-", "x"],
    'root ::= "a"{2,}': ["aa", "aaaa"],
}


@pytest.mark.parametrize("text", ALIKE)
def test_grammars_are_read(text: str) -> None:
    """What people write is read, and fits what it should."""
    rules = read_gbnf(text)
    for good in ALIKE[text]:
        assert matches(rules, good), good
        assert not matches(rules, good + "~")
        assert all(matches(rules, good[:end], whole=False) for end in range(len(good)))
    assert written(read_gbnf(written(rules))) == written(rules)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no rule 'root'"),
        ("root", "line 1: '::=' is missing"),
        ("::= x", "a rule's name is missing"),
        ('root ::= "a" )', "a rule ends with its line"),
        ('root ::= ("a"', r"'\)' is missing"),
        ('root ::= "a', "ends too early"),
        ('root ::= "a\n"', "not closed in its line"),
        ("root ::= [z-a]", "from the lower to the higher"),
        ("root ::= []", "matches nothing"),
        ("root ::= [^\\x00-\\U0010FFFF]", "matches nothing"),
        ('root ::= "\\q"', "means nothing"),
        ('root ::= "\\xZ1"', "means nothing"),
        ('root ::= "\\uD800"', "no such character"),
        ('root ::= "\\U00110000"', "no such character"),
        ('root ::= "a"{3,2}', "from the lower to the higher number"),
        ('root ::= "a"{0}', "from the lower to the higher number"),
        ('root ::= "a"{1001}', "to 1000"),
        ('root ::= "a"{99999999999999}', "is written"),
        ('root ::= "a"{x}', "is written"),
        ('root ::= "a"\nroot ::= "b"', "line 2: the rule 'root' is there twice"),
        ("root ::= <[5]>", "is missing"),
        ("root ::= !x", "is missing"),
        ("root ::= " + "(" * 40, "groups may be 32 deep"),
        ("x" * (GRAMMAR_CHARS_MAX + 1), "characters, 65536 are read"),
    ],
)
def test_nonsense_is_refused(text: str, why: str) -> None:
    """Whatever is no grammar is refused with the reason and the field."""
    with pytest.raises(RoostError, match=why) as caught:
        read_gbnf(text)
    assert (caught.value.failure.reason, caught.value.failure.param) == ("bad_request", "grammar")


def test_sets_of_characters() -> None:
    """Ranges are put together, taken apart and turned around."""
    assert merged([(5, 9), (1, 2), (3, 4), (20, 30), (8, 12)]) == ((1, 12), (20, 30))
    assert without(((1, 12),), ((0, 2), (5, 5), (11, 20))) == ((3, 4), (6, 10))
    assert inverted(((0, 9), (11, 0x10FFFF))) == ((10, 10),)
    assert chars("az", "0").ranges == ((0x30, 0x30), (0x61, 0x7A))


def test_shortest_texts() -> None:
    """Shortest texts are found, through rules within themselves; and none where none ends."""
    assert shortest(read_gbnf('root ::= "(" root ")" | x{2} "y"?\nx ::= [a-z] | "long"')) == "xx"
    assert shortest(read_gbnf('root ::= "(" root ")"')) is None


def nodes() -> st.SearchStrategy[Node]:
    """Give nodes without rules, of few characters, so that they often fit the same texts."""
    ranges = st.lists(st.integers(0x61, 0x64), min_size=1, max_size=3)
    leaves: st.SearchStrategy[Node] = st.one_of(
        ranges.map(lambda codes: Chars(merged((code, code) for code in codes))),
        st.text("abcd", max_size=3).map(literal),
    )
    return st.recursive(leaves, _inner, max_leaves=8)


def _inner(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    repeats = st.builds(Repeat, inner, st.just(1), st.sampled_from([None, 1, 2, 3]))
    loose = st.builds(Repeat, inner, st.just(0), st.sampled_from([None, 1, 2]))
    return st.one_of(some.map(Seq), some.map(Alt), repeats, loose)


@settings(max_examples=40, deadline=None)
@given(nodes(), st.lists(st.text("abcd", max_size=6), max_size=6))
def test_what_is_written_is_read_again(node: Node, texts: list[str]) -> None:
    """A grammar that is written and read fits the same texts."""
    rules = {ROOT: node}
    again = read_gbnf(written(rules))
    least = shortest(rules)
    assert least is not None
    assert matches(rules, least)
    assert not any(matches(rules, text) for text in texts if len(text) < len(least))
    for text in (*texts, least):
        assert matches(again, text) == matches(rules, text)
