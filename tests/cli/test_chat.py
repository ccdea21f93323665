"""`roost chat`: what Ctrl-C does, wherever it comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.cli.chatting.answer import Answer
from roost.cli.chatting.gateway import Gateway, Turn
from roost.cli.chatting.lines import INTERRUPTED
from roost.cli.chatting.terminal import Terminal
from roost.cli.verbs.chat import Asked, Chat
from roost.config import Machine, load
from roost.core.conversation import ConversationView, KeptConversation
from roost.core.ids import ModelId, NodeId
from roost.core.pin import Pin

KEPT = KeptConversation(Pin(NodeId("n"), ModelId("m"), 9), 1.0, 2.0, ())


class Fake(Gateway):
    """A gateway that keeps everything; Ctrl-C is pressed while it is asked for the first time."""

    def __init__(self, pressed_in: str) -> None:
        super().__init__(load({}, {}, "", Machine(2, "")).settings)
        self.pressed_in = pressed_in
        self.turns: list[str] = []

    def press(self, where: str) -> None:
        """Interrupt once, if this is the place."""
        if self.pressed_in == where:
            self.pressed_in = ""
            raise KeyboardInterrupt

    def models(self) -> list[str]:
        return ["m"]

    def kept(self) -> list[ConversationView]:
        return []

    def conversation(self, name: str) -> KeptConversation | None:
        if not self.turns:
            return None
        self.press("look")
        return KEPT

    def turn(self, turn: Turn, answer: Answer, show: Callable[[str], None]) -> None:
        self.turns.append(turn.prompt)
        self.press("answer")
        show("yes")


class Typing(Terminal):
    """Somebody who types these lines, and Ctrl-C at the prompt in the end."""

    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.watched = True
        self.lines = list(lines)
        self.told: list[str] = []

    def read(self, prompt: str) -> str:
        if not self.lines:
            raise KeyboardInterrupt
        return self.lines.pop(0)

    def tell(self, text: str) -> None:
        self.told.append(text)


@pytest.mark.parametrize("place", ["answer", "look", "nowhere"])
def test_ctrl_c_stops_what_comes_and_leaves_at_the_prompt_alone(place: str) -> None:
    """Between an answer and the prompt nobody can aim: the chat goes on, and is left properly."""
    gateway, terminal = Fake(place), Typing("one?", "two?", "three?")
    code = Chat(gateway, terminal, Asked("talk", False, "", 9, None)).run()
    assert code == INTERRUPTED
    assert gateway.turns == ["one?", "two?", "three?"]
    assert "talk" in terminal.told[-1]
