"""SHELL: what `roost chat` asks a gateway: models, what is kept, and turns whose answers stream."""

from __future__ import annotations

from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.cli import client
from roost.core.conversation import ConversationView, KeptConversation, Listed
from roost.errors import RoostError, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.cli.chatting.answer import Answer
    from roost.config import Settings

KEPT, TURNS = "/roost/v1/conversations", "/coordinator/infer"


class _Models(msgspec.Struct):
    class One(msgspec.Struct):
        id: str
        mode: str = "generate"

    data: list[One]


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a turn."""

    conversation_id: str
    prompt: str
    model: str
    max_tokens: int
    temperature: float | None = None


class Gateway:
    """One gateway, found anew for each call: it may have been started again meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def models(self) -> list[str]:
        """List what is served and says texts; raises what `ask` does."""
        told = client.read_as(client.ask(self._settings, "/v1/models"), _Models)
        return [model.id for model in told.data if model.mode == "generate"]

    def kept(self) -> list[ConversationView]:
        """List what is kept, newest first; raises `unsupported` for what is no such gateway."""
        client.located(self._settings)
        try:
            told = client.ask(self._settings, KEPT)
        except RoostError as error:
            if error.failure.reason != "not_found":
                raise
            raise fail(
                "unsupported",
                "What answers there keeps no conversations, as a gateway with --upstream does "
                "not. It may be asked at its /v1 by any OpenAI client.",
            ) from None
        views = client.read_as(told, Listed).conversations
        return sorted(views, key=lambda view: view.active_unix_s, reverse=True)

    def conversation(self, name: str) -> KeptConversation | None:
        """Return what was said in one of one's own; None where nothing is kept."""
        try:
            told = client.ask(self._settings, f"{KEPT}/{quote(name, safe='')}")
        except RoostError as error:
            if error.failure.reason != "not_found":
                raise
            return None
        return client.read_as(told, KeptConversation)

    def turn(self, turn: Turn, answer: Answer, show: Callable[[str], None]) -> None:
        """Take a turn: what comes goes through `answer`, and what is for people to `show`.

        A failure is in the answer. Whatever interrupts this closes the connection, and with that
        the gateway stops the model.
        """
        key, sent = self._settings.api_key, msgspec.json.encode(turn)
        try:
            where = client.located(self._settings)
            try:
                with client.replying(where, key, TURNS, sent, "POST", client.SILENCE_S) as reply:
                    _follow(reply, answer, show)
            except (OSError, HTTPException) as error:
                if not answer.begun:
                    raise client.silent(where.url, error) from None
                answer.on_failed("The connection ended before the answer did.")
        except RoostError as error:
            answer.on_failed(error.failure.message)


def _follow(reply: HTTPResponse, answer: Answer, show: Callable[[str], None]) -> None:
    if reply.status == client.OK:
        answer.on_head({name.lower(): value for name, value in reply.getheaders()})
    client.listen(reply, answer, lambda data: show(answer.on_event(data, monotonic())))
