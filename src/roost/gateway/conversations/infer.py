"""SHELL: POST /coordinator/infer: a turn of a named conversation, whose past the gateway keeps.

    expected ── its turn ──▶ what was said is recalled ──▶ admitted, like any other request
       ▲                       (and made shorter) ▲            │
       │                                          ╰─ too long ─┤
       └──── the next turn, once this one has ended ◀──────────┘

What was said becomes ordinary chat messages, so the node's template renders them and its KV serves
them like the history that other clients send.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.core.conversation import KeptConversation
from roost.core.ids import ConversationKey, TenantId
from roost.core.pin import Pin
from roost.core.request import ChatPrompt, Message, Terms
from roost.dialects.system1.infer import InferAsked, missing, read_infer
from roost.dialects.system1.infer_errors import InferCase
from roost.dialects.system1.infer_reply import InferStream
from roost.errors import Failure, RoostError, fail
from roost.fleet.conversations.compacting import CompactionSettings, past_of
from roost.fleet.conversations.compaction import Asked
from roost.fleet.conversations.effects import Begin, ConversationEffect, Gone, Refuse
from roost.fleet.conversations.registry import Conversations, ConversationSettings, conversation_key
from roost.fleet.line import refusals
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.alarm import Alarm
from roost.gateway.conversations.background import Background
from roost.gateway.conversations.infer_outlet import InferOutlet
from roost.gateway.conversations.speech import Speech
from roost.gateway.entry.entry import Entry, Order, terms_of
from roost.gateway.reading.asked import Twins, twins
from roost.gateway.reading.parsing import Measured, fingerprint, measured, of_real_model

if TYPE_CHECKING:
    from roost.core.ids import RequestId
    from roost.gateway.conversations.archive import Archive
    from roost.gateway.conversations.compactor import Compactor
    from roost.gateway.entry.identity import Identity
    from roost.gateway.mind import Mind
    from roost.gateway.reading.session_token import Session
    from roost.gateway.replay.lifelines import Lifelines
    from roost.gateway.routes import Call
    from roost.gateway.turns.turn import Turn

DIALECT = "infer"
ELSEWHERE = Failure(
    "transcript_elsewhere",
    "What was said in this conversation is kept by another gateway. Go on there, or begin anew.",
)


class InferSettings(msgspec.Struct, frozen=True):
    """What is particular to this API: bodies over `body_max_bytes` are no single turn.

    The next turn of a conversation waits up to `release_wait_s` until the place of the one before
    is free.
    """

    conversations: ConversationSettings = ConversationSettings()
    relay: RelaySettings = RelaySettings(sealed=True)
    body_max_bytes: int = 1024 * 1024
    strict: bool = False
    legacy_503: bool = False
    terminal_event: bool = True
    release_wait_s: float = 1.0
    compaction: CompactionSettings = CompactionSettings()
    aliases: dict[str, str] = {}


class Infer:
    """Serves system 1's clients."""

    def __init__(
        self,
        mind: Mind,
        archive: Archive,
        settings: InferSettings,
        lifelines: Lifelines,
        identity: Identity,
        compactor: Compactor,
    ) -> None:
        self._mind = mind
        self._compactor = compactor
        self._lifelines = lifelines
        self._identity = identity
        self._entry = Entry(mind, lifelines, identity)
        self._archive = archive
        self._settings = settings
        self.conversations = Conversations(settings.conversations)
        self._background = Background(mind, archive, compactor, self.conversations, self.on_worked)
        self._speeches: dict[RequestId, Speech] = {}
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._tick)

    def use(self, settings: InferSettings) -> None:
        """Serve what comes from now on by these, as far as they are read for every turn."""
        self._settings = settings

    def label(self, key: ConversationKey) -> str:
        """Name a conversation as all lines of the log do."""
        return self._identity.label(key)

    def infer(self, call: Call) -> None:
        """POST /coordinator/infer."""
        body = call.exchange.take_body()
        try:
            if len(body) > self._settings.body_max_bytes:
                message = f"One turn has at most {self._settings.body_max_bytes} bytes."
                raise fail("body_too_large", message, param="prompt")
            asked = read_infer(body, strict=self._settings.strict)
            real = of_real_model(asked.request, self._settings.aliases)
            asked = msgspec.structs.replace(asked, request=real)
            said = twins(asked.roost)
            terms, key, session = self._identified(call, asked, said)
            relay = self._relay(asked)
            same = fingerprint(DIALECT, key + body)
            held = self._lifelines.asked(call, same, said.reattach_s)
        except RoostError as error:
            self._entry.refuse(call, DIALECT, error.failure)
            return
        if self._entry.answered(call, held, DIALECT, asked.ignored):
            return
        request = terms.request_id

        def case(failure: Failure) -> InferCase:
            return self._case(self._speeches[request], failure)

        order = Order(
            DIALECT,
            asked.request,
            terms,
            held,
            relay,
            stream=self._voice,
            outlet=lambda reader: InferOutlet(reader, case),
        )
        turn = self._entry.turn(call, order)
        self._entry.goes_on(turn, key, named=True)
        self._expect(Speech(key, asked, turn, self._mind.now_s, session))

    def _identified(
        self, call: Call, asked: InferAsked, said: Twins
    ) -> tuple[Terms, ConversationKey, Session | None]:
        """Find out which conversation it is: the name says so, or a token does in its place."""
        fields, identity = call.exchange.fields, self._identity
        # What was said before is not known yet: a key with limits has the new text reserved.
        size = Measured(size_bytes=len(asked.text.encode()))
        terms = terms_of(call, said, asked.request.max_tokens, size)
        # What is kept of a conversation, and moved with it, is its tenant's.
        terms = msgspec.structs.replace(terms, needs=asked.needs, shares_as=TenantId(""))
        session = identity.presented(terms, fields, said)
        if asked.conversation:
            key = conversation_key(call.tenant, asked.conversation)
        elif session is not None and session.named:
            key = session.key
        else:
            raise missing("conversation_id")
        if session is not None and session.key != key:
            # A token of another conversation says nothing about this one.
            session = None
        return identity.bound(terms, session, fields, said), key, session

    def _relay(self, asked: InferAsked) -> RelaySettings:
        settings = self._settings.relay
        on_full = asked.roost.get("on_full", settings.on_full)
        # A tuple, since a body may hold what no set can look up.
        if on_full not in ("pause", "drop_oldest"):
            message = "'roost.on_full' must be 'pause' or 'drop_oldest'."
            raise fail("bad_request", message, param="roost.on_full")
        return msgspec.structs.replace(settings, on_full=on_full)

    def _expect(self, speech: Speech) -> None:
        """Look after the client while its turn waits for the one before."""
        turn, key = speech.turn, speech.key
        request = turn.terms.request_id
        self._speeches[request] = speech
        if not self._mind.expect(turn):
            del self._speeches[request]
            return
        turn.keeper = turn.sealer = self
        turn.reached = []
        turn.rescue = partial(self._rescue, speech)
        self._keep_time(speech)
        is_new = self.conversations.state(key) == "none"
        self._perform(self.conversations.on_turn(key, request, self._mind.now_s))
        if is_new:
            self._background.on_new()
        else:
            self._compactor.hurry(key)

    def _keep_time(self, speech: Speech) -> None:
        """Keep the client's own time, as long as no coordinator does."""
        left_s = self._left_s(speech)
        if left_s is not None:
            speech.timer = self._loop.call_later(left_s, self._late, speech)

    def _left_s(self, speech: Speech) -> float | None:
        if speech.timeout_s is None:
            return None
        return max(0.0, speech.timeout_s - (self._mind.now_s - speech.arrived_s))

    def _voice(self) -> InferStream:
        return InferStream(terminal=self._settings.terminal_event)

    # --- the registry's effects

    def _perform(self, effects: list[ConversationEffect]) -> None:
        for effect in effects:
            match effect:
                case Begin(key, request):
                    self._archive.recall(key, partial(self._begin, self._speeches[request]))
                case Refuse(request, failure):
                    self._speeches[request].turn.on_answer(failure)
                case Gone(key, why):
                    self._mind.metrics("roost_conversations_gone_total", why).inc()
                    self._mind.log.debug("conversation_gone", session=self.label(key), why=why)
        self._count()
        self._alarm.set(self.conversations.next_tick())

    def _count(self) -> None:
        counts, metrics = self.conversations.counts(), self._mind.metrics
        metrics("roost_conversations", "active").set(counts.active)
        metrics("roost_conversations", "idle").set(counts.idle)
        metrics("roost_conversations", "waiting").set(counts.waiting)

    def _begin(self, speech: Speech, past: KeptConversation | Failure | None) -> None:
        """What was said is known: find out from how much of it the turn goes on."""
        turn = speech.turn
        if self._is_over(speech):
            return
        if isinstance(past, Failure):
            turn.on_answer(past)
            return
        speech.past = past
        session = speech.session
        if past is None and session is not None and not self._identity.ours(session):
            turn.on_answer(ELSEWHERE)
            return
        if past is None:
            self._go(speech, ())
            return
        idle_s = time.time() - past.active_unix_s
        self.conversations.on_recalled(speech.key, past.pin, idle_s)
        if turn.terms.require:
            # Whoever insists on its KV does not want it thrown away.
            self._go(speech, past_of(past))
        else:
            done = partial(self._shortened, speech)
            self._compactor.turn(turn.terms.request_id, self._asked(speech, past), done)

    def _is_over(self, speech: Speech) -> bool:
        """Whether a turn has ended, or only waits for a slow client to be told so."""
        return speech.turn.terms.request_id not in self._speeches or speech.turn.relay.decided

    def _asked(self, speech: Speech, past: KeptConversation) -> Asked:
        request, pin, mind = speech.turn.request, self._pin(speech), self._mind
        return Asked(
            speech.key,
            speech.turn.terms.tenant,
            request.model,
            past,
            len(speech.text.encode()),
            request.max_tokens,
            self._compactor.ctx(request.model),
            is_gone=pin is not None and mind.coordinator.silent_s(pin.node, mind.now_s) is None,
        )

    def _shortened(self, speech: Speech, past: KeptConversation | None) -> None:
        if self._is_over(speech):
            return
        if past is None:
            assert speech.refusal is not None, "only what was refused is given up"
            speech.turn.on_answer(speech.refusal)
            return
        speech.past = past
        self._go(speech, past_of(past))

    def _go(self, speech: Speech, past: tuple[Message, ...]) -> None:
        """Put together what is asked with what was said, and have the coordinator decide."""
        turn = speech.turn
        prompt = ChatPrompt((*past, Message("user", speech.text)))
        turn.request = msgspec.structs.replace(turn.request, prompt=prompt)
        turn.terms = self._terms_now(speech, prompt)
        if speech.timer is not None:
            # From here on the coordinator keeps the client's time.
            speech.timer.cancel()
        self._mind.admit(turn)

    def _terms_now(self, speech: Speech, prompt: ChatPrompt) -> Terms:
        terms, request = speech.turn.terms, speech.turn.request
        size = measured(prompt, terms.tenant, request.model)
        pin, compacted = self._pin(speech), speech.past.compacted if speech.past else None
        if compacted is not None and pin is not None and not pin.moved:
            # The KV there is that of a longer past.
            pin = msgspec.structs.replace(pin, tokens=0)
        has_past = terms.has_past or speech.past is not None
        return msgspec.structs.replace(
            terms,
            chain=size.chain,
            timeout_s=self._left_s(speech),
            prompt_bytes=size.size_bytes,
            pin=pin,
            require=terms.require and has_past,
            has_past=has_past,
            fresh=not has_past,
            compacted=compacted,
        )

    # --- what a node finds too long

    def _rescue(self, speech: Speech, failure: Failure) -> bool:
        """Try a shorter past where a node refuses a prompt; False where there is none."""
        turn = speech.turn
        if failure.reason != "context_length_exceeded" or speech.past is None:
            return False
        if turn.terms.require or self._is_over(speech):
            return False
        speech.refusal, turn.is_expected = failure, True
        self._keep_time(speech)
        wait_s = self._settings.release_wait_s
        self._mind.when_free(turn, wait_s, partial(self._again, speech))
        return True

    def _again(self, speech: Speech) -> None:
        turn = speech.turn
        if self._is_over(speech):
            return
        if self._mind.coordinator.holds(turn.terms.request_id, turn.attempt):
            # The next attempt would be taken for this one.
            assert speech.refusal is not None, "only what was refused comes here"
            turn.on_answer(speech.refusal)
            return
        self._compactor.too_long(turn.terms.request_id)

    def _pin(self, speech: Speech) -> Pin | None:
        """Where its KV is: as far as is known here, else by its token.

        Every turn that went on from the words kept here has passed here, so no token knows of a
        newer one; and a client may send the token of any turn before.
        """
        known, session = self.conversations.pin(speech.key), speech.session
        return known if known is not None or session is None else session.pin

    def _late(self, speech: Speech) -> None:
        """Its own time has passed while it waited for the turn before, or for a shorter past."""
        speech.turn.on_answer(refusals.deadline(speech.timeout_s or 0.0))

    # --- from turns

    def seal(self, turn: Turn) -> None:
        """Keep a complete answer before its client hears the end."""
        speech = self._speeches[turn.terms.request_id]
        speech.kept = True
        speech.forgotten = self._compactor.is_unkept(turn.terms.request_id)
        said = speech.said(complete=True)
        if said is None:
            turn.on_sealed()
        else:
            self._archive.note(said, turn.on_sealed)

    def over(self, turn: Turn) -> None:
        """Keep what reached the client of an answer that was cut, and let the next turn begin."""
        speech = self._speeches.pop(turn.terms.request_id)
        speech.forgotten = self._compactor.is_unkept(turn.terms.request_id)
        self._compactor.over(turn.terms.request_id)
        if speech.timer is not None:
            speech.timer.cancel()
        if not speech.kept and (said := speech.said(complete=False)) is not None:
            # A cut answer is kept, and nobody waits for it.
            self._archive.note(said, None)
        # A place that is still being given back would send the next turn away from its KV.
        wait_s = self._settings.release_wait_s
        self._mind.when_free(turn, wait_s, partial(self._ended, speech))

    def on_worked(self, effects: list[ConversationEffect]) -> None:
        """Work on a conversation in the background is over: turns that came meanwhile begin."""
        self._perform(effects)

    def _ended(self, speech: Speech) -> None:
        terms, now = speech.turn.terms, self._mind.now_s
        self._perform(self.conversations.on_ended(terms.request_id, speech.pin, now))
        if not terms.require:
            # Whoever insists on its KV will want to find it.
            self._background.on_idle(speech.key)

    # --- what failures mean here

    def _case(self, speech: Speech, failure: Failure) -> InferCase:
        mind, request = self._mind, speech.turn.terms.request_id
        receipt = mind.coordinator.receipt(request, mind.now_s)
        attempts = receipt.attempts if receipt is not None else ()
        return InferCase(
            request,
            reason=self._reason(speech, failure),
            tried=tuple(attempt.node for attempt in attempts),
            legacy_503=self._settings.legacy_503,
        )

    def _reason(self, speech: Speech, failure: Failure) -> str:
        """Give system 1's word where it tells apart more than the failure does."""
        coordinator = self._mind.coordinator
        if failure.reason == "no_nodes" and not coordinator.models():
            return "no_workers"
        required = speech.turn.terms.require and speech.past is not None
        if required and failure.reason in {"queue_full", "queue_timeout", "node_busy"}:
            return "worker_in_flight_decode_full"
        if failure.reason == "queue_full" and coordinator.capped:
            return "system_in_flight_decode_full"
        if failure.reason == "context_length_exceeded":
            ctx = self._compactor.ctx(speech.turn.request.model)
            return "" if speech.too_long_alone(ctx) else "session_full"
        return ""

    # --- time

    def close(self) -> None:
        """Stop the clock."""
        self._alarm.end()

    def _tick(self) -> None:
        self._perform(self.conversations.on_tick(self._mind.now_s))
