"""SHELL: an HTTP call becomes a turn: body to request, terms, voice, and off to the mind.

Adding a dialect is adding a `Dialect` to the table, and who reads its bodies to the readers.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.core.events import Finished, Usage
from roost.core.request import (
    ChatPrompt,
    EmbedPrompt,
    GenerateRequest,
    Message,
    RankPrompt,
    Terms,
)
from roost.dialects.openai.choice import Choice
from roost.dialects.responses.request import going_on
from roost.errors import Failure, RoostError, fail
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.conversations.responses import BACKGROUND_S
from roost.gateway.desk.staying import Staying
from roost.gateway.entry.choices import Choices, check_alone, echoed
from roost.gateway.entry.dialects import DIALECTS, Dialect
from roost.gateway.entry.entry import Entry, Order, terms_of
from roost.gateway.entry.identity import talk_of
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.reading.asked import CONTEXT_HEADER, KEY_HEADER, asked_trimming
from roost.gateway.reading.parser import Parser
from roost.gateway.reading.parsing import Job, Outcome, Parsed, measured, parse
from roost.gateway.replay.lifelines import Held
from roost.gateway.turns.scribe import EVENTS

if TYPE_CHECKING:
    from roost.core.ids import ConversationKey
    from roost.gateway.conversations.responses import Responses
    from roost.gateway.entry.identity import Identity
    from roost.gateway.mind import Mind
    from roost.gateway.replay.lifelines import Lifelines
    from roost.gateway.routes import Call, Routes
    from roost.gateway.tasks import Tasks
    from roost.gateway.turns.turn import Turn


class GenerationSettings(msgspec.Struct, frozen=True):
    """Bodies over `offload_bytes` are read in another process, so that nobody waits.

    `aliases` are other names of models. `trims` is what becomes of chats that are too long, where
    they do not say it themselves. `inputs_max` are taken in one request for vectors.
    """

    default_model: str = ""
    aliases: dict[str, str] = {}
    offload_bytes: int = 1024 * 1024
    strict: bool = False
    trims: bool = False
    inputs_max: int = 2048
    relay: RelaySettings = RelaySettings()


class _Asked(msgspec.Struct, frozen=True):
    """Everything that a call asks for, checked; `own` has nothing of what was said before it."""

    dialect: Dialect
    sent: Parsed
    terms: Terms
    held: Held
    talk: ConversationKey | None
    own: GenerateRequest


class Generation:
    """The endpoints that generate text."""

    def __init__(
        self,
        mind: Mind,
        tasks: Tasks,
        settings: GenerationSettings,
        lifelines: Lifelines,
        identity: Identity,
        responses: Responses,
    ) -> None:
        self._responses = responses
        self._mind = mind
        self._identity = identity
        self._tasks = tasks
        self._settings = settings
        self._parser = Parser()
        self._lifelines = lifelines
        self._entry = Entry(mind, lifelines, identity)
        self._choices = Choices(mind)
        self._staying = Staying(mind)

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        for dialect in DIALECTS:
            routes.add("POST", dialect.path, partial(self._begin, dialect=dialect))

    def use(self, settings: GenerationSettings) -> None:
        """Serve what comes from now on by these."""
        self._settings = settings

    async def close(self) -> None:
        """End the parsing process, if one was needed."""
        await self._parser.close()

    def _begin(self, call: Call, dialect: Dialect) -> None:
        body = call.exchange.take_body()
        default, strict = self._default_model(dialect), self._settings.strict
        keyed = KEY_HEADER in call.exchange.fields
        aliases = self._settings.aliases
        job = Job(dialect.api, body, call.sharer, default, strict, keyed, aliases)
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
            self._entry.refuse(call, dialect.name, outcome.failure)
            return
        wishes = outcome.options.wishes
        if wishes is None or not wishes.previous:
            self._come_in(call, dialect, outcome, outcome.request)
            return

        def then(said: tuple[Message, ...] | Failure) -> None:
            if isinstance(said, Failure):
                self._entry.refuse(call, dialect.name, said)
                return
            request = going_on(outcome.request, wishes, said)
            prompt = measured(request.prompt, call.sharer, request.model)
            whole = msgspec.structs.replace(outcome, request=request, prompt=prompt)
            self._come_in(call, dialect, whole, outcome.request)

        self._responses.recall(call, wishes.previous, then)

    def _come_in(self, call: Call, dialect: Dialect, outcome: Parsed, own: GenerateRequest) -> None:
        if call.exchange.done:
            return
        try:
            asked = self._asked(call, dialect, outcome, own)
        except RoostError as error:
            self._entry.refuse(call, dialect.name, error.failure)
            return
        ignored, stay = outcome.ignored, outcome.options.stay
        if stay is not None and stay.unloads:
            self._unload(call, asked)
            return
        if stay is not None and stay.keep_s is not None and not self._staying.heeds(call):
            ignored = (*ignored, "keep_alive")
        if not self._entry.answered(call, asked.held, dialect.name, ignored):
            self._arrive(call, asked)

    def _unload(self, call: Call, asked: _Asked) -> None:
        failure = self._staying.unload(call, asked.sent.request.model)
        if failure is not None:
            self._entry.refuse(call, asked.dialect.name, failure)
            return
        body = asked.dialect.whole_voice(self._choice(asked)).event(Finished("stop", Usage()))
        if asked.sent.options.stream:
            call.exchange.reply(200, list(asked.dialect.manner.headers), body + b"\n")
        else:
            call.exchange.reply(200, JSON_BODY, body)

    def _asked(self, call: Call, dialect: Dialect, sent: Parsed, own: GenerateRequest) -> _Asked:
        twins, fields = sent.twins, call.exchange.fields
        streamed, wishes = sent.options.stream, sent.options.wishes
        if wishes is not None:
            wishes = self._responses.granted(wishes)
            options = msgspec.structs.replace(sent.options, wishes=wishes)
            sent = msgspec.structs.replace(sent, options=options)
        self._check_inputs(sent.request)
        held = self._lifelines.asked(call, sent.fingerprint, twins.reattach_s, streamed=streamed)
        if sent.options.choices > 1:
            check_alone(held)
        if dialect.manner is not EVENTS and held.window_s is not None:
            message = "Lines have no numbers, so a stream of this API cannot be attached to again."
            raise fail("unsupported", message, param="x-roost-reattach-s")
        if wishes is not None and wishes.background:
            held = msgspec.structs.replace(held, window_s=BACKGROUND_S)
        terms = terms_of(call, twins, sent.request.max_tokens, sent.prompt)
        session = self._identity.presented(terms, fields, twins)
        terms = self._identity.bound(terms, session, fields, twins)
        trims = asked_trimming(
            fields.get(CONTEXT_HEADER), twins.context, by_default=self._settings.trims
        )
        sent = _trimming(sent) if trims and dialect.trims else sent
        return _Asked(dialect, sent, terms, held, talk_of(terms, session), own)

    def _check_inputs(self, request: GenerateRequest) -> None:
        prompt, most, count, param = request.prompt, self._settings.inputs_max, 0, "input"
        if isinstance(prompt, EmbedPrompt):
            count = len(prompt.inputs)
        elif isinstance(prompt, RankPrompt):
            count, param = len(prompt.documents), "documents"
        if count > most:
            message = (
                f"'{param}' has {count} texts, of which {most} are taken in one request "
                "(`embed.inputs_max`). Send them in several."
            )
            raise fail("bad_request", message, param=param)

    def _arrive(self, call: Call, asked: _Asked) -> None:
        sent, terms, relay = asked.sent, asked.terms, self._settings.relay
        first = self._choice(asked)
        if sent.options.wishes is not None:
            self._respond(call, asked, first)
            return
        if sent.options.choices == 1:
            turn = self._turn(call, asked, first, relay)
            stay = sent.options.stay
            if stay is not None and self._staying.heeds(call):
                turn.keeper = self._staying.keeper(stay)
            self._mind.arrive(turn)
            return
        self._choices.begin(call.exchange, asked.dialect, (sent, terms), first, relay)

    def _choice(self, asked: _Asked) -> Choice:
        sent = asked.sent
        return Choice(
            asked.dialect.id_prefix + asked.terms.request_id,
            int(time.time()),
            str(sent.request.model),
            sent.options,
            echo=echoed(sent.options, sent.request.prompt),
        )

    def _respond(self, call: Call, asked: _Asked, choice: Choice) -> None:
        """Let a response arrive, and keep it where that is wished."""
        wishes, relay = choice.options.wishes, self._settings.relay
        assert wishes is not None, "every response has wishes"
        if not wishes.keep:
            self._mind.arrive(self._turn(call, asked, choice, relay))
            return
        kept = self._responses.keeper(call, choice, asked.own)
        turn = self._turn(call, asked, choice, msgspec.structs.replace(relay, sealed=True))
        turn.keeper = turn.sealer = kept
        if not wishes.background or choice.options.stream or self._responses.leave(call, kept):
            self._mind.arrive(turn)

    def _turn(self, call: Call, asked: _Asked, choice: Choice, relay: RelaySettings) -> Turn:
        dialect, wishes = asked.dialect, choice.options.wishes
        # What is made in the background is told to whoever comes for it later, event by event.
        streamed = choice.options.stream or (wishes is not None and wishes.background)
        order = Order(
            dialect.name,
            asked.sent.request,
            asked.terms,
            asked.held,
            relay,
            stream=lambda: dialect.stream_voice(choice),
            whole=None if streamed else dialect.whole_voice(choice),
            manner=dialect.manner,
        )
        turn = self._entry.turn(call, order)
        if asked.talk is not None:
            self._entry.goes_on(turn, asked.talk, named=False)
        return turn

    def _default_model(self, dialect: Dialect) -> str:
        """Name the model of requests that name none: one that is for what this API asks."""
        named, mode = self._settings.default_model, dialect.mode
        models = self._mind.coordinator.models()
        if named and all(one.mode == mode for one in models if one.model == named):
            return named
        served = [one for one in models if one.serves == "all" and one.mode == mode]
        return served[0].model if len(served) == 1 else ""


def _trimming(sent: Parsed) -> Parsed:
    """Let a chat be trimmed; other prompts have no turns."""
    prompt = sent.request.prompt
    if not isinstance(prompt, ChatPrompt):
        return sent
    prompt = msgspec.structs.replace(prompt, trims=True)
    return msgspec.structs.replace(
        sent, request=msgspec.structs.replace(sent.request, prompt=prompt)
    )
