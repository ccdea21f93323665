"""DECIDER: a conversation that is too long without its oldest turns.

A turn is what a user says and all that follows until he speaks again. What the system says stays,
and so does the last turn. A conversation with tools is not trimmed: half a cycle of calls and
results makes models call again, or answer what nobody asked.
"""

from __future__ import annotations

import msgspec

from roost.core.request import ChatPrompt, Message


class Turns:
    """The turns of a prompt that can be left out, oldest first; `spare` is how many."""

    def __init__(self, prompt: ChatPrompt) -> None:
        self._prompt = prompt
        # Which turn each message belongs to; None is the system's.
        self._turn_of: list[int | None] = []
        turn = 0
        for number, message in enumerate(prompt.messages):
            turn += message.role == "user" and number > 0 and self._spoken()
            self._turn_of.append(None if message.role == "system" else turn)
        tools = any(message.calls or message.role == "tool" for message in prompt.messages)
        is_plain = prompt.offer is None and not tools
        self.spare = turn if is_plain else 0

    def without(self, count: int) -> ChatPrompt:
        """Give the prompt without its `count` oldest turns."""
        if count == 0:
            return self._prompt
        pairs = zip(self._prompt.messages, self._turn_of, strict=True)
        kept: tuple[Message, ...] = tuple(m for m, turn in pairs if turn is None or turn >= count)
        return msgspec.structs.replace(self._prompt, messages=kept)

    def _spoken(self) -> bool:
        """Whether somebody but the system has spoken."""
        return any(turn is not None for turn in self._turn_of)
