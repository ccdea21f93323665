"""SHELL: what is the same for every way to generate: its terms, its refusals, its turn's making.

    reads its body ──▶ `terms_of` ──▶ whose it is ──▶ `answered` ──▶ `turn` ──▶ off to the mind

What a dialect adds is how it reads a body and how it speaks, as an `Order` with its voices.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.request import ChatPrompt, GenerateRequest, Terms, mode_for
from roost.dialects.traceparent import HEADER as TRACE_HEADER
from roost.dialects.traceparent import parent_of
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.said import said_for
from roost.gateway.reading.asked import (
    CLASS_HEADER,
    ON_LOSS_HEADER,
    Twins,
    asked_class,
    asked_on_loss,
)
from roost.gateway.reading.parsing import Measured
from roost.gateway.reading.timeouts import TIMEOUT_HEADER, asked_timeout_s
from roost.gateway.replay.lifelines import Held
from roost.gateway.turns.scribe import (
    EVENTS,
    Manner,
    StreamScribe,
    StreamVoice,
    WholeScribe,
    WholeVoice,
)
from roost.gateway.turns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.core.ids import ConversationKey
    from roost.errors import Failure
    from roost.gateway.entry.identity import Identity
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.mind import Mind
    from roost.gateway.replay.lifelines import Lifelines
    from roost.gateway.replay.reel import Reel
    from roost.gateway.routes import Call
    from roost.gateway.turns.outlet import Outlet

Reader: TypeAlias = "Exchange | Reel"
"""Where a turn's client is: on this connection, or on any it may come back by."""


class Order(msgspec.Struct, frozen=True):
    """A turn to be made.

    `stream` makes a voice: a reader that is replaced hears one of its own, for the turn's is not
    at its end then. `whole` is None for a stream. `outlet` stands between the client and the
    scribe, where a dialect tells failures in its own words. `manner` is how streams go over HTTP.
    """

    dialect: str
    request: GenerateRequest
    terms: Terms
    held: Held
    relay: RelaySettings
    stream: Callable[[], StreamVoice]
    whole: WholeVoice | None = None
    outlet: Callable[[Reader], Outlet] | None = None
    manner: Manner = EVENTS


class Entry:
    """Where calls become turns, whatever dialect they are in."""

    def __init__(self, mind: Mind, lifelines: Lifelines, identity: Identity) -> None:
        self._mind = mind
        self._lifelines = lifelines
        self._identity = identity

    def refuse(self, call: Call, dialect: str, failure: Failure) -> None:
        """Answer a call that asks for what cannot be."""
        self._mind.metrics("roost_requests_total", "rejected", dialect).inc()
        call.exchange.fail(failure)

    def answered(self, call: Call, held: Held, dialect: str, ignored: Sequence[str]) -> bool:
        """Log what has no effect, and take the call's key; True where its answer is known."""
        if ignored:
            request = call.exchange.request_id
            self._mind.log.debug("fields_ignored", request=request, fields=list(ignored))
        return self._lifelines.answered(call, held, dialect)

    def turn(self, call: Call, order: Order) -> Turn:
        """Make the turn, with everything between it and its client; it has not begun."""
        held, lifelines = order.held, self._lifelines
        terms = settled(order.terms, order.request)
        said = said_for(terms, order.relay.replay_max_tokens)
        streamed = order.whole is None
        relay = Relay(order.relay, streamed=streamed, now=self._mind.now_s, said=said)
        reel = lifelines.reel(call, held, lambda why: order.stream().error(why))
        reader: Reader = reel or call.exchange
        base: Outlet = reader if order.outlet is None else order.outlet(reader)
        outlet = lifelines.outlet(held, relay, base, numbered=reel is not None)
        scribe: StreamScribe | WholeScribe
        if order.whole is None:
            scribe = StreamScribe(outlet, order.stream(), order.manner)
        else:
            scribe = WholeScribe(outlet, order.whole, order.manner)
        turn = Turn(order.request, terms, relay, scribe, order.dialect)
        turn.ahead = scribe.ahead if isinstance(scribe, WholeScribe) else None
        reader.watcher = turn
        return turn

    def goes_on(self, turn: Turn, key: ConversationKey, *, named: bool) -> None:
        """Tell the client of this turn a token by which its conversation goes on."""
        turn.label = self._identity.label(key)
        turn.session = partial(self._identity.token, key=key, named=named)


def settled(terms: Terms, request: GenerateRequest) -> Terms:
    """Leave out of the terms what cannot be had with this request."""
    prompt = request.prompt
    calls = isinstance(prompt, ChatPrompt) and prompt.offer is not None
    if mode_for(prompt) != "generate":
        # Until the last of them nothing has been said: the whole is made anew, whoever asks how.
        return msgspec.structs.replace(terms, on_loss="error")
    if request.constraint is None and not calls and not request.counts:
        return terms
    # Whoever would go on with the answer does not know how far its format, or a call, has got.
    return msgspec.structs.replace(terms, on_loss="error")


def terms_of(
    call: Call, twins: Twins, max_tokens: int | None, prompt: Measured | None = None
) -> Terms:
    """Put together under which terms a call is served; `bad_request` for headers that are wrong.

    Without a `prompt` that is measured, its size is said later.
    """
    fields, principal = call.exchange.fields, call.principal
    prompt = prompt or Measured()
    return Terms(
        request_id=call.exchange.request_id,
        tenant=call.tenant,
        chain=prompt.chain,
        timeout_s=asked_timeout_s(fields.get(TIMEOUT_HEADER), twins.timeout_ms),
        prompt_bytes=prompt.size_bytes,
        prompt_tokens=prompt.tokens,
        max_tokens=max_tokens,
        class_=asked_class(fields.get(CLASS_HEADER), twins.class_, principal.class_),
        weight=principal.weight,
        on_loss=asked_on_loss(fields.get(ON_LOSS_HEADER), twins.on_loss),
        trace=parent_of(fields.get(TRACE_HEADER)),
        account=principal.account,
        shares_as=principal.shares_as,
    )
