"""The oldest turns can be left out; the system's words, the last turn and tools cannot."""

from __future__ import annotations

from roost.core.request import ChatPrompt, Message, Offer, Role, Tool, ToolCall
from roost.text.trimming import Turns


def talk(*said: str) -> ChatPrompt:
    """Make a conversation of messages like `u1`, `a1`, `s1`."""
    roles: dict[str, Role] = {"u": "user", "a": "assistant", "s": "system"}
    return ChatPrompt(tuple(Message(roles[one[0]], one) for one in said))


def left(prompt: ChatPrompt, count: int) -> list[str]:
    """Say what is left without so many turns."""
    return [message.content for message in Turns(prompt).without(count).messages]


def test_turns() -> None:
    """A turn is what a user says with all that follows; system messages belong to none."""
    prompt = talk("s1", "u1", "a1", "u2", "s2", "a2", "u3")
    assert Turns(prompt).spare == 2
    assert Turns(prompt).without(0) is prompt
    assert left(prompt, 1) == ["s1", "u2", "s2", "a2", "u3"]
    assert left(prompt, 2) == ["s1", "s2", "u3"]


def test_odd_beginnings_and_ends() -> None:
    """An assistant may have spoken first, a user twice, and the answer may be begun."""
    assert left(talk("a0", "u1", "a1", "u2"), 1) == ["u1", "a1", "u2"]
    assert left(talk("u1", "u2", "a2"), 1) == ["u2", "a2"]
    assert Turns(talk("s1", "u1")).spare == 0
    assert Turns(talk("s1")).spare == 0


def test_tools_are_not_torn_apart() -> None:
    """With tools on offer, or a call in the past, nothing is left out."""
    prompt = talk("u1", "a1", "u2")
    offered = ChatPrompt(prompt.messages, Offer((Tool("x"),)))
    called = Message("assistant", "", calls=(ToolCall("c", "x", "{}"),))
    cycle = ChatPrompt((*prompt.messages, called, Message("tool", "y"), Message("user", "u3")))
    assert Turns(offered).spare == 0
    assert Turns(cycle).spare == 0
