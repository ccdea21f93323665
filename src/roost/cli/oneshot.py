"""MACHINE: the reply to one chat request, whole or streamed, as text and how it ended."""

from __future__ import annotations

import msgspec

from roost.text.screen import in_one_line


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Said = msgspec.field(default_factory=_Said)
    message: _Said = msgspec.field(default_factory=_Said)
    finish_reason: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """What it took, in tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Error(msgspec.Struct):
    message: str = "The gateway does not say why."


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: _Error | None = None


DONE = b"[DONE]"


class OneShot:
    """Takes events, or one body; `failure` is what to tell where it is not complete.

    `reason` is why the model has ended, "" before it has.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.failure = ""
        self.usage: Usage | None = None
        self.text = ""
        self._done = False

    @property
    def over(self) -> bool:
        """Whether nothing more comes that counts."""
        return self._done or bool(self.failure)

    def on_event(self, data: bytes) -> str:
        """Take one event of a stream, and return what the model says in it."""
        if data == DONE:
            self._done = True
            return ""
        return self._on_reply(data)

    def on_body(self, data: bytes) -> str:
        """Take a whole reply."""
        said = self._on_reply(data)
        self._done = True
        return said

    def on_refused(self, status: int, data: bytes) -> None:
        """Take a reply that is no answer."""
        try:
            error = msgspec.json.decode(data, type=_Reply).error
        except msgspec.MsgspecError:
            error = None
        self.on_failed(error.message if error is not None else f"The gateway answered {status}.")

    def on_end(self) -> None:
        """The connection is at its end; an answer without its last words is none."""
        if not self._done:
            self.on_failed("The connection ended before the answer did.")

    def on_failed(self, why: str) -> None:
        """It is not complete, for this reason; the first one counts."""
        self.failure = self.failure or in_one_line(why)

    def _on_reply(self, data: bytes) -> str:
        try:
            reply = msgspec.json.decode(data, type=_Reply)
        except msgspec.MsgspecError:
            self.on_failed("What answers there does not speak as a gateway of roost does.")
            return ""
        self.usage = reply.usage or self.usage
        if reply.error is not None:
            self.on_failed(reply.error.message)
        said = ""
        for choice in reply.choices[:1]:
            self.reason = choice.finish_reason or self.reason
            said = choice.delta.content or choice.message.content or ""
        self.text += said
        return said
