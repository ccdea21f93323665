"""MACHINE: one request's stream between the events of its node and the writer of its client.

It knows nothing of HTTP: it says when the status is decided, what to write next, and how it ends.
What a slow reader leaves unread piles up here, merged, to at most `buffer_events` messages: then
the node has no credit and stops reading its runtime. Nothing is dropped and nothing is reordered,
unless `on_full` says that the oldest text is to be dropped: then the node never waits, the number
of the dropped is told with what follows, and the outcome says so.

A node's `Failed` does not end a relay. The shell takes it to the coordinator, which either starts
another attempt (`on_restart`) or answers (`on_answer`). Once text is out, the next attempt goes on
where it ends (`said`), and the stream is one to its client: usage counts it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    TokenChoice,
    Usage,
    Vectors,
)
from roost.errors import Failure, Fault
from roost.fleet.streams.relay_effects import (
    Abandon,
    Break,
    Commit,
    Done,
    Grant,
    KeepAlive,
    Mark,
    Reject,
    RelayEffect,
    Seal,
    Send,
)
from roost.fleet.streams.said import Said

OnFull = Literal["pause", "drop_oldest"]
Outcome = Literal[
    "complete",
    "buffer_overflow",
    "client_disconnect",
    "write_timeout",
    "node_error",
    "deadline",
    "rejected",
    "cancelled",
]


class RelaySettings(msgspec.Struct, frozen=True):
    """Limits of one relay.

    A streamed reply commits to status 200 after `commit_after_s` even without an event, and says
    something every `keepalive_s` from then on. A writer that is stuck for `write_deadline_s` loses
    its stream. `buffer_events` is the credit a node starts with, in messages; with `on_full`
    "drop_oldest" it is how many pieces of text wait for the reader, and the oldest give way.
    A `sealed` answer is kept before its end is told. An answer of more than `replay_max_tokens` is
    not gone on with elsewhere.
    """

    commit_after_s: float = 8.0
    keepalive_s: float = 10.0
    write_deadline_s: float = 30.0
    buffer_events: int = 64
    on_full: OnFull = "pause"
    sealed: bool = False
    replay_max_tokens: int = 4096


class Relay:
    """One request's way to its client; `streamed` False collects everything into one write.

    `said` keeps what may be gone on with; None for a request that ends with its node.
    """

    def __init__(
        self, settings: RelaySettings, *, streamed: bool, now: float, said: Said | None = None
    ) -> None:
        self.said = said
        self._settings = settings
        self._started: Started | None = None
        self._before_tokens = 0
        self._lost_to = ""
        self._streamed = streamed
        self._opened_s = now
        self._spoke_s = now
        self._writing_since_s: float | None = None
        self._committed = False
        self._answering = False
        self._pending: list[StreamEvent | Mark] = []
        self._unread = 0
        self._ungranted = 0
        self._finished = False
        self._handed_over = False
        self._dropping = streamed and settings.on_full == "drop_oldest"
        self._dropped = 0
        self._overflowed = False
        self._sealing = self._sealed = False
        self._verdict: Failure | None = None
        self._state = ""
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it lives."""
        return self._outcome

    @property
    def state(self) -> str:
        """What it waits for or is at, in words; "" before anybody has said."""
        return self._state

    @property
    def decided(self) -> bool:
        """Whether it has ended, or will with a failure once its writer is free."""
        return self._outcome is not None or self._verdict is not None

    @property
    def committed(self) -> bool:
        """Whether the status is decided, so that a failure can only break the stream."""
        return self._committed

    @property
    def answering(self) -> bool:
        """Whether a byte of the answer may be out (or, not streamed, is collected)."""
        return self._answering

    @property
    def room(self) -> int:
        """The credit with which a new attempt begins: what its client left unread takes of it."""
        return self._settings.buffer_events - self._unread - self._ungranted

    @property
    def held_messages(self) -> int:
        """Messages whose events wait here for the writer."""
        return self._unread

    @property
    def fullness(self) -> float:
        """Which share of the buffer waits for the writer; a collected answer fills none."""
        return self._unread / self._settings.buffer_events

    def on_event(self, event: StreamEvent, now: float) -> list[RelayEffect]:
        """A message with a single event arrived from the node."""
        return self.on_events((event,), now)

    def on_events(self, events: Sequence[StreamEvent], now: float) -> list[RelayEffect]:
        """One message of the current attempt arrived, with these events in order.

        A withdrawn attempt is no longer the current one, even before the next one is dispatched.
        """
        if self.decided:
            return []
        self._unread += 1
        for event in events:
            self._take(event)
        if self._dropping and self._writing_since_s is not None:
            self._drop_surplus()
        return self._flush(now)

    def on_waiting(self, text: str, _now: float) -> list[RelayEffect]:
        """What the request waits for has changed: "queued 3/7", "loading 40 %"."""
        self._state = text
        return []

    def on_answer(self, failure: Failure, now: float) -> list[RelayEffect]:
        """The coordinator ends the request with this failure."""
        if self._outcome is not None or self._finished:
            return []
        self._verdict = failure
        return self._flush(now)

    def on_restart(self, lost_to: str, now: float) -> list[RelayEffect]:
        """A new attempt begins, with fresh credit of `room`.

        Behind the first text it goes on where that ends: the last attempt was lost to `lost_to`.
        That is told when it has started; a node may refuse it, and then another one goes on.
        """
        self._ungranted = 0
        self._state = ""
        if not self._answering:
            # Vectors of an attempt that was lost: the next one makes all of them.
            self._pending.clear()
            return []
        assert self.said is not None, "an answer that has begun cannot begin again"
        assert self.said.resumable, "where it is not known what was said, nobody can go on"
        self._before_tokens, self._lost_to = self.said.tokens, lost_to
        return self._flush(now)

    def whole(self, usage: Usage) -> Usage:
        """What the answer took as its client sees it, however many attempts it took.

        To the last of them, all that was said before was prompt.
        """
        if not self._before_tokens or self._started is None:
            return usage
        said = self._before_tokens + usage.completion_tokens
        return Usage(self._started.prompt_tokens, self._started.cached_tokens, said)

    def on_written(self, now: float) -> list[RelayEffect]:
        """The writer took all of the last `Send` or `KeepAlive`."""
        if self._outcome is not None:
            return []
        self._writing_since_s = None
        self._spoke_s = now
        if self._handed_over:
            return self._end(self._completed(), Done())
        return self._flush(now)

    def on_sealed(self, now: float, failure: Failure | None = None) -> list[RelayEffect]:
        """What `Seal` asked for is done, or cannot be, and then its client hears that as the end.

        Of an answer that was to go out in one piece it hears nothing else.
        """
        if self._outcome is not None or not self._sealing:
            return []
        self._sealing, self._sealed = False, True
        if failure is not None:
            self._pending.clear()
            self._verdict = failure
        return self._flush(now)

    def on_client_gone(self, now: float) -> list[RelayEffect]:
        """The client closed its side. After the last event was handed over that is its right."""
        if self._outcome is not None:
            return []
        if self._handed_over:
            return self._end(self._completed(), Done())
        return self._end("client_disconnect", Abandon("client_gone"))

    def on_tick(self, now: float) -> list[RelayEffect]:
        """Time passed; due when `next_tick` said so."""
        due_s = self.next_tick()
        if due_s is None or now < due_s:
            return []
        if self._writing_since_s is not None:
            return self._end("write_timeout", Abandon("write_timeout"))
        self._writing_since_s = now
        if self._committed:
            return [KeepAlive(self._state)]
        self._committed = True
        return [Commit(), KeepAlive(self._state)]

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do, on the clock that `now` is read from."""
        if self._outcome is not None:
            return None
        if self._writing_since_s is not None:
            return self._writing_since_s + self._settings.write_deadline_s
        if self._committed:
            return self._spoke_s + self._settings.keepalive_s
        return self._opened_s + self._settings.commit_after_s if self._streamed else None

    def _take(self, event: StreamEvent) -> None:
        if self._finished or isinstance(event, Failed):
            return
        if isinstance(event, Started):
            if not self._before_tokens:
                self._started = event
            elif self._streamed:
                seam = f"replayed after {self._lost_to} at token {self._before_tokens}"
                self._pending.append(Mark(seam))
            self._state = _percent("prefill", event.cached_tokens, event.prompt_tokens)
        elif isinstance(event, PrefillProgress):
            self._state = _percent("prefill", event.done, event.total)
        elif isinstance(event, Vectors):
            # Collected, and of use to nobody before the last of them: until then all may be made
            # anew elsewhere.
            self._pending.append(event)
        else:
            self._state = "answering"
            self._answering = True
            if isinstance(event, Finished):
                self._finished = True
                event = msgspec.structs.replace(event, usage=self.whole(event.usage))
            elif self.said is not None and isinstance(event, Delta):
                self.said.add(event)
            self._pending.append(event)

    def _flush(self, now: float) -> list[RelayEffect]:
        """Hand over what can be, give credit for what is no longer held, end what is decided."""
        effects: list[RelayEffect] = []
        if self._writing_since_s is None and self._verdict is not None and not self._committed:
            return self._end(_outcome_of(self._verdict), Reject(self._verdict))
        if self._writing_since_s is None and self._sendable():
            effects += self._send(now)
        if not self._streamed or not self._pending or self._dropping:
            # A collected answer is bounded by the model's context, not by the client's reading.
            self._consume()
        effects += self._grant()
        if self._verdict is not None and self._writing_since_s is None and not self._pending:
            effects += self._end(_outcome_of_cut(self._verdict), Break(self._verdict))
        return effects

    def _sendable(self) -> bool:
        return bool(self._pending) and (self._streamed or self._finished) and not self._sealing

    def _send(self, now: float) -> list[RelayEffect]:
        events, self._pending = self._pending, []
        if self._finished and self._settings.sealed and not self._sealed:
            # The text first; a collected answer is one write, so there it is the seal.
            held = events[-1:] if self._streamed else events
            self._pending, events = held, events[: len(events) - len(held)]
            if not events:
                self._sealing = True
                return [Seal()]
        effects: list[RelayEffect] = [] if self._committed else [Commit()]
        self._committed = True
        sent = tuple(events) if self._dropping else merged(events)
        effects.append(Send(sent, self._dropped))
        self._dropped = 0
        self._writing_since_s = now
        self._handed_over = self._finished and not self._pending
        return effects

    def _drop_surplus(self) -> None:
        """Let the oldest text give way; an ending never does."""
        surplus = max(0, len(self._pending) - self._finished - self._settings.buffer_events)
        gone, self._pending = self._pending[:surplus], self._pending[surplus:]
        self._dropped += sum(isinstance(event, Delta) and bool(event.text) for event in gone)
        self._overflowed = self._overflowed or self._dropped > 0

    def _completed(self) -> Outcome:
        return "buffer_overflow" if self._overflowed else "complete"

    def _consume(self) -> None:
        self._ungranted += self._unread
        self._unread = 0

    def _grant(self) -> list[RelayEffect]:
        # In halves: a credit for every token would double the traffic of the link.
        if self._finished or 2 * self._ungranted < self._settings.buffer_events:
            return []
        messages, self._ungranted = self._ungranted, 0
        return [Grant(messages)]

    def _end(self, outcome: Outcome, ending: RelayEffect) -> list[RelayEffect]:
        assert self._outcome is None, "a relay ends once"
        self._outcome = outcome
        self._writing_since_s = None
        self._pending = []
        return [ending]


def merged(events: Sequence[StreamEvent | Mark]) -> tuple[StreamEvent | Mark, ...]:
    """The same events with every run of deltas joined into one, in linear time."""
    if len(events) == 1:
        return (events[0],)
    out: list[StreamEvent | Mark] = []
    run: list[Delta] = []
    for event in events:
        if isinstance(event, Delta):
            run.append(event)
            continue
        out += _joined(run)
        run = []
        out.append(event)
    return (*out, *_joined(run))


def _joined(run: list[Delta]) -> list[Delta]:
    if len(run) < 2:
        return run
    logprobs: list[TokenChoice] = []
    for delta in run:
        logprobs += delta.logprobs
    text = "".join(delta.text for delta in run)
    return [Delta(text, sum(delta.tokens for delta in run), tuple(logprobs))]


def _percent(what: str, done: int, total: int) -> str:
    return f"{what} {100 * done // total if total > 0 else 0} %"


def _outcome_of_cut(failure: Failure) -> Outcome:
    """Who was let in is not rejected any more, whatever cuts the answer."""
    outcome = _outcome_of(failure)
    return "node_error" if outcome == "rejected" else outcome


def _outcome_of(failure: Failure) -> Outcome:
    if failure.reason == "deadline":
        return "deadline"
    if failure.reason == "cancelled":
        return "cancelled"
    return "node_error" if failure.kind.fault in {Fault.PEER, Fault.OURS} else "rejected"
