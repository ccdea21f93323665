"""What a llama.cpp server is asked for, one completion after another."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from roost.backends.base import Prepared, SlotUse
from roost.backends.llama.stream import STEP_TOKENS, bodies
from roost.core.ids import ModelId
from roost.core.reading import Reading
from roost.core.request import Continuation, GenerateRequest, TextPrompt

PROMPT = tuple(range(100))


def prepared(said: int) -> Prepared:
    """A request of 100 tokens of which so many of an answer are there already."""
    request = GenerateRequest(ModelId("m"), TextPrompt(""), 500, return_tokens=True)
    if said:
        begun = Continuation(tuple(range(said)), "w")
        request = msgspec.structs.replace(request, continuation=begun)
    return Prepared(request, PROMPT + tuple(range(said)), 500 - said)


def test_an_answer_of_its_own_is_one_completion() -> None:
    """Whether the slot's content may be used is the node's word."""
    for reuse in (False, True):
        (body,) = bodies(prepared(0), SlotUse(1, reuse))
        assert (body["id_slot"], body["cache_prompt"], body["n_predict"]) == (1, reuse, 500)


def test_a_continued_answer_is_computed_as_it_was_the_first_time() -> None:
    """First the prompt, then its tokens in steps that are small enough; the last one speaks."""
    steps = bodies(prepared(70), SlotUse(0, reuse=False))
    lengths = [len(msgspec.convert(body["prompt"], tuple[int, ...])) for body in steps]
    assert lengths == [100, 132, 164, 170]
    assert max(b - a for a, b in pairwise(lengths)) == STEP_TOKENS < 64
    assert [body["n_predict"] for body in steps] == [0, 0, 0, 430]
    assert [body["cache_prompt"] for body in steps] == [False, True, True, True]


def test_a_short_beginning_takes_one_step() -> None:
    """And one that fills its step exactly leaves nothing over."""
    for said in (1, STEP_TOKENS):
        lengths = [body["n_predict"] for body in bodies(prepared(said), SlotUse(0, reuse=True))]
        assert lengths == [0, 500 - said]


def test_marks_are_asked_for_as_text() -> None:
    """A server leaves tokens that steer out of the text, unless it is told which are needed."""
    reading = Reading(("<think>", "</think>"), ("<tool_call>", "</tool_call>"))
    (body,) = bodies(msgspec.structs.replace(prepared(0), reading=reading), SlotUse(0, reuse=False))
    assert body["preserved_tokens"] == ("<think>", "</think>", "<tool_call>", "</tool_call>")
    assert "preserved_tokens" not in bodies(prepared(0), SlotUse(0, reuse=False))[0]
