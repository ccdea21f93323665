"""What is asked: the same number is the same request, and only what shall be shared is."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from roost.bench.load.traces import Traced
from roost.bench.load.workload import Workload, texts, traced


def test_models_are_taken_in_turn() -> None:
    """Two models share a load."""
    work = Workload(("a", "b"))
    assert [work.ask(number, random.Random).model for number in range(4)] == ["a", "b", "a", "b"]


@given(st.integers(0, 10**6), st.integers(0, 100), st.integers(1, 30), st.integers(1, 4))
def test_a_number_is_a_request(number: int, seed: int, words: int, turns: int) -> None:
    """Written twice it is the same; its neighbour differs in the first word of every turn."""
    work = Workload(("m",), words=words, turns=turns, seed=seed)
    ask = work.ask(number, random.Random)
    assert ask == work.ask(number, random.Random)
    other = work.ask(number + 1, random.Random)
    first = [turn.split(" ")[0] for turn in ask.turns + other.turns]
    assert len(set(first)) == 2 * turns
    assert all(len(turn.split(" ")) == words + 1 for turn in ask.turns)


def test_a_prompt_is_said_as_it_is() -> None:
    """The first turn is the prompt, those behind it are words."""
    ask = Workload(("m",), prompt="hello", turns=2).ask(3, random.Random)
    assert ask.turns[0] == "hello"
    assert ask.turns[1] != "hello"


def test_beginnings_are_shared() -> None:
    """Of many requests, each has one of three beginnings of the length asked for."""
    work = Workload(("m",), prefixes=3, prefix_words=50)
    systems = {work.ask(number, random.Random).system for number in range(60)}
    assert len(systems) == 3
    assert {len(system.split(" ")) for system in systems} == {50}


def test_a_traced_request_is_as_long_and_shares_its_blocks() -> None:
    """Scaled by a tenth, a block of 512 tokens is 51 words, which two requests have in common."""
    one = traced(Traced(0.0, 120, 7, (1, 2)), "m", 0.1, random.Random)
    two = traced(Traced(1.0, 120, 7, (1, 3)), "m", 0.1, random.Random)
    (first,), (second,) = one.turns, two.turns
    assert len(first.split(" ")) == len(second.split(" ")) == 120
    assert first.split(" ")[:51] == second.split(" ")[:51]
    assert first.split(" ")[51:] != second.split(" ")[51:]
    assert one.max_tokens == 7


def test_the_text_of_a_workload_tells_it_apart() -> None:
    """Another seed is another text."""
    works = [Workload(("m",), seed=seed) for seed in (1, 2, 1)]
    first, second, third = (texts([work.ask(0, random.Random)]) for work in works)
    assert first == third != second
