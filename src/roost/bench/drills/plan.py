"""VALUE: how long a drill takes its time."""

from __future__ import annotations

import msgspec


class Plan(msgspec.Struct, frozen=True):
    """`short` is for tests: seconds in place of a minute."""

    short: bool = False

    def pick(self, *, short: float, full: float) -> float:
        """Return the one that this plan is for."""
        return short if self.short else full

    @property
    def bound_s(self) -> float:
        """How long a drill may take at all; several times what it does take."""
        return self.pick(short=90.0, full=1800.0)
