"""Sentences are found in many scripts, and nothing of a text is lost between them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roost.text.sentences import LONGEST_CHARS, facts_of, read, sentences, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Version 3.5 costs 1,200.50 now. Yes.", ["Version 3.5 costs 1,200.50 now.", "Yes."]),
        ("Ask Dr. Smith, e.g. today. Bye.", ["Ask Dr. Smith, e.g. today.", "Bye."]),
        ("J. R. Tolkien wrote. I read.", ["J. R. Tolkien wrote.", "I read."]),
        ("- milk\n* eggs\n2. bread\n", ["milk", "eggs", "bread"]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("我叫王芳。我住在北京！你呢？", ["我叫王芳。", "我住在北京！", "你呢？"]),
        ("اسمي عمر؟ نعم.", ["اسمي عمر؟", "نعم."]),
        ("", []),
        ("\n\n  \n", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, expected: list[str]) -> None:
    """Stops of several scripts end sentences; decimals, initials and short titles do not."""
    assert sentences(text) == expected


@given(st.text(alphabet="ab .!?。\n-1A\"'", max_size=900))
@example("1.\n")
def test_nothing_but_blanks_and_marks_is_lost(text: str) -> None:
    """Every letter and digit of a text is in its sentences, in order, and none is too long."""
    found = sentences(text)
    assert all(0 < len(one) <= LONGEST_CHARS for one in found)
    letters = re.sub(r"^ *(?:[-]+|\d{1,2}[.)]) +", "", text, flags=re.MULTILINE)
    assert re.sub(r"[^ab1A]", "", "".join(found)) == re.sub(r"[^ab1A]", "", letters)


def test_a_text_without_a_stop_is_cut_at_blanks() -> None:
    """A page without a full stop becomes pieces of a bearable length, between words."""
    text = " ".join(f"word{n}" for n in range(400))
    found = sentences(text)
    assert " ".join(found) == text
    assert max(map(len, found)) <= LONGEST_CHARS
    assert "".join(sentences("x" * 1000)) == "x" * 1000


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("I met Anna Karlsson in Oslo.", {"anna", "karlsson", "oslo"}),
        ("The meeting is at 14:30 on 2026-11-30.", {"14:30", "2026-11-30"}),
        ("He paid €450 for 3 cats.", {"450", "3"}),
        ("Use fooBar or HTTP, said Ben.", {"foobar", "http", "ben"}),
        ("Write to anna@example.org today.", {"anna@example.org"}),
        ('The file is called "the old one".', {"the old one"}),
        ("Bob's dog barks. We like Bob.", {"bob"}),
        ("Tom Baker left.", {"tom", "baker"}),
        ("THIS IS LOUD", set()),
        ("The sea is large. It is blue.", set()),
        ("I think so.", set()),
        ("私はマリアです。", {"マリア"}),
    ],
)
def test_names_and_numbers_are_found(text: str, facts: set[str]) -> None:
    """Capitals inside a sentence, digits, quotes and addresses are facts; first words are not."""
    assert facts_of(text) == facts


@pytest.mark.parametrize(
    "text",
    [
        *("I live here.", "I'm tired.", "My dog barks.", "We left."),
        *("Ich wohne hier.", "J'ai faim.", "Mi casa es grande.", "Я живу здесь."),
        *("我住在这里。", "私は元気です。", "저는 학생입니다."),
    ],
)
def test_the_first_person_is_heard_in_many_languages(text: str) -> None:
    """Whoever speaks of himself is noticed by his pronouns."""
    assert [one.own for one in read(text)] == [True]


def test_questions_and_scripts_without_capitals_are_noticed() -> None:
    """A question says so by its mark; where there are no capitals nobody can look for names."""
    assert [one.asks for one in read("Who is it? It is he. 谁？")] == [True, False, True]
    assert [one.unmarked for one in read("نعم. Yes. 12.")] == [True, False, False]
    assert not read("The weather is fine.")[0].own


def test_words_of_dense_scripts_are_characters() -> None:
    """A script without blanks is compared by character, another one by word."""
    assert words("Hello there, hello") == ["hello", "there", "hello"]
    assert words("你好 OK") == ["你", "好", "ok"]
