"""SHELL: one request for several answers becomes as many turns, each with a lease of its own.

The line treats them as it treats any requests of one tenant, so that nobody gets more by asking for
much at once; a node computes the beginning they share once. With a seed each has its own, counted
up from it: with one for all they would be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import RequestId
from roost.core.request import GenerateRequest, Prompt, TextPrompt
from roost.dialects.openai.choice import Choice
from roost.errors import fail
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.said import said_for
from roost.gateway.entry.entry import settled
from roost.gateway.reading.parsing import Parsed, measured
from roost.gateway.turns.chorus import Chorus
from roost.gateway.turns.scribe import StreamScribe, WholeScribe
from roost.gateway.turns.turn import Turn

if TYPE_CHECKING:
    from roost.core.request import Terms
    from roost.dialects.openai.options import ReplyOptions
    from roost.gateway.entry.dialects import Dialect
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.mind import Mind
    from roost.gateway.replay.lifelines import Held

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
        asked: tuple[Parsed, Terms],
        first: Choice,
        settings: RelaySettings,
    ) -> None:
        """Have them all arrive; `first` is the first of the choices."""
        assert dialect.ends is not None, "only who can end several is asked for several"
        sent, terms = asked
        prompts = (sent.request.prompt, *sent.more)
        per_prompt = first.options.choices // len(prompts)
        chorus = Chorus(exchange, dialect.ends(first), per_prompt)
        streamed = first.options.stream
        turns = []
        for number in range(first.options.choices):
            prompt = prompts[number // per_prompt]
            request = _request_of(sent.request, prompt, number)
            own = _terms_of(settled(terms, request), request, number, first.options.choices)
            choice = msgspec.structs.replace(
                first, index=number, alone=False, echo=echoed(first.options, prompt)
            )
            said = said_for(own, settings.replay_max_tokens)
            relay = Relay(settings, streamed=streamed, now=self._mind.now_s, said=said)
            scribe: StreamScribe | WholeScribe
            if streamed:
                scribe = StreamScribe(chorus.part(), dialect.stream_voice(choice))
            else:
                scribe = WholeScribe(chorus.part(), dialect.whole_voice(choice))
            turns.append(Turn(request, own, relay, scribe, dialect.name))
        chorus.sing(turns, self._mind.arrive)


def echoed(options: ReplyOptions, prompt: Prompt) -> str:
    """Give what an answer to this prompt begins with; "" where nobody wants to see it."""
    return prompt.text if options.echo and isinstance(prompt, TextPrompt) else ""


def _terms_of(terms: Terms, request: GenerateRequest, number: int, parts: int) -> Terms:
    if number == 0:
        return msgspec.structs.replace(terms, parts=parts)
    size = measured(request.prompt, terms.sharer, request.model)
    return msgspec.structs.replace(
        terms,
        request_id=RequestId(f"{terms.request_id}.{number}"),
        prompt_bytes=size.size_bytes,
        prompt_tokens=size.tokens,
        parts=0,
        comes_with=terms.request_id,
    )


def _request_of(request: GenerateRequest, prompt: Prompt, number: int) -> GenerateRequest:
    sampling, seed = request.sampling, request.sampling.seed
    if seed is not None:
        sampling = msgspec.structs.replace(sampling, seed=(seed + number) % SEEDS)
    return msgspec.structs.replace(request, prompt=prompt, sampling=sampling)
