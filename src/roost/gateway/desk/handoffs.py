"""SHELL: a prompt computed ahead, and its answer as a request of its own, at whatever time.

Both are requests like any other, with a place in the line and a lease. A prefill asks for one token
that nobody reads; its prompt stays in that node's KV, where the decode is sent.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import msgspec

from roost.core.pin import Pin
from roost.core.request import GenerateRequest
from roost.errors import Failure, RoostError, fail
from roost.fleet.conversations.handoffs import Handoff, Handoffs, HandoffSettings
from roost.fleet.streams.relay import Relay
from roost.gateway.control_words import HEADERS, ROOT
from roost.gateway.desk.endpoints import spoken
from roost.gateway.desk.handoff_words import Voice, read_decode, read_prefill
from roost.gateway.entry.entry import terms_of
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.reading.asked import KEY_HEADER, REATTACH_HEADER, Twins
from roost.gateway.reading.parsing import measured
from roost.gateway.turns.scribe import WholeScribe
from roost.gateway.turns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.events import Finished
    from roost.core.request import Terms
    from roost.fleet.streams.relay import RelaySettings
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes

DIALECT = "handoff"
SECRET_BYTES = 32


class HandoffDesk:
    """Serves both addresses; `aliases` are other names of models, `relay` limits each answer."""

    def __init__(
        self, mind: Mind, settings: HandoffSettings, aliases: dict[str, str], relay: RelaySettings
    ) -> None:
        self._mind = mind
        self._settings = settings
        self.aliases = aliases
        self.relay = relay
        self._handoffs = Handoffs(settings)

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("POST", f"{ROOT}prefill", spoken(self._prefill))
        routes.add("POST", f"{ROOT}decode", spoken(self._decode))

    def _prefill(self, call: Call) -> None:
        """POST /roost/v1/prefill."""
        model, asked = read_prefill(call.exchange.take_body(), self.aliases)
        request = GenerateRequest(model, asked.prompt, max_tokens=1)
        terms = _sized(call, _terms(call, 1), request)
        failure = self._handoffs.reserve(call.tenant, self._mind.now_s)
        if failure is not None:
            raise RoostError(failure)
        turn = self._turn(call, request, terms, self._prefilled)
        turn.keeper = _Reserved(self._handoffs, turn)
        self._mind.arrive(turn)

    def _prefilled(self, turn: Turn, _text: str, finished: Finished) -> dict[str, object]:
        """Its prompt is computed: give the secret, and keep what goes with it."""
        assert turn.dispatch is not None, "somebody has computed it"
        assert isinstance(turn.keeper, _Reserved), "its place was reserved"
        secret, usage = secrets.token_urlsafe(SECRET_BYTES), finished.usage
        pin = Pin(turn.dispatch.node, turn.request.model, usage.prompt_tokens)
        handoff = Handoff(turn.request.prompt, pin)
        self._handoffs.place(turn.terms.tenant, secret, handoff, self._mind.now_s)
        turn.keeper.is_used = True
        return {
            "handoff": secret,
            "state_id": None,
            "prompt_tokens": usage.prompt_tokens,
            "reused": usage.cached_tokens > 0,
            "tier": None,
            "expires_unix_ms": round(1000 * (time.time() + self._settings.ttl_s)),
        }

    def _decode(self, call: Call) -> None:
        """POST /roost/v1/decode."""
        asked = read_decode(call.exchange.take_body())
        terms = _terms(call, asked.max_tokens)
        found = self._handoffs.spend(call.tenant, asked.handoff, self._mind.now_s)
        if isinstance(found, Failure):
            raise RoostError(found)
        request = GenerateRequest(
            found.pin.model,
            found.prompt,
            max_tokens=asked.max_tokens,
            stop=tuple(asked.stop),
            sampling=asked.sampling,
        )
        terms = _sized(call, terms, request, found.pin)
        self._mind.arrive(self._turn(call, request, terms, _decoded))

    def _turn(
        self,
        call: Call,
        request: GenerateRequest,
        terms: Terms,
        told: Callable[[Turn, str, Finished], dict[str, object]],
    ) -> Turn:
        exchange = call.exchange
        exchange.extra += HEADERS[len(JSON_BODY) :]
        voice = Voice(exchange.request_id, lambda text, end: told(turn, text, end))
        relay = Relay(self.relay, streamed=False, now=self._mind.now_s)
        turn = Turn(request, terms, relay, WholeScribe(exchange, voice), DIALECT)
        exchange.watcher = turn
        return turn


class _Reserved:
    """Gives a place back that nothing came of."""

    def __init__(self, handoffs: Handoffs, turn: Turn) -> None:
        self._handoffs = handoffs
        self._tenant = turn.terms.tenant
        self.is_used = False

    def over(self, _turn: Turn) -> None:
        """The turn has ended, however it did."""
        if not self.is_used:
            self._handoffs.give_up(self._tenant)


def _decoded(_turn: Turn, text: str, finished: Finished) -> dict[str, object]:
    return {
        "text": text,
        "handoff": None,
        "completion_tokens": finished.usage.completion_tokens,
        "finish_reason": finished.reason,
    }


def _terms(call: Call, max_tokens: int) -> Terms:
    """Under which terms it runs; raises for headers that are wrong, or of no use here."""
    _check(call)
    return terms_of(call, Twins(), max_tokens)


def _sized(call: Call, terms: Terms, request: GenerateRequest, pin: Pin | None = None) -> Terms:
    """Add what is known of its prompt, and where its KV is."""
    size = measured(request.prompt, call.sharer, request.model)
    return msgspec.structs.replace(
        terms, chain=size.chain, prompt_bytes=size.size_bytes, pin=pin, on_loss="error"
    )


def _check(call: Call) -> None:
    for header in (KEY_HEADER, REATTACH_HEADER):
        if header in call.exchange.fields:
            # An answer that is kept to be given again would keep the secret, and give it again.
            name = header.decode()
            raise fail("unsupported", f"A handoff is for once: leave out {name}.", param=name)
