"""MACHINE: the life of a runtime that is given tokens: asked, prepared, a slot for each answer.

How a prompt becomes tokens, and what streams the answer, is the runtime's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from roost.backends import checks
from roost.backends.base import Prepared, SlotUse
from roost.core.engine import Mode
from roost.core.model import Capabilities, RuntimeKey
from roost.core.reading import Reading
from roost.core.request import GenerateRequest


class Generating:
    """What runs in a runtime: `taken` are the slots that have an answer. `ended` tells its end."""

    def __init__(
        self,
        key: RuntimeKey,
        ctx: int,
        vocab_size: int,
        claims: Capabilities,
        ended: Callable[[], bool],
    ) -> None:
        self.taken: set[int] = set()
        self._options = key.options
        self._ctx = ctx
        self._vocab_size = vocab_size
        self._claims = claims
        self._ended = ended

    def check_alive(self) -> None:
        """Refuse whatever is asked after the end; raises `runtime_died`."""
        checks.check_alive(ended=self._ended())

    def check_mode(self, mode: Mode) -> None:
        """Refuse what the runtime is not for, or not any more."""
        self.check_alive()
        checks.check_mode(self._options, mode)

    def check(self, request: GenerateRequest) -> None:
        """Refuse what can be refused before there are tokens; see `base.Runtime.prepare`."""
        self.check_mode("generate")
        checks.check_request(request)
        checks.check_claimed(request, self._claims)
        checks.check_biases(request.sampling, self._vocab_size)

    def prepared(
        self, request: GenerateRequest, tokens: tuple[int, ...], reading: Reading | None = None
    ) -> Prepared:
        """Make what is opened of a checked request and the tokens of its prompt."""
        tokens += request.said
        checks.check_tokens(tokens, self._vocab_size)
        return Prepared(request, tokens, checks.limit_of(request, len(tokens), self._ctx), reading)

    def check_run(self, prepared: Prepared, use: SlotUse) -> None:
        """Refuse what was not prepared here, and a slot that is none; see `base.Runtime.open`."""
        self.check(prepared.request)
        checks.check_tokens(prepared.tokens, self._vocab_size)
        checks.check_place(prepared, use, slots=self._options.slots, ctx=self._ctx)

    @contextmanager
    def seat(self, slot: int) -> Iterator[None]:
        """Hold a slot until the answer was left, however that went; one in use is `internal`."""
        checks.check_free(slot, self.taken)
        self.taken.add(slot)
        try:
            yield
        finally:
            self.taken.discard(slot)
