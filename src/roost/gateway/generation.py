"""SHELL: an HTTP call becomes a turn: body to request, terms, voice, and off to the mind.

Adding a dialect is adding a `Dialect` value: how its bodies are read, and its two voices.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.core.request import Terms
from roost.dialects.openai_chat_reply import ChatStream, chat_body
from roost.dialects.openai_completions_reply import CompletionStream, completion_body
from roost.dialects.openai_options import ReplyOptions
from roost.errors import Failure, RoostError
from roost.fleet.relay import Relay, RelaySettings
from roost.fleet.said import said_for
from roost.gateway.asked import (
    CLASS_HEADER,
    KEY_HEADER,
    ON_LOSS_HEADER,
    asked_class,
    asked_on_loss,
)
from roost.gateway.identity import talk_of
from roost.gateway.lifelines import Held
from roost.gateway.parser import Parser
from roost.gateway.parsing import Api, Job, Outcome, Parsed, parse
from roost.gateway.scribe import StreamScribe, StreamVoice, WholeScribe, WholeVoice
from roost.gateway.timeouts import TIMEOUT_HEADER, asked_timeout_s
from roost.gateway.turn import Turn

if TYPE_CHECKING:
    from roost.core.ids import ConversationKey
    from roost.gateway.identity import Identity
    from roost.gateway.lifelines import Lifelines
    from roost.gateway.mind import Mind
    from roost.gateway.outlet import Outlet
    from roost.gateway.routes import Call
    from roost.gateway.tasks import Tasks


class Dialect(msgspec.Struct, frozen=True):
    """How one API is spoken. Voices are made of (reply id, created, model, options)."""

    name: str
    api: Api
    id_prefix: str
    stream_voice: Callable[[str, int, str, ReplyOptions], StreamVoice]
    whole_voice: Callable[[str, int, str, ReplyOptions], WholeVoice]


CHAT = Dialect("openai", "chat", "chatcmpl-", ChatStream, chat_body)
COMPLETIONS = Dialect("openai", "completions", "cmpl-", CompletionStream, completion_body)


class GenerationSettings(msgspec.Struct, frozen=True):
    """Bodies over `offload_bytes` are read in another process, so that nobody waits."""

    default_model: str = ""
    offload_bytes: int = 1024 * 1024
    strict: bool = False
    relay: RelaySettings = RelaySettings()


class _Asked(msgspec.Struct, frozen=True):
    """Everything that a call asks for, checked."""

    dialect: Dialect
    sent: Parsed
    terms: Terms
    held: Held
    talk: ConversationKey | None


class Generation:
    """The endpoints that generate text."""

    def __init__(
        self,
        mind: Mind,
        tasks: Tasks,
        settings: GenerationSettings,
        lifelines: Lifelines,
        identity: Identity,
    ) -> None:
        self._mind = mind
        self._identity = identity
        self._tasks = tasks
        self._settings = settings
        self._parser = Parser()
        self._lifelines = lifelines

    def chat(self, call: Call) -> None:
        """POST /v1/chat/completions."""
        self._begin(call, CHAT)

    def completions(self, call: Call) -> None:
        """POST /v1/completions."""
        self._begin(call, COMPLETIONS)

    async def close(self) -> None:
        """End the parsing process, if one was needed."""
        await self._parser.close()

    def _begin(self, call: Call, dialect: Dialect) -> None:
        body = call.exchange.take_body()
        default, strict = self._default_model(), self._settings.strict
        keyed = KEY_HEADER in call.exchange.fields
        job = Job(dialect.api, body, call.tenant, default, strict, keyed)
        if len(body) > self._settings.offload_bytes:
            self._tasks.start(self._begin_elsewhere(call, dialect, job), "large body")
        else:
            self._go_on(call, dialect, parse(job))

    async def _begin_elsewhere(self, call: Call, dialect: Dialect, job: Job) -> None:
        outcome = await self._parser.parse(job)
        # Contained as the front contains what answers at once: a defect is told and logged.
        call.exchange.answer(lambda _: self._go_on(call, dialect, outcome))

    def _go_on(self, call: Call, dialect: Dialect, outcome: Outcome) -> None:
        if call.exchange.done:
            return
        if not isinstance(outcome, Parsed):
            self._refuse(call, dialect, outcome.failure)
            return
        try:
            asked = self._asked(call, dialect, outcome)
        except RoostError as error:
            self._refuse(call, dialect, error.failure)
            return
        self._start(call, asked)

    def _asked(self, call: Call, dialect: Dialect, sent: Parsed) -> _Asked:
        held = self._lifelines.asked(
            call, sent.fingerprint, sent.reattach_s, streamed=sent.options.stream
        )
        fields, told = call.exchange.fields, sent.belonging
        terms = _terms(call, sent)
        session = self._identity.presented(terms, fields, told)
        terms = self._identity.bound(terms, session, fields, told)
        talk = talk_of(terms, session)
        return _Asked(dialect, sent, terms, held, talk)

    def _refuse(self, call: Call, dialect: Dialect, failure: Failure) -> None:
        self._mind.metrics("roost_requests_total", "rejected", dialect.name).inc()
        call.exchange.fail(failure)

    def _start(self, call: Call, asked: _Asked) -> None:
        exchange = call.exchange
        if asked.sent.ignored:
            names = list(asked.sent.ignored)
            self._mind.log.debug("fields_ignored", request=exchange.request_id, fields=names)
        if self._lifelines.answered(call, asked.held, asked.dialect.name):
            return
        turn = self._turn(call, asked)
        exchange.watcher = exchange.watcher or turn
        self._mind.arrive(turn)

    def _turn(self, call: Call, asked: _Asked) -> Turn:
        sent, dialect = asked.sent, asked.dialect
        reply_id = dialect.id_prefix + asked.terms.request_id
        named = (reply_id, int(time.time()), str(sent.request.model), sent.options)
        limits, streamed = self._settings.relay, sent.options.stream
        said = said_for(asked.terms, limits.replay_max_tokens)
        relay = Relay(limits, streamed=streamed, now=self._mind.now_s, said=said)
        # Readers that are replaced hear a voice of their own: theirs is not the end of the stream.
        held, lifelines = asked.held, self._lifelines
        reel = lifelines.reel(call, held, lambda why: dialect.stream_voice(*named).error(why))
        base: Outlet = reel or call.exchange
        outlet = lifelines.outlet(held, relay, base, numbered=reel is not None)
        scribe: StreamScribe | WholeScribe
        if sent.options.stream:
            scribe = StreamScribe(outlet, dialect.stream_voice(*named))
        else:
            scribe = WholeScribe(outlet, dialect.whole_voice(*named))
        turn = Turn(sent.request, asked.terms, relay, scribe, dialect.name)
        if asked.talk is not None:
            turn.session = partial(self._identity.token, key=asked.talk, named=False)
        if reel is not None:
            reel.watcher = turn
        return turn

    def _default_model(self) -> str:
        if self._settings.default_model:
            return self._settings.default_model
        served = self._mind.coordinator.models()
        return served[0].model if len(served) == 1 else ""


def _terms(call: Call, sent: Parsed) -> Terms:
    """Put together under which terms a call is served; `bad_request` for headers that are wrong."""
    fields = call.exchange.fields
    return Terms(
        request_id=call.exchange.request_id,
        tenant=call.tenant,
        chain=sent.chain,
        timeout_s=asked_timeout_s(fields.get(TIMEOUT_HEADER), sent.timeout_ms),
        prompt_bytes=sent.prompt_bytes,
        prompt_tokens=sent.prompt_tokens,
        max_tokens=sent.request.max_tokens,
        class_=asked_class(fields.get(CLASS_HEADER), sent.class_, call.principal.class_),
        weight=call.principal.weight,
        on_loss=asked_on_loss(fields.get(ON_LOSS_HEADER), sent.on_loss),
    )
