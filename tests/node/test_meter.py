"""Thoughts are counted where every token still stands beside its text."""

from __future__ import annotations

from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, Usage
from roost.core.reading import Reading
from roost.errors import Failure
from roost.node.meter import Meter

THINKS = Reading(("<think>", "</think>"))
SPENT = Usage(5, 0, 9)


def test_tokens_of_thoughts_are_counted() -> None:
    """The marks count to the thoughts, what is said after them does not."""
    meter = Meter(THINKS)
    assert meter.on_event(Started(5, 0, 1)) == Started(5, 0, 1, THINKS)
    said = [Delta("<think>", 2), Delta("hm", 3), Delta("</think>", 2), Delta("Yes.", 2)]
    assert [meter.on_event(delta) for delta in said] == said
    assert meter.on_event(Finished("stop", SPENT)) == Finished("stop", Usage(5, 0, 9, 7))


def test_an_answer_that_is_cut_has_cost_its_thoughts() -> None:
    """A failure tells them too; other events pass as they are."""
    meter = Meter(Reading(("<think>", "</think>"), begun="<think>\n"))
    progress = PrefillProgress(1, 5)
    assert meter.on_event(progress) is progress
    meter.on_event(Delta("hm", 4))
    failure = Failure("runtime_died", "It died.")
    assert meter.on_event(Failed(failure, SPENT)) == Failed(failure, Usage(5, 0, 9, 4))


def test_without_thoughts_nothing_is_counted() -> None:
    """An answer with calls alone has no reasoning tokens."""
    meter = Meter(Reading(None, ("<tool_call>", "</tool_call>"), tools=("x",)))
    meter.on_event(Delta("<think>", 2))
    finished = Finished("stop", SPENT)
    assert meter.on_event(finished) is finished
