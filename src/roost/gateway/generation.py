"""SHELL: an HTTP call becomes a turn: body to request, terms, voice, and off to the mind.

Adding a dialect is adding a `Dialect` value: how it reads a body, and its two voices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, Terms
from roost.dialects.openai_chat import read_chat
from roost.dialects.openai_chat_reply import ChatStream, chat_body
from roost.dialects.openai_completions import read_completion
from roost.dialects.openai_completions_reply import CompletionStream, completion_body
from roost.dialects.openai_options import ReplyOptions, Translated
from roost.errors import Failure, RoostError, fail
from roost.fleet.affinity import chain
from roost.fleet.relay import Relay, RelaySettings
from roost.gateway.scribe import StreamScribe, StreamVoice, WholeScribe, WholeVoice
from roost.gateway.turn import Turn

if TYPE_CHECKING:
    from roost.core.request import GenerateRequest
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call
    from roost.gateway.tasks import Tasks

TIMEOUT_MAX_MS = 24 * 3600 * 1000


class Dialect(msgspec.Struct, frozen=True):
    """How one API is spoken. Voices are made of (reply id, created, model, options)."""

    name: str
    id_prefix: str
    read: Callable[[bytes], Translated]
    stream_voice: Callable[[str, int, str, ReplyOptions], StreamVoice]
    whole_voice: Callable[[str, int, str, ReplyOptions], WholeVoice]


CHAT = Dialect("openai", "chatcmpl-", read_chat, ChatStream, chat_body)
COMPLETIONS = Dialect("openai", "cmpl-", read_completion, CompletionStream, completion_body)


class GenerationSettings(msgspec.Struct, frozen=True):
    """Bodies over `offload_bytes` are parsed in another process, so that nobody waits."""

    default_model: str = ""
    offload_bytes: int = 1024 * 1024
    strict: bool = False
    relay: RelaySettings = RelaySettings()


class Generation:
    """The endpoints that generate text."""

    def __init__(self, mind: Mind, tasks: Tasks, settings: GenerationSettings) -> None:
        self._mind = mind
        self._tasks = tasks
        self._settings = settings
        self._pool: ProcessPoolExecutor | None = None

    def chat(self, call: Call) -> None:
        """POST /v1/chat/completions."""
        self._begin(call, CHAT)

    def completions(self, call: Call) -> None:
        """POST /v1/completions."""
        self._begin(call, COMPLETIONS)

    def close(self) -> None:
        """End the parsing process, if one was needed."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, call: Call, dialect: Dialect) -> None:
        body = call.exchange.take_body()
        if len(body) > self._settings.offload_bytes:
            self._tasks.start(self._begin_elsewhere(call, dialect, body), "large body")
            return
        try:
            self._start(call, dialect, dialect.read(body))
        except RoostError as error:
            call.exchange.fail(error.failure)

    async def _begin_elsewhere(self, call: Call, dialect: Dialect, body: bytes) -> None:
        if self._pool is None:
            # spawn: a fork would copy the event loop's threads and sockets.
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        loop = asyncio.get_running_loop()
        try:
            translated = await loop.run_in_executor(self._pool, dialect.read, body)
            self._start(call, dialect, translated)
        except RoostError as error:
            call.exchange.fail(error.failure)
        except Exception as error:  # noqa: BLE001 - a dead pool must not leave the client waiting
            self._pool = None
            self._mind.log.error("internal_error", error=type(error).__name__)  # noqa: TRY400
            call.exchange.fail(Failure("internal", "The request could not be parsed."))

    def _start(self, call: Call, dialect: Dialect, sent: Translated) -> None:
        exchange = call.exchange
        if exchange.done:
            return
        if sent.ignored:
            self._mind.log.debug(
                "fields_ignored", request=exchange.request_id, fields=list(sent.ignored)
            )
        request = self._with_model(sent.request)
        terms = Terms(
            request_id=exchange.request_id,
            tenant=call.tenant,
            chain=_chain(call, request),
            timeout_s=_timeout_s(call, sent),
        )
        turn = self._turn(call, dialect, sent.options, request, terms)
        exchange.watcher = turn
        self._mind.arrive(turn)

    def _turn(
        self,
        call: Call,
        dialect: Dialect,
        options: ReplyOptions,
        request: GenerateRequest,
        terms: Terms,
    ) -> Turn:
        reply_id = dialect.id_prefix + terms.request_id
        named = (reply_id, int(time.time()), str(request.model), options)
        relay = Relay(self._settings.relay, streamed=options.stream, now=self._mind.now_s)
        scribe: StreamScribe | WholeScribe
        if options.stream:
            scribe = StreamScribe(call.exchange, dialect.stream_voice(*named))
        else:
            scribe = WholeScribe(call.exchange, dialect.whole_voice(*named))
        return Turn(request, terms, relay, scribe, dialect.name)

    def _with_model(self, request: GenerateRequest) -> GenerateRequest:
        if request.model:
            return request
        served = [offer.model for offer in self._mind.coordinator.models()]
        named = self._settings.default_model or (served[0] if len(served) == 1 else "")
        if not named:
            message = "Name a model: several are served here; GET /v1/models lists them."
            raise fail("bad_request", message, param="model")
        return msgspec.structs.replace(request, model=ModelId(named))


def _chain(call: Call, request: GenerateRequest) -> tuple[bytes, ...]:
    if isinstance(request.prompt, ChatPrompt):
        return chain(call.tenant, request.model, request.prompt.messages)
    return ()


def _timeout_s(call: Call, sent: Translated) -> float | None:
    header = call.exchange.fields.get(b"x-roost-timeout-ms")
    value = header.decode("latin-1") if header is not None else sent.roost.get("timeout_ms")
    if value is None:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= TIMEOUT_MAX_MS):
        message = f"The timeout must be a whole number of ms from 1 to {TIMEOUT_MAX_MS}."
        raise fail("bad_request", message, param="x-roost-timeout-ms")
    return int(text) / 1000
