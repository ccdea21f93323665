"""SHELL: one answer of the scripted backend: prefilled, said piece by piece, ended as told."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Iterable
from itertools import cycle
from typing import Protocol

from roost.backends.base import Prepared, SlotUse
from roost.backends.formats import Format
from roost.backends.scripted.prompts import last_text, prompt_of
from roost.backends.scripted.script import Script
from roost.backends.telling import Telling
from roost.core.events import (
    Delta,
    FinishReason,
    PrefillProgress,
    StreamEvent,
    merge_deltas,
)
from roost.core.model import RuntimeKey
from roost.core.prefixes import common_length
from roost.errors import RoostError, fail
from roost.text.gbnf import Rules
from roost.text.gbnf_match import matches, shortest
from roost.text.utf8 import Utf8Decoder

_WORDS = (b"amber", b"birch", b"cedar", b"dune", b"elm", b"fern", b"grove", b"heath")
_PIECE = re.compile(rb"\s*[!-~]+|\s+|[^\s!-~]{1,3}")


class Place(Protocol):
    """The runtime in which an answer runs."""

    died: asyncio.Event

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        ...

    def cells(self, slot: int) -> tuple[int, ...]:
        """Give the tokens that a slot holds."""
        ...

    async def pause(self, seconds: float) -> bool:
        """Let time pass; return whether the runtime still lives then."""
        ...

    def kill(self) -> None:
        """Die at once."""
        ...


class Run:
    """One stream: what it has put into the slot so far, and whether it ended by itself."""

    def __init__(
        self,
        runtime: Place,
        prepared: Prepared,
        use: SlotUse,
        script: Script,
        held_to: Format | None,
    ) -> None:
        self.script = script
        self._format = held_to
        self._runtime = runtime
        self._prepared = prepared
        held = runtime.cells(use.slot) if use.reuse else ()
        # As in real engines, at least one token has to be computed to know what comes next.
        self._cached = min(common_length(held, prepared.tokens), len(prepared.tokens) - 1)
        self.cells = prepared.tokens[: self._cached]
        self._utf8 = Utf8Decoder()
        self._telling = Telling(use.slot, len(prepared.tokens), prepared.request)
        self._deltas = self._telling.deltas

    @property
    def over(self) -> bool:
        """Whether it has ended by itself."""
        return self._telling.over

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Prefill, then speak; whatever goes wrong becomes the stream's last event."""
        total = len(self._prepared.tokens)
        for event in self._telling.started(self._cached):
            yield event
        try:
            while len(self.cells) < total:
                yield await self._prefill(total)
            for number, piece in self._unsaid():
                await self._act(number)
                if delta := self._say(piece):
                    yield delta
                if self._deltas.stop_text is not None or self._full():
                    break
            ended = self._telling.finished(self._reason(), self._utf8.finish())
        except RoostError as error:
            ended = self._telling.failed(error.failure)
        for event in ended:
            yield event

    async def _prefill(self, total: int) -> PrefillProgress:
        """Compute one batch of the prompt."""
        done = len(self.cells)
        until = min(done + self._runtime.key.options.batch, total)
        await self._wait((until - done) * self.script.prefill_ms_per_token)
        self.cells = self._prepared.tokens[:until]
        return PrefillProgress(until, total)

    def _say(self, piece: bytes) -> Delta | None:
        data = piece[: self._prepared.limit - self._deltas.tokens]
        self.cells += tuple(data)
        if not self._telling.by_token:
            return self._deltas.push(self._utf8.push(data), len(data))
        said = Delta("", 0)
        for byte in data:
            text = self._utf8.push(bytes((byte,)))
            said = merge_deltas(said, self._deltas.push(text, 1, ids=(byte,)) or Delta("", 0))
            if self._deltas.stop_text is not None:
                break
        return said if said.tokens else None

    def _full(self) -> bool:
        return self._deltas.tokens >= self._prepared.limit

    def _unsaid(self) -> Iterable[tuple[int, bytes]]:
        """Number the pieces, and leave out what a runtime before this one has said of them."""
        if not self._prepared.limit:
            return
        said = len(self._prepared.request.said)
        for number, piece in enumerate(self._pieces()):
            if not said or said < len(piece):
                yield number, piece[said:]
            said = max(0, said - len(piece))

    def _pieces(self) -> Iterable[bytes]:
        if self._format is not None:
            return self._formatted(self._format.rules)
        if self.script.pieces is not None:
            pieces = [piece.encode() for piece in self.script.pieces]
        else:
            pieces = _echo(self._prepared)
        return cycle(pieces or [b" "]) if self._prepared.request.ignore_eos else pieces

    def _formatted(self, rules: Rules) -> list[bytes]:
        pieces = self.script.pieces
        if pieces is None or not matches(rules, "".join(pieces)):
            pieces = tuple(shortest(rules) or "")
        return [piece.encode() for piece in pieces]

    async def _act(self, number: int) -> None:
        """Do what the script says before piece `number`."""
        script = self.script
        if number == script.die_after:
            self._runtime.kill()
        if number == script.hang_after:
            await self._runtime.died.wait()
        await self._wait(script.delay_ms)
        if number == script.fail_after:
            raise fail("runtime_error", "The script says that the runtime fails here.")

    async def _wait(self, wait_ms: float) -> None:
        if not await self._runtime.pause(wait_ms / 1000):
            raise fail("runtime_died", "The runtime ended during the answer.")

    def _reason(self) -> FinishReason:
        return "length" if self._deltas.stop_text is None and self._full() else "stop"


def _echo(prepared: Prepared) -> list[bytes]:
    """Repeat the last message in words; what is not ASCII comes in pieces that split characters."""
    pieces = _PIECE.findall(last_text(prompt_of(prepared)))
    seed = prepared.request.sampling.seed
    if seed is not None:
        pieces += [b" " + word for word in random.Random(seed).choices(_WORDS, k=8)]
    return pieces
