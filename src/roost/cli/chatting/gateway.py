"""SHELL: what `roost chat` asks a gateway: models, what is kept, and turns whose answers stream."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.cli.client import ask, bearer, located, opened, read_as, silent
from roost.core.conversation import ConversationView, KeptConversation, Listed
from roost.errors import Failure, RoostError, fail
from roost.text.sse import SseParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.cli.chatting.answer import Answer
    from roost.config import Settings

SILENCE_S = 60.0
"""A gateway says something every `stream.keepalive_s` (10 s); after this long it is gone."""
PIECE_BYTES = REFUSAL_MAX_BYTES = 65_536
EVENT_MAX_BYTES = 16 * 1024 * 1024
OK = 200
KEPT = "/roost/v1/conversations"


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
        told = read_as(ask(self._settings, "/v1/models"), _Models)
        return [model.id for model in told.data if model.mode == "generate"]

    def kept(self) -> list[ConversationView]:
        """List what is kept, newest first; raises `unsupported` for what is no such gateway."""
        located(self._settings)
        try:
            told = ask(self._settings, KEPT)
        except RoostError as error:
            if error.failure.reason != "not_found":
                raise
            raise fail(
                "unsupported",
                "What answers there keeps no conversations, as a gateway with --upstream does "
                "not. It may be asked at its /v1 by any OpenAI client.",
            ) from None
        views = read_as(told, Listed).conversations
        return sorted(views, key=lambda view: view.active_unix_s, reverse=True)

    def conversation(self, name: str) -> KeptConversation | None:
        """Return what was said in one of one's own; None where nothing is kept."""
        try:
            told = ask(self._settings, f"{KEPT}/{quote(name, safe='')}")
        except RoostError as error:
            if error.failure.reason != "not_found":
                raise
            return None
        return read_as(told, KeptConversation)

    def turn(self, turn: Turn, answer: Answer, show: Callable[[str], None]) -> None:
        """Take a turn: what comes goes through `answer`, and what is for people to `show`.

        A failure is in the answer. Whatever interrupts this closes the connection, and with that
        the gateway stops the model.
        """
        try:
            where = located(self._settings)
            made, root = opened(where, SILENCE_S)
        except RoostError as error:
            answer.on_failed(error.failure.message)
            return
        with closing(made) as connection:
            try:
                reply = self._send(connection, f"{root}/coordinator/infer", turn)
                _follow(reply, answer, show)
            except (OSError, HTTPException) as error:
                cut = "The connection ended before the answer did."
                answer.on_failed(cut if answer.begun else silent(where.url, error).failure.message)

    def _send(self, connection: HTTPConnection, path: str, turn: Turn) -> HTTPResponse:
        headers = {"Content-Type": "application/json", **bearer(self._settings.api_key)}
        connection.request("POST", path, msgspec.json.encode(turn), headers)
        return connection.getresponse()


def _follow(reply: HTTPResponse, answer: Answer, show: Callable[[str], None]) -> None:
    if reply.status != OK:
        answer.on_refused(reply.status, reply.read(REFUSAL_MAX_BYTES))
        return
    answer.on_head({name.lower(): value for name, value in reply.getheaders()})
    events = SseParser(EVENT_MAX_BYTES)
    while not answer.over:
        piece = reply.read1(PIECE_BYTES)
        if not piece:
            answer.on_end()
        for event in events.push(piece):
            if isinstance(event, Failure):
                answer.on_failed(event.message)
            else:
                show(answer.on_event(event.data, monotonic()))
