"""SHELL: several answers to one request, each a turn with a lease of its own, in one reply.

    turn 0 ──▶ part 0 ─╮
    turn 1 ──▶ part 1 ─┼──▶ chorus ──▶ exchange
    turn 2 ──▶ part 2 ─╯

Streamed, their events go out as they come, each with the number of its choice; the end is told once
all have ended. Whole, they are collected. What fails for one fails for all: a reply with fewer
choices than were asked for would be taken for the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from roost.core.events import Usage
from roost.gateway.front.rendering import Headers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.errors import Failure
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.turns.turn import Turn


class Ends(Protocol):
    """How a dialect ends a reply of several choices."""

    def stream(self, usage: Usage) -> bytes:
        """The end of a stream."""
        ...

    def body(self, choices: Sequence[bytes], usage: Usage) -> bytes:
        """The body of a whole reply."""
        ...

    def error(self, failure: Failure) -> bytes:
        """The end of a stream that is not complete."""
        ...


class Chorus:
    """Watches `exchange` for all turns; `ends` tells how their reply ends.

    `per_prompt` choices that follow each other have the same prompt.
    """

    def __init__(self, exchange: Exchange, ends: Ends, per_prompt: int) -> None:
        self.exchange = exchange
        self._ends = ends
        self._per_prompt = per_prompt
        self._turns: list[Turn] = []
        self._choices: dict[int, bytes] = {}
        self._parts = self._left = 0
        self._over = False
        exchange.watcher = self

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self.exchange.blocked

    @property
    def done(self) -> bool:
        """Whether nothing follows."""
        return self._over or self.exchange.done

    def part(self) -> Part:
        """Make the outlet of one more choice."""
        self._parts += 1
        self._left += 1
        return Part(self, self._parts - 1)

    def sing(self, turns: Sequence[Turn], arrive: Callable[[Turn], None]) -> None:
        """Have each turn `arrive`, in order; the first that is refused is the last."""
        for turn in turns:
            if self.done:
                return
            self._turns.append(turn)
            arrive(turn)

    # --- from the parts

    def start(self, headers: Headers) -> None:
        """One of the choices begins, and with the first of them the reply."""
        if not self.done and not self.exchange.started:
            self.exchange.start(200, headers)

    def write(self, data: bytes) -> None:
        """Send a piece of one of the choices."""
        if not self.done and data:
            self.exchange.write(data)

    def ended(self, index: int, choice: bytes = b"", headers: Headers | None = None) -> None:
        """One of the choices is complete; `choice` where it is sent whole."""
        if self.done:
            return
        self._left -= 1
        if headers is not None:
            self._choices[index] = choice
        if self._left:
            return
        self._over = True
        usage = self._usage()
        if headers is None:
            self.exchange.finish(self._ends.stream(usage))
        else:
            choices = [self._choices[number] for number in range(self._parts)]
            self.exchange.reply(200, headers, self._ends.body(choices, usage))

    def failed(self, failure: Failure) -> None:
        """One of the choices cannot be had: none can."""
        if self.done:
            return
        self._over = True
        if self.exchange.started:
            self.exchange.write(self._ends.error(failure))
            self.exchange.break_off()
        else:
            self.exchange.fail(failure)
        self._leave()

    def broke_off(self, leave: Callable[[], None]) -> None:
        """One of the choices has told its failure, or its client does not read."""
        if not self.done:
            self._over = True
            leave()
            self._leave()

    # --- from the exchange

    def on_gone(self) -> None:
        """The client has left all of them."""
        self._over = True
        self._leave()

    def on_blocked(self) -> None:
        """The client does not keep up; each relay hears of it by itself."""

    def on_writable(self) -> None:
        """The client has taken what it was sent."""
        for turn in list(self._turns):
            turn.on_writable()

    def _leave(self) -> None:
        for turn in list(self._turns):
            turn.on_gone()

    def _usage(self) -> Usage:
        """Add up what the answers took; each prompt counts once."""
        spent = [turn.spent for turn in self._turns]
        firsts = spent[:: self._per_prompt]
        return Usage(
            sum(usage.prompt_tokens for usage in firsts),
            sum(usage.cached_tokens for usage in firsts),
            sum(usage.completion_tokens for usage in spent),
            sum(usage.reasoning_tokens for usage in spent),
        )


class Part:
    """The outlet of one choice."""

    def __init__(self, chorus: Chorus, index: int) -> None:
        self._chorus = chorus
        self._index = index

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self._chorus.blocked

    @property
    def done(self) -> bool:
        """Whether nothing follows."""
        return self._chorus.done

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the choice."""
        self._chorus.start(headers)

    def write(self, data: bytes) -> None:
        """Send a piece of it."""
        self._chorus.write(data)

    def finish(self, data: bytes = b"") -> None:
        """It is complete."""
        self._chorus.write(data)
        self._chorus.ended(self._index)

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """It is complete, and sent whole."""
        self._chorus.ended(self._index, body, headers)

    def fail(self, failure: Failure) -> None:
        """It cannot be had."""
        self._chorus.failed(failure)

    def break_off(self) -> None:
        """It has told its failure."""
        self._chorus.broke_off(self._chorus.exchange.break_off)

    def abandon(self) -> None:
        """The client has left, or does not read."""
        self._chorus.broke_off(self._chorus.exchange.abandon)
