"""MACHINE: what a client has been given of an answer, as token ids, so that another node can go on.

The relay writes it, the coordinator reads it: a token is here before its text can reach anybody.
"""

from __future__ import annotations

from roost.core.events import Delta
from roost.core.request import Terms


class Said:
    """One answer's tokens so far, up to `tokens_max`; beyond that they are not kept."""

    def __init__(self, tokens_max: int) -> None:
        self._tokens_max = tokens_max
        self._ids: list[int] = []
        self._whole = True
        self.tokens = 0

    @property
    def resumable(self) -> bool:
        """Whether every token of the text is known, so that it can be gone on with."""
        return self._whole

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens, in order."""
        assert self._whole, "what is not known whole cannot be gone on with"
        return tuple(self._ids)

    def add(self, delta: Delta) -> None:
        """More of the answer is on its way to the client."""
        self.tokens += delta.tokens
        if len(delta.ids) != delta.tokens or self.tokens > self._tokens_max:
            self._whole = False
            self._ids.clear()
        elif self._whole:
            self._ids += delta.ids


def said_for(terms: Terms, tokens_max: int) -> Said | None:
    """Where to keep a request's answer for whoever goes on with it; None where nobody is to."""
    return Said(tokens_max) if terms.on_loss == "replay" else None
