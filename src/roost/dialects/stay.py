"""VALUE: what a request in Ollama's API asks for the model itself, beside an answer of it."""

from __future__ import annotations

import msgspec

FOR_EVER = -1.0


class Stay(msgspec.Struct, frozen=True, omit_defaults=True):
    """For how long the model shall stay loaded when nobody uses it, and whether that is all.

    `keep_s` is in seconds, 0 to unload it after this, less than 0 to keep it for ever; None where
    nothing is said. With `alone` there is nothing to answer: the model is loaded, or unloaded.
    """

    keep_s: float | None = None
    alone: bool = False

    @property
    def unloads(self) -> bool:
        """Whether nothing is wanted but that the model goes."""
        return self.alone and self.keep_s == 0
