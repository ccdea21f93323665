"""A grammar, as llama.cpp's clients send one, is read on both routes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from roost.core.request import Grammar, JsonAny
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.completions import read_completion
from roost.dialects.openai.options import Translated
from roost.errors import RoostError

BODIES: dict[Callable[[bytes], Translated], dict[str, object]] = {
    read_chat: {"messages": [{"role": "user", "content": "x"}]},
    read_completion: {"prompt": "x"},
}
TEXT = 'root ::= "yes" | "no"'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ANY = {"type": "json_object"}


def read(way: Callable[[bytes], Translated], **more: object) -> Translated:
    """Read a body with these fields."""
    return way(json.dumps(BODIES[way] | more).encode())


@pytest.mark.parametrize("way", BODIES)
def test_a_grammar_is_read(way: Callable[[bytes], Translated]) -> None:
    """It holds the answer and is no field without effect; absent, null and empty are none."""
    found = read(way, grammar=TEXT)
    assert found.request.constraint == Grammar(TEXT)
    assert found.ignored == ()
    for none in ({}, {"grammar": None}, {"grammar": ""}):
        assert read(way, **none).request.constraint is None
    assert read(way, response_format=ANY).request.constraint == JsonAny()


@pytest.mark.parametrize("way", BODIES)
def test_what_cannot_be_both_is_refused(way: Callable[[bytes], Translated]) -> None:
    """One thing holds an answer, and it is text."""
    for more in ({"grammar": 5}, {"grammar": TEXT, "response_format": ANY}):
        with pytest.raises(RoostError) as caught:
            read(way, **more)
        failure = caught.value.failure
        assert (failure.reason, failure.param) == ("bad_request", "grammar")


def test_a_grammar_leaves_no_room_for_calls() -> None:
    """Of tools that may be called, one of both has to go."""
    with pytest.raises(RoostError, match="'grammar' holds the whole answer") as caught:
        read(read_chat, grammar=TEXT, tools=[TOOL])
    assert (caught.value.failure.reason, caught.value.failure.param) == ("unsupported", "grammar")
