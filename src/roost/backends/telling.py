"""MACHINE: how an answer of a local runtime begins, what it has cost, and how it ends, once each.

Engines differ in what they say on the way. That an answer starts once, ends once, and may be gone
on with elsewhere when its runtime dies, is the contract's and the same for all of them.
"""

from __future__ import annotations

import msgspec

from roost.backends.deltas import Deltas
from roost.core.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
    Usage,
    merge_deltas,
)
from roost.core.request import GenerateRequest
from roost.errors import Failure


class Telling:
    """The frame of one answer in `slot`. `over` after its terminal event.

    Its text goes through `deltas`, whose counts the usage is made of.
    """

    def __init__(self, slot: int, prompt_tokens: int, request: GenerateRequest) -> None:
        self.over = False
        self.by_token = request.return_tokens
        self.deltas = Deltas(request.stop, by_token=request.return_tokens)
        self._slot = slot
        self._prompt_tokens = prompt_tokens
        self._cached: int | None = None

    def started(self, cached: int) -> list[StreamEvent]:
        """Begin the answer with `cached` tokens of its prompt in the slot, unless it has begun."""
        if self._cached is not None:
            return []
        self._cached = cached
        return [Started(self._prompt_tokens, cached, self._slot)]

    def finished(
        self, reason: FinishReason, half: str = "", held: Delta | None = None
    ) -> list[StreamEvent]:
        """End the answer well: text that was `held` back, then what stands for half a character."""
        self.over = True
        rest = self.deltas.finish(half)
        if held:
            rest = merge_deltas(held, rest or Delta("", 0))
        end = Finished(reason, self._usage(), self.deltas.stop_text)
        return [rest, end] if rest else [end]

    def failed(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        if self.over:
            return []
        self.over = True
        if self.by_token and failure.reason == "runtime_died":
            # What is held stays in: whoever goes on says it again.
            usage = msgspec.structs.replace(self._usage(), completion_tokens=self.deltas.cut())
            return [Failed(failure, usage)]
        rest = self.deltas.finish() if self._cached is not None else None
        return [*([rest] if rest else []), Failed(failure, self._usage())]

    def _usage(self) -> Usage:
        if self._cached is None:
            return Usage()
        return Usage(self._prompt_tokens, self._cached, self.deltas.tokens)
