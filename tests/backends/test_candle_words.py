"""Tokens as words of a text, so that a library that takes texts is given exactly these tokens."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.libraries.candle_words import Words, numbered

SPELT = ("<|im_end|>", "Ġthe", "Ċ", "{{ x }}", "\ue000", "</s>")


@given(st.lists(st.integers(0, len(SPELT) - 1), min_size=1))
def test_a_text_is_its_tokens(tokens: list[int]) -> None:
    """Split at the gap, which is in no word, each word is its token again."""
    words = Words(SPELT)
    text = words.text(tokens)
    gap = words.text((0, 0)).removeprefix(SPELT[0]).removesuffix(SPELT[0])
    assert len(gap) == 1
    assert [words.token(word) for word in text.split(gap)] == tokens


def test_the_tokeniser_cuts_at_the_gap_and_nowhere_else() -> None:
    """Every word is a token of its own, none is special, and nothing is added or changed."""
    words = Words(SPELT)
    described = msgspec.json.decode(words.described())
    assert described["added_tokens"] == []
    assert described["model"]["vocab"] == {word: at for at, word in enumerate(SPELT)}
    cut = described["pre_tokenizer"]
    assert (cut["type"], cut["behavior"]) == ("Split", "Removed")
    assert words.text((0, 1)) == f"{SPELT[0]}{cut['pattern']['String']}{SPELT[1]}"
    assert not {"normalizer", "post_processor"} & described.keys()


def test_a_vocabulary_may_be_numbered() -> None:
    """What the library looks up by name keeps its name."""
    assert numbered(4, {2: "</s>"}) == ["#0", "#1", "</s>", "#3"]


@pytest.mark.parametrize(
    ("spelt", "what"),
    [
        (("a", "b", "a"), "spelt alike"),
        (("a", ""), "spelt alike"),
        (("a", "<0x0A>"), "single bytes"),
        (numbered(3, {0: "#1"}), "spelt alike"),
    ],
)
def test_words_that_could_be_taken_for_others_are_refused(
    spelt: tuple[str, ...], what: str
) -> None:
    """In words for whoever wanted the model."""
    with pytest.raises(ValueError, match=what):
        Words(spelt)


def test_what_is_no_word_is_no_token() -> None:
    """It fails loudly."""
    with pytest.raises(KeyError):
        Words(SPELT).token("the")
