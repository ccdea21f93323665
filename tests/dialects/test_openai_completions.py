"""Completion requests: the forms of a prompt and what this old API asks for besides."""

from __future__ import annotations

import pytest

from roost.core.request import TextPrompt, TokensPrompt
from tests.dialects.openai_calls import completion, completion_failure


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        ("hi", TextPrompt("hi")),
        (["hi"], TextPrompt("hi")),
        ([1, 0, 2**31 - 1], TokensPrompt((1, 0, 2**31 - 1))),
        ([[7]], TokensPrompt((7,))),
    ],
)
def test_forms_of_a_prompt(sent: object, prompt: object) -> None:
    """Text or token ids, by themselves or as the only entry of a list."""
    assert completion(prompt=sent).request.prompt == prompt


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        [],
        [""],
        [[]],
        ["a", 1],
        ["a", ""],
        [[1], []],
        ["a"] * 17,
        [1, "a"],
        [1.0],
        [True],
        [-1],
        [2**31],
        [None],
        [[[1]]],
        [["a"]],
        5,
        {"text": "a"},
    ],
)
def test_wrong_prompts(sent: object) -> None:
    """No prompt, an empty one, too many, a mix and ids that no model has are all a 400."""
    failure = completion_failure(prompt=sent)
    assert (failure.reason, failure.param) == ("bad_request", "prompt")


def test_several_prompts() -> None:
    """Each gets as many answers as one would; all together are bounded."""
    found = completion(prompt=["a", "b", [3]], n=2)
    assert found.request.prompt == TextPrompt("a")
    assert found.more == (TextPrompt("b"), TokensPrompt((3,)))
    assert found.options.choices == 6
    assert "got 18" in completion_failure(prompt=["a", "b", "c"], n=6).message


def test_echo() -> None:
    """Texts can be given back; ids cannot, nor what the model thinks of them."""
    assert completion(prompt=["a", "b"], echo=True).options.echo
    for refused in ({"prompt": [[1]]}, {"logprobs": 0}, {"prompt": ["a", [1]]}):
        failure = completion_failure(echo=True, **refused)
        assert (failure.reason, failure.param) == ("unsupported", "echo")


def test_logprobs() -> None:
    """Here they are a number, from 0 to 20."""
    assert completion(logprobs=0).request.top_logprobs == 0
    assert completion(logprobs=5).options.logprobs
    assert not completion(logprobs=None).options.logprobs
    for wrong in (21, -1, True, "2"):
        assert completion_failure(logprobs=wrong).param == "logprobs"


def test_what_is_not_supported_is_said() -> None:
    """A suffix changes the answer, so it is refused; empty values are not."""
    failure = completion_failure(suffix="end")
    assert (failure.reason, failure.param) == ("unsupported", "suffix")
    assert completion_failure(best_of=2).param == "best_of"
    assert completion(echo=False, suffix="", best_of=1).ignored == ()
    assert completion_failure(echo="no").param == "echo"
