"""What a program that answers once is told, and what is refused before it is started."""

from __future__ import annotations

import pytest

from roost.backends.programs.once_words import (
    ARGUMENT_MAX_BYTES,
    Recipe,
    asked,
    check_plain,
    check_prompt,
    check_told,
    count_in,
    joined,
    words,
)
from roost.core.card import Output
from roost.core.request import Continuation, GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from tests.backends.subjects import MODEL

ARGV = ("run", "{path}/x", "-n{max_tokens}", "--ctx={ctx}", "{prompt}", '{"a": 1}', "{unknown}")


def recipe(*argv: str, **options: tuple[str, ...]) -> Recipe:
    """Make a recipe with these words and options."""
    return Recipe(argv or ARGV, "/m", 512, options, Output(), 1.0, 9)  # type: ignore[arg-type]


def request(sampling: Sampling | None = None, *, ignore_eos: bool = False) -> GenerateRequest:
    """Make a request."""
    sampling = sampling or Sampling()
    return GenerateRequest(MODEL, TextPrompt("x"), sampling=sampling, ignore_eos=ignore_eos)


def test_names_are_filled_in_once() -> None:
    """What a prompt says is no name, whatever it looks like, and other braces stay."""
    told = words(recipe(), request(), prompt="{path} $(id)", prompt_file="", limit=7)
    assert told == ("run", "/m/x", "-n7", "--ctx=512", "{path} $(id)", '{"a": 1}', "{unknown}")


def test_what_a_client_asks_for_comes_last() -> None:
    """Each with the card's own words, in one order, and none that was left open."""
    card = recipe("run", temperature=("--temp={value}",), seed=("--seed", "{value}"))
    sampling = Sampling(temperature=0.5, seed=7)
    told = words(card, request(sampling), prompt="", prompt_file="", limit=1)
    assert told == ("run", "--temp=0.5", "--seed", "7")


def test_what_the_program_has_no_word_for_is_refused() -> None:
    """By name, and values that change nothing are not asked for."""
    nothing = Sampling(top_p=1.0, top_k=0, presence_penalty=0.0, frequency_penalty=0.0, min_p=0.0)
    check_told(recipe(), request(nothing))
    assert asked(request(nothing)) == {}
    for wrong, name in (
        (request(Sampling(temperature=0.0)), "temperature"),
        (request(Sampling(top_p=0.5)), "top_p"),
        (request(ignore_eos=True), "ignore_eos"),
    ):
        with pytest.raises(RoostError) as caught:
            check_told(recipe(), wrong)
        failure = caught.value.failure
        assert (failure.reason, failure.param) == ("unsupported", name)


def test_an_answer_is_not_gone_on_with() -> None:
    """The program has ended with it."""
    wrong = GenerateRequest(MODEL, TextPrompt("x"), continuation=Continuation((1,), "d"))
    with pytest.raises(RoostError, match="cannot go on"):
        check_told(recipe(), wrong)


@pytest.mark.parametrize(
    ("prompt", "argv", "good"),
    [
        ("-rf", ("run", "{prompt}"), False),
        ("-rf", ("run", "--prompt={prompt}"), True),
        ("-rf", ("run", "{prompt_file}"), True),
        ("a\0b", ("run", "{prompt}"), False),
        ("a\0b", ("run",), True),
        ("x" * ARGUMENT_MAX_BYTES, ("run", "{prompt}"), False),
        ("x" * ARGUMENT_MAX_BYTES, ("run",), True),
        ("", ("run",), False),
    ],
)
def test_a_prompt_has_to_fit_where_it_goes(prompt: str, argv: tuple[str, ...], good: bool) -> None:
    """One that would be taken for an option, or cannot be an argument, starts nothing."""
    if good:
        check_prompt(recipe(*argv), prompt)
        return
    with pytest.raises(RoostError) as caught:
        check_prompt(recipe(*argv), prompt)
    assert caught.value.failure.reason == "bad_request"


@pytest.mark.parametrize(
    ("pieces", "good"),
    [
        (("<s>hello", " you<s>"), True),
        (("a <", "s> b"), False),
        (("a <s", "> b"), False),
        (("a ", "<s> b"), True),
    ],
)
def test_a_control_token_of_a_users_is_refused(pieces: tuple[str, ...], good: bool) -> None:
    """Pieces are cut within those that users wrote; the template's own are whole."""
    if good:
        assert joined(pieces, ("<s>", "x")) == "".join(pieces)
        return
    with pytest.raises(RoostError, match="'<s>'"):
        joined(pieces, ("<s>", "x"))


def test_raw_prompts_hold_none() -> None:
    """A text that is completed is nobody's turn."""
    check_plain("a < s > b", ("<s>",))
    with pytest.raises(RoostError, match="'<s>'"):
        check_plain("a <s> b", ("<s>",))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Prompt: 12 tokens, 3/s", 12),
        ("Prompt: 12 tokens\nPrompt: 9 tokens", 9),
        ("Prompt: x tokens", None),
        ("Prompt: 5 words\nPrompt: 6 tokens. Prompt: 7 words", 6),
        ("Prompt: 99999999999 tokens", None),
        ("", None),
    ],
)
def test_counts_are_read_where_the_card_says(text: str, count: int | None) -> None:
    """The last one that is whole; anything else is no count."""
    assert count_in(text, "Prompt: {count} tokens") == count
    assert count_in(text, "") is None
