"""SHELL: writes a turn to its client: the relay's effects as bytes of one HTTP reply.

Two kinds, one for streamed and one for whole replies. What a dialect says is in its voice; what is
known here is replies, headers and when a reply is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from roost.core.events import Finished, Started, StreamEvent, Vectors
from roost.errors import Failure, RoostError
from roost.fleet.choice.homecoming import found, lost_tokens
from roost.fleet.streams.relay_effects import (
    Abandon,
    Break,
    Commit,
    Done,
    KeepAlive,
    Mark,
    Reject,
    RelayEffect,
    Send,
)
from roost.gateway.front.rendering import EVENT_STREAM, JSON_BODY, Headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roost.dialects.openai.envelope import Fact
    from roost.fleet.effects import Dispatch
    from roost.gateway.turns.outlet import Outlet
    from roost.gateway.turns.turn import Turn


class Manner(msgspec.Struct, frozen=True):
    """How an API's streams go over HTTP; one that is `timed` is told how long each part took."""

    headers: tuple[tuple[bytes, bytes], ...] = tuple(EVENT_STREAM)
    timed: bool = False


EVENTS = Manner()


class StreamVoice(Protocol):
    """How a dialect says a stream."""

    def head(self) -> bytes:
        """What comes before any text."""
        ...

    def event(self, event: StreamEvent) -> bytes:
        """One event; empty where the dialect has nothing to say.

        `Started` comes before any text, and before `head` where it is known by then; again, where
        another attempt begins.
        """
        ...

    def finish(self, finished: Finished) -> bytes:
        """The end of a complete answer, terminal mark included."""
        ...

    def error(self, failure: Failure) -> bytes:
        """The end of an answer that is not complete."""
        ...

    @property
    def broken(self) -> bool:
        """Whether `finish` has told a failure: the answer was complete and is of no use."""
        ...

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end of its streams, which no client takes for success."""
        ...

    def comment(self, text: str) -> bytes:
        """A sign of life with a state."""
        ...

    def skipped(self, count: int) -> None:
        """So many pieces of text that came here are not sent."""
        ...

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Facts for the last chunk that were not known when the headers left."""
        ...


class WholeVoice(Protocol):
    """How a dialect says a whole answer."""

    def event(self, event: StreamEvent) -> bytes:
        """Take an event, `Started` before any text; the last one gives the body.

        Raises the failure of an answer that cannot be given as it was asked for.
        """
        ...

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Facts to put into the body."""
        ...


@runtime_checkable
class VectorVoice(Protocol):
    """A whole voice that writes what has come of its answer before all of it is there."""

    def ahead(self, event: Vectors) -> None:
        """Write this part; it is told again as an event if it is wanted."""
        ...


WRITE_TIMEOUT = Failure(
    "write_timeout", "The stream was not read in time, so it was ended before it was complete."
)
"""For whoever reads what is still under way, or comes back for it."""


def placement(dispatch: Dispatch, started: Started | None) -> str:
    """Return `x-roost-placement`: what the gateway chose, corrected by what the node found."""
    if dispatch.placement == "moved":
        return f"moved({dispatch.why})"
    if started is None:
        return dispatch.placement
    return found(dispatch.placement, dispatch.home_tokens, started.cached_tokens)


def facts(turn: Turn) -> dict[str, Fact]:
    """Return what is known about how a turn is served, for headers and the last chunk."""
    known: dict[str, Fact] = {}
    if turn.dispatch is not None:
        known["placement"] = placement(turn.dispatch, turn.started)
        known["node"] = turn.dispatch.node
        known["queue_ms"] = round(turn.dispatch.queued_s * 1000)
    if turn.started is not None:
        known["cached_tokens"] = turn.started.cached_tokens
        if turn.started.trimmed:
            known["trimmed_messages"] = turn.started.trimmed
        if turn.dispatch is not None and (lost := _lost(turn.dispatch, turn.started)):
            known["lost_tokens"] = lost
    session = turn.session(turn) if turn.session is not None else None
    if session is not None:
        known["session"] = session
    if turn.replays and turn.dispatch is not None:
        known["replays"] = turn.replays
        known["replayed_at"] = turn.dispatch.resumes_at
        known["replayed_after"] = turn.dispatch.lost_to
    return known


def closing_facts(turn: Turn, known: dict[str, Fact], manner: Manner) -> dict[str, Fact]:
    """Add to what is known of a turn, in nanoseconds, what is told of times at its end.

    Each is from one thing that this gateway saw to the next: arrival, slot, first text, end.
    """
    if not manner.timed:
        return known
    known = known.copy()
    age_s, started_s, first_s = turn.age_s, turn.started_s, turn.first_text_s
    known["total_ns"] = _ns(age_s)
    if started_s is not None:
        known["load_ns"] = _ns(started_s - turn.arrived_s)
        ended_s = turn.arrived_s + age_s
        known["prefill_ns"] = _ns((ended_s if first_s is None else first_s) - started_s)
        if first_s is not None:
            known["decode_ns"] = _ns(ended_s - first_s)
    return known


def _ns(seconds: float) -> int:
    return round(max(0.0, seconds) * 1e9)


def _lost(dispatch: Dispatch, started: Started) -> int:
    """Count what a home that had kept its word would have spared this turn."""
    return lost_tokens(dispatch.placement, dispatch.home_tokens, started.cached_tokens)


def fact_headers(known: dict[str, Fact]) -> Headers:
    """Return the same facts as reply headers."""
    return [
        (b"x-roost-" + name.replace("_", "-").encode(), str(value).encode())
        for name, value in known.items()
    ]


class StreamScribe:
    """Writes a stream, of server-sent events or of what else its API has."""

    def __init__(self, exchange: Outlet, voice: StreamVoice, manner: Manner = EVENTS) -> None:
        self._exchange = exchange
        self._manner = manner
        self._voice = voice
        self._told: Started | None = None

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self._exchange.blocked and not self._exchange.done

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write what one effect asks for."""
        exchange, voice = self._exchange, self._voice
        match effect:
            case Send():
                self._send(turn, effect)
            case Commit():
                exchange.start(200, [*self._manner.headers, *fact_headers(facts(turn))])
                exchange.write(self._started(turn) + voice.head())
            case KeepAlive():
                exchange.write(voice.comment(effect.text))
            case Reject():
                exchange.fail(effect.failure)
            case Break():
                exchange.write(voice.error(effect.failure))
                if voice.fails_cleanly:
                    exchange.finish()
                else:
                    exchange.break_off()
            case Done() if voice.broken:
                exchange.break_off()
            case Done():
                exchange.finish()
            case Abandon():
                if effect.reason == "write_timeout":
                    exchange.write(voice.error(WRITE_TIMEOUT))
                exchange.abandon()

    def _send(self, turn: Turn, effect: Send) -> None:
        pieces = [self._started(turn)]
        if effect.dropped:
            self._voice.skipped(effect.dropped)
        for event in effect.events:
            if isinstance(event, Mark):
                pieces.append(self._voice.comment(event.text))
            elif isinstance(event, Finished):
                self._voice.roost_extra(closing_facts(turn, facts(turn), self._manner))
                pieces.append(self._voice.finish(event))
            else:
                pieces.append(self._voice.event(event))
        self._exchange.write(b"".join(pieces))

    def _started(self, turn: Turn) -> bytes:
        started = turn.started
        if started is None or started is self._told:
            return b""
        self._told = started
        return self._voice.event(_of(started, turn))


class WholeScribe:
    """Writes one JSON body once everything is known; until then every error keeps its status."""

    def __init__(self, exchange: Outlet, voice: WholeVoice, manner: Manner = EVENTS) -> None:
        self._exchange = exchange
        self._manner = manner
        self._voice = voice

    @property
    def ahead(self) -> Callable[[Vectors], None] | None:
        """What takes vectors as they come, long before they can be sent; None where nobody does."""
        return self._voice.ahead if isinstance(self._voice, VectorVoice) else None

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self._exchange.blocked and not self._exchange.done

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write what one effect asks for."""
        match effect:
            case Send():
                self._send(turn, effect)
            case Reject() | Break():
                self._exchange.fail(effect.failure)
            case Abandon():
                self._exchange.abandon()
            case _:
                return

    def _send(self, turn: Turn, effect: Send) -> None:
        said = [event for event in effect.events if not isinstance(event, Mark)]
        started: list[StreamEvent] = [] if turn.started is None else [_of(turn.started, turn)]
        # Once: it signs a token.
        known = facts(turn)
        self._voice.roost_extra(closing_facts(turn, known, self._manner))
        try:
            body = b"".join(map(self._voice.event, started + said))
        except RoostError as error:
            self._exchange.fail(error.failure)
        else:
            self._exchange.reply(200, JSON_BODY + fact_headers(known), body)


def _of(started: Started, turn: Turn) -> Started:
    """Add whose weights they are, which the coordinator knows."""
    digest = turn.dispatch.digest if turn.dispatch is not None else ""
    return msgspec.structs.replace(started, digest=digest)
