"""SHELL: one live request in the gateway: its relay, its current attempt, its client's connection.

The relay decides; a turn carries its effects to the two places they belong: credits to the mind,
everything that touches the client to the scribe. Nothing here waits: a client that does not keep up
shows as a scribe that is blocked, and the relay is told when that ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
    Vectors,
)
from roost.core.request import Continuation, mode_for
from roost.fleet.choice.affinity import spoken
from roost.fleet.streams.relay_effects import Abandon, Grant, KeepAlive, RelayEffect, Seal, Send
from roost.gateway.alarm import Alarm
from roost.text.answers import read_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.core.request import GenerateRequest, Terms
    from roost.errors import Failure
    from roost.fleet.effects import Dispatch
    from roost.fleet.streams.relay import Relay


SLOW_CLIENT_S = 1.0
BUFFER_HIGH = 0.8


class Listener(Protocol):
    """Who hears from a turn what the coordinator has to know."""

    def started(self, turn: Turn, event: Started) -> None:
        """The current attempt holds a slot."""
        ...

    def first_token(self, turn: Turn) -> None:
        """The current attempt has produced its first answer text."""
        ...

    def gap(self, seconds: float) -> None:
        """This long passed between two pieces of answer text."""
        ...

    def wrote(self, seconds: float) -> None:
        """The client's socket took a write after this long."""
        ...

    def slow(self, turn: Turn) -> None:
        """The client has not taken a write for `SLOW_CLIENT_S`; told once."""
        ...

    def filling(self, turn: Turn) -> None:
        """More than `BUFFER_HIGH` of the stream's buffer waits for the client; told once."""
        ...

    def finished(self, turn: Turn, event: Finished) -> None:
        """The current attempt has ended well."""
        ...

    def failed(self, turn: Turn, failure: Failure) -> None:
        """The current attempt has ended badly."""
        ...

    def gone(self, turn: Turn) -> None:
        """The client has left, or did not read in time."""
        ...

    def dropped(self, turn: Turn, pieces: int, *, first: bool) -> None:
        """So many more pieces of text will not reach the client."""
        ...

    def grant(self, turn: Turn, messages: int) -> None:
        """The client's side has room for this many more messages."""
        ...

    def depart(self, turn: Turn) -> None:
        """The turn is over; its last byte has been handed to the socket."""
        ...


class Scribe(Protocol):
    """Who writes to the client: effects in, bytes out, in the client's dialect."""

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        ...

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write what one effect asks for."""
        ...


class Keeper(Protocol):
    """Who has something to do once a turn has ended, where somebody does."""

    def over(self, turn: Turn) -> None:
        """The turn has ended, however it did; said once."""
        ...


class Sealer(Protocol):
    """Who keeps what was said, of a turn whose relay waits for that."""

    def seal(self, turn: Turn) -> None:
        """The client has the whole text: keep it and call the turn's `on_sealed`."""
        ...


class Turn:
    """State of one request between arrival and its last byte; lives on the event loop's thread."""

    def __init__(
        self, request: GenerateRequest, terms: Terms, relay: Relay, scribe: Scribe, dialect: str
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.dialect = dialect
        self.request = request
        self.terms = terms
        self.relay = relay
        self.dispatch: Dispatch | None = None
        self._withdrawn = False
        self.started: Started | None = None
        self.finished: Finished | None = None
        self.ended_by: Failure | None = None
        self.replays = 0
        self.missed = ""
        self.label = ""
        self.held_most = 0
        self.admitted_s: float | None = None
        self._spoke = False
        self._spent = Usage()
        # Tokens of the answer that are not counted in `_spent` yet.
        self._said_tokens = 0
        self.arrived_s = self._loop.time()
        self.started_s: float | None = None
        self.first_text_s: float | None = None
        self.last_text_s: float | None = None
        self.sent_s: float | None = None
        self.keeper: Keeper | None = None
        self.sealer: Sealer | None = None
        self.is_expected = False
        self.rescue: Callable[[Failure], bool] | None = None
        self.session: Callable[[Turn], str | None] | None = None
        self.ahead: Callable[[Vectors], None] | None = None
        # What the client has taken of the answer, where somebody wants to know.
        self.reached: list[str] | None = None
        self._offered: Send | None = None
        self._answer: list[str] = []
        self._scribe = scribe
        self._listener: Listener | None = None
        self._todo: deque[RelayEffect] = deque()
        self._busy = False
        self._alarm = Alarm(self._loop, self._tick)
        self._patience: asyncio.TimerHandle | None = None
        self._slow = self._filling = self._drops = False

    @property
    def spent(self) -> Usage:
        """What was computed for it so far; also of answers whose end never comes."""
        if self._said_tokens:
            said = self._spent.completion_tokens + self._said_tokens
            self._spent = msgspec.structs.replace(self._spent, completion_tokens=said)
            self._said_tokens = 0
        return self._spent

    @spent.setter
    def spent(self, spent: Usage) -> None:
        self._spent, self._said_tokens = spent, 0

    @property
    def answer(self) -> str:
        """Everything the model has said so far, as one text."""
        return "".join(self._answer)

    def spoken(self, finished: Finished) -> str:
        """The answer as its client may bring it back."""
        reading = self.started.reading if self.started is not None else None
        return spoken(read_answer(self.answer, reading, finished))

    @property
    def age_s(self) -> float:
        """For how long it has been here."""
        return self._loop.time() - self.arrived_s

    @property
    def attempt(self) -> int:
        """Number of the current attempt, 0 before the first."""
        return self.dispatch.attempt if self.dispatch else 0

    @property
    def _resumes(self) -> bool:
        """Whether the current attempt goes on with what an attempt before it has said."""
        return self.dispatch is not None and self.dispatch.resumes_at > 0

    def hears(self, attempt: int) -> bool:
        """Whether what this attempt says still counts."""
        return attempt == self.attempt and not self._withdrawn

    def begin(self, listener: Listener) -> None:
        """Start the clock; from now on `listener` hears what happens."""
        self._listener = listener
        self._alarm.set(self.relay.next_tick())

    # --- from the coordinator

    def on_dispatch(self, dispatch: Dispatch) -> None:
        """Begin a new attempt: all over, or where the answer so far ends."""
        again = self.dispatch is not None
        self.dispatch = dispatch
        self._withdrawn = self._spoke = False
        if not dispatch.resumes_at:
            self.started = None
            self._answer.clear()
        if again:
            self.apply(self.relay.on_restart(dispatch.lost_to, self._loop.time()))

    def asks(self) -> GenerateRequest:
        """What the current attempt asks its node for."""
        dispatch, said = self.dispatch, self.relay.said
        if dispatch is None or said is None:
            return self.request
        begun = None
        if dispatch.resumes_at:
            assert said.tokens == dispatch.resumes_at, "nothing is said between a loss and a replay"
            begun = Continuation(said.ids, dispatch.digest)
        return msgspec.structs.replace(self.request, return_tokens=True, continuation=begun)

    def on_withdrawn(self, attempt: int) -> None:
        """Hear nothing more of this attempt: its node may go on for a while before it knows."""
        self._withdrawn = self._withdrawn or attempt == self.attempt

    def on_waiting(self, state: str) -> None:
        """Say what the request waits for, for keep-alives."""
        self.apply(self.relay.on_waiting(state, self._loop.time()))

    def on_refused(self, failure: Failure) -> None:
        """Hear the coordinator's last word; it stands unless somebody knows another way."""
        if self.rescue is None or not self.rescue(failure):
            self.on_answer(failure)

    def on_answer(self, failure: Failure) -> None:
        """End with this failure."""
        self.ended_by = failure
        self.apply(self.relay.on_answer(failure, self._loop.time()))

    # --- from the node

    def on_events(self, events: Sequence[StreamEvent]) -> None:
        """Take one message's events, in order, of the current attempt."""
        listener = self._listener
        if listener is None:
            return
        failure = None
        for event in events:
            failure = self._note(event, listener)
        self.apply(self.relay.on_events(events, self._loop.time()))
        self.held_most = max(self.held_most, self.relay.held_messages)
        if not self._filling and self.relay.fullness > BUFFER_HIGH:
            self._filling = True
            listener.filling(self)
        if failure is not None:
            listener.failed(self, failure)

    def _note(self, event: StreamEvent, listener: Listener) -> Failure | None:
        match event:
            case Delta():
                self._on_text(event, listener)
            case Started():
                if self._resumes:
                    self.replays += 1
                else:
                    cached = event.cached_tokens
                    self.started, self.started_s = event, self._loop.time()
                    # Vectors and scores tell nothing of how far they have got: once it is begun
                    # on, all of their prompt counts.
                    whole = mode_for(self.request.prompt) != "generate"
                    done = event.prompt_tokens if whole else cached
                    spent = msgspec.structs.replace(self.spent, prompt_tokens=done)
                    self.spent = msgspec.structs.replace(spent, cached_tokens=cached)
                listener.started(self, event)
            case Vectors() if self.ahead is not None:
                self.ahead(event)
            case PrefillProgress() if not self._resumes:
                self.spent = msgspec.structs.replace(self.spent, prompt_tokens=event.done)
            case Finished():
                self.spent = self.relay.whole(event.usage)
                self.finished = event
                listener.finished(self, event)
            case Failed():
                return event.failure
        return None

    def _on_text(self, event: Delta, listener: Listener) -> None:
        self._answer.append(event.text)
        self._said_tokens += event.tokens
        now = self._loop.time()
        if not self._spoke:
            self._spoke = True
            if self.started is not None:
                # Who answers has read all of it, whether that was told apart or not.
                whole = self.started.prompt_tokens
                self.spent = msgspec.structs.replace(self.spent, prompt_tokens=whole)
            listener.first_token(self)
        if self.last_text_s is None:
            self.first_text_s = now
        else:
            listener.gap(now - self.last_text_s)
        self.last_text_s = now

    # --- from the client's connection

    def on_gone(self) -> None:
        """The client's connection is gone."""
        self.apply(self.relay.on_client_gone(self._loop.time()))

    def on_blocked(self) -> None:
        """The client does not keep up; the relay hears of it by the missing `on_written`."""

    def on_writable(self) -> None:
        """The client has taken what it was sent."""
        if self.sent_s is not None:
            self._written()
            self.apply([])

    # --- from the sealer

    def on_sealed(self, failure: Failure | None = None) -> None:
        """What was said is kept, or is not, and that is how the answer ends."""
        self.ended_by = failure or self.ended_by
        self.apply(self.relay.on_sealed(self._loop.time(), failure))

    # --- effects

    def apply(self, effects: list[RelayEffect]) -> None:
        """Carry the relay's effects to where they belong, in order, and watch its next deadline."""
        self._todo.extend(effects)
        if self._busy:
            return
        self._busy = True
        try:
            while self._todo:
                self._carry_out(self._todo.popleft())
        finally:
            # A defect in one effect costs that one: the client is still to hear the others.
            self._busy = False
            if self._todo:
                self._loop.call_soon(self.apply, [])
            elif self.relay.outcome is None:
                self._alarm.set(self.relay.next_tick())
            else:
                self._close()

    def _carry_out(self, effect: RelayEffect) -> None:
        assert self._listener is not None, "a turn begins before anything happens to it"
        match effect:
            case Send() | KeepAlive():
                self.sent_s = self._loop.time()
                self._offer(effect)
                self._scribe.carry_out(self, effect)
                if not self._scribe.blocked:
                    self._written()
                elif not self._slow and self._patience is None:
                    self._patience = self._loop.call_later(SLOW_CLIENT_S, self._on_slow)
            case Grant():
                self._listener.grant(self, effect.messages)
            case Abandon():
                self._listener.gone(self)
                self._scribe.carry_out(self, effect)
            case Seal():
                self._seal()
            case _:
                self._scribe.carry_out(self, effect)

    def _seal(self) -> None:
        if self.sealer is None:
            self._todo.extend(self.relay.on_sealed(self._loop.time()))
        else:
            self.sealer.seal(self)

    def _offer(self, effect: Send | KeepAlive) -> None:
        if isinstance(effect, Send):
            self._offered = effect
            if effect.dropped and self._listener is not None:
                self._listener.dropped(self, effect.dropped, first=not self._drops)
                self._drops = True

    def _on_slow(self) -> None:
        self._patience, self._slow = None, True
        if self._listener is not None:
            self._listener.slow(self)

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _written(self) -> None:
        self._calm()
        now = self._loop.time()
        offered, self._offered = self._offered, None
        if self.reached is not None and offered is not None:
            texts = (event.text for event in offered.events if isinstance(event, Delta))
            self.reached.extend(texts)
        if self.sent_s is not None and self._listener is not None:
            self._listener.wrote(now - self.sent_s)
        self.sent_s = None
        self._todo.extend(self.relay.on_written(now))

    def _close(self) -> None:
        self._calm()
        self._alarm.end()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.depart(self)
            if self.keeper is not None:
                self.keeper.over(self)

    def _tick(self) -> None:
        self.apply(self.relay.on_tick(self._loop.time()))
