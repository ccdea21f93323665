"""What lines and keys mean to `roost chat`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli.chatting.lines import (
    HELP,
    Act,
    Choose,
    Go,
    Leave,
    Lines,
    ListKept,
    ListModels,
    Say,
    Stop,
    Tell,
    Wrong,
    chosen_model,
    entered,
    going,
    left,
    reminder,
)
from roost.core.conversation import KeptConversation
from roost.core.ids import ModelId, NodeId
from roost.core.pin import Pin
from roost.core.request import Message

PAST = KeptConversation(
    Pin(NodeId("n1"), ModelId("m"), 9),
    1.0,
    2.0,
    (Message("user", "one"), Message("assistant", "two" * 400), Message("user", "three")),
)


@pytest.mark.parametrize(
    ("line", "act"),
    [
        ("Why?", Say("Why?")),
        (" /etc is what?", Say(" /etc is what?")),
        ("/new", Go("")),
        ("/new  a talk ", Go("a talk")),
        ("/open a talk", Go("a talk", must_exist=True)),
        ("/list", ListKept()),
        ("/model", ListModels()),
        ("/model big", Choose("big")),
        ("/help", Tell(HELP)),
        ("/quit", Leave(0)),
    ],
)
def test_a_line_is_said_or_is_a_command(line: str, act: Act) -> None:
    """Whatever does not begin with a slash goes to the model as it was typed."""
    assert Lines(watched=True).on_line(line) == (act,)


@pytest.mark.parametrize("line", ["/nope", "/open", "/new " + "x" * 257, "/"])
def test_a_command_that_cannot_be_is_told_and_ends_a_script(line: str) -> None:
    """A person tries again; a script would go on with something else than it believes."""
    (told,) = Lines(watched=True).on_line(line)
    assert isinstance(told, Wrong)
    assert Lines(watched=False).on_line(line) == (told, Leave(2))


def test_many_lines_are_one_turn() -> None:
    """What stands between lines of three quotes is said whole, commands and empty lines too."""
    lines = Lines(watched=True)
    assert lines.on_line('"""') == ()
    assert lines.in_block
    assert [lines.on_line(line) for line in ("/quit", "", "end")] == [(), (), ()]
    assert lines.on_line(' """ ') == (Say("/quit\n\nend"),)
    assert not lines.in_block


def test_nothing_is_not_said() -> None:
    """An empty line and an empty block do nothing."""
    lines = Lines(watched=True)
    assert [lines.on_line(line) for line in ("", "  ", '"""', '"""')] == [(), (), (), ()]
    assert not lines.answering


def test_a_block_without_an_end_is_not_said() -> None:
    """A script that ends in the middle of a text has a mistake in it."""
    lines = Lines(watched=False)
    assert lines.on_end() == (Leave(0),)
    lines.on_line('"""')
    told, leave = lines.on_end()
    assert isinstance(told, Wrong)
    assert leave == Leave(2)


def test_the_key_that_stops_stops_the_answer_and_then_the_chat() -> None:
    """In mid-answer Ctrl-C ends the answer alone; at the prompt it leaves."""
    lines = Lines(watched=True)
    lines.on_line("go on for ever")
    assert lines.on_interrupt() == (Stop(),)
    assert lines.on_answered(failed=False) == ()
    assert lines.on_interrupt() == (Leave(130),)


def test_a_script_ends_with_what_goes_wrong() -> None:
    """Nobody is there to say what is to be done now."""
    script, person = Lines(watched=False), Lines(watched=True)
    script.on_line("a")
    assert script.on_interrupt() == (Stop(), Leave(130))
    assert script.on_answered(failed=True) == (Leave(1),)
    assert script.on_answered(failed=False) == ()
    person.on_line("a")
    assert person.on_answered(failed=True) == ()


@given(st.lists(st.text() | st.sampled_from(['"""', "/new", "", "hi"])))
def test_every_line_is_told_said_or_kept_for_later(typed: list[str]) -> None:
    """Nothing typed is an error of the program, and outside a block every text is answered."""
    lines = Lines(watched=True)
    for line in typed:
        before = lines.in_block
        acts = lines.on_line(line)
        if not before and line.strip() not in {"", '"""'}:
            assert len(acts) == 1
        if lines.answering:
            assert isinstance(acts[0], Say)
            lines.on_answered(failed=False)


def test_who_answers_is_wished_for_or_the_only_one() -> None:
    """The first wish counts; nobody gets another model than the one named."""
    assert chosen_model(["a"], ["", ""]) == "a"
    assert chosen_model(["a", "b"], ["b", "a"]) == "b"
    assert chosen_model(["a", "b"], ["", "b"]) == "b"
    for models, wishes, word in (
        ([], [""], "roost pull"),
        (["a", "b"], [""], "--model"),
        (["a"], ["c", "a"], "No model c"),
    ):
        told = chosen_model(models, wishes)
        assert isinstance(told, Wrong)
        assert word in told.text


def test_only_what_is_there_is_gone_over_to() -> None:
    """`/open` makes no new conversation and `/new` takes no old one."""
    assert going(Go("a", must_exist=True), PAST) is None
    assert going(Go("a"), None) is None
    assert isinstance(going(Go("a"), PAST), Wrong)
    assert isinstance(going(Go("a", must_exist=True), None), Wrong)


def test_a_conversation_is_entered_and_left_in_words() -> None:
    """One that is gone on with says how far it came and what was last."""
    assert entered("a", "m", None).startswith("a: new, with m.")
    assert "2 turns so far" in entered("a", "m", PAST)
    one = KeptConversation(PAST.pin, 1.0, 2.0, PAST.messages[:2])
    assert "1 turn so far" in entered("a", "m", one)
    assistant, user = reminder(PAST).split("\n")
    assert assistant.endswith("two …")
    assert user == "user: three"
    assert "roost chat 'a b'" in left("a b")
