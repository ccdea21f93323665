"""SHELL: one request for several answers becomes as many turns, each with a lease of its own.

The line treats them as it treats any requests of one tenant, so that nobody gets more by asking for
much at once; a node computes the beginning they share once. With a seed each has its own, counted
up from it: with one for all they would be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import RequestId
from roost.dialects.choice import Choice
from roost.errors import fail
from roost.fleet.relay import Relay, RelaySettings
from roost.fleet.said import said_for
from roost.gateway.chorus import Chorus
from roost.gateway.entry import settled
from roost.gateway.scribe import StreamScribe, WholeScribe
from roost.gateway.turn import Turn

if TYPE_CHECKING:
    from roost.core.request import GenerateRequest, Terms
    from roost.gateway.dialects import Dialect
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.lifelines import Held
    from roost.gateway.mind import Mind

SEEDS = 2**32


def check_alone(held: Held) -> None:
    """Refuse several choices where the client may come back for them: only one answer is kept."""
    if held.claim is not None or held.window_s is not None:
        message = "Several choices cannot be kept or attached to again; send 'n' as 1."
        raise fail("unsupported", message, param="n")


class Choices:
    """Makes the turns of such requests."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind

    def begin(
        self,
        exchange: Exchange,
        dialect: Dialect,
        asked: tuple[GenerateRequest, Terms],
        first: Choice,
        settings: RelaySettings,
    ) -> None:
        """Have them all arrive; `first` is the first of the choices."""
        assert dialect.ends is not None, "only who can end several is asked for several"
        chorus = Chorus(exchange, dialect.ends(first))
        request, terms = asked
        terms = settled(terms, request)
        turns = []
        for number in range(first.options.choices):
            choice = msgspec.structs.replace(first, index=number, alone=False)
            own = _numbered_terms(terms, number)
            streamed = first.options.stream
            said = said_for(own, settings.replay_max_tokens)
            relay = Relay(settings, streamed=streamed, now=self._mind.now_s, said=said)
            scribe: StreamScribe | WholeScribe
            if streamed:
                scribe = StreamScribe(chorus.part(), dialect.stream_voice(choice))
            else:
                scribe = WholeScribe(chorus.part(), dialect.whole_voice(choice))
            turns.append(Turn(_seeded(request, number), own, relay, scribe, dialect.name))
        chorus.sing(turns, self._mind.arrive)


def _numbered_terms(terms: Terms, number: int) -> Terms:
    if number == 0:
        return terms
    return msgspec.structs.replace(terms, request_id=RequestId(f"{terms.request_id}.{number}"))


def _seeded(request: GenerateRequest, number: int) -> GenerateRequest:
    seed = request.sampling.seed
    if seed is None or number == 0:
        return request
    sampling = msgspec.structs.replace(request.sampling, seed=(seed + number) % SEEDS)
    return msgspec.structs.replace(request, sampling=sampling)
