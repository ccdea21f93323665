"""MACHINE: what real prefills say of how many tokens of a prompt fit into a step.

A trial at the load is short, and a machine may be busy just then. Real prefills come for as long as
a runtime lives, and the quickest of many is what the machine can do: it may be busy, but never
faster than it is. So steps may become larger by what one quiet moment shows. They become smaller
only where even the quickest was far too slow, for a step deep in a context takes longer than others
of its size, and a step of another size rounds otherwise.
"""

from __future__ import annotations

import math

STEP_MIN = 32
"""Smaller steps cost more than they smooth."""

PROBE_TOKENS = 64
"""Fewer say nothing about a step."""

PREFILLS_MIN = 8
"""Real prefills before anything is concluded of them."""

TOO_SLOW = 1.5
"""A step that takes less than so many budgets stays as it is."""


def step_for(ms_per_token: float, budget_ms: int, most: int) -> int:
    """Say how many tokens of `most` fit the budget: a power of two, or `most`, or `STEP_MIN`.

    Powers of two, so that equal machines take equal steps: in steps of another size an engine
    computes the same with other rounding.
    """
    fitting = budget_ms / ms_per_token if ms_per_token > 0 else most
    step = STEP_MIN
    while step * 2 <= fitting:
        step *= 2
    return most if fitting >= most else min(step, most)


class Prefills:
    """Prefills of one runtime, which takes steps of `step` tokens, and may take `most`."""

    def __init__(self, budget_ms: int, step: int, most: int) -> None:
        self._budget_ms = budget_ms
        self._step = step
        self._most = most
        self._seen = 0
        self._quickest_ms = math.inf

    def on_prefill(self, tokens: int, took_ms: float) -> None:
        """So many tokens were computed; a few say nothing about a step."""
        if tokens >= PROBE_TOKENS and took_ms > 0:
            self._seen += 1
            self._quickest_ms = min(self._quickest_ms, took_ms / tokens)

    def fitting(self) -> int | None:
        """How many tokens a step should have; None as long as nobody can tell."""
        if not self._budget_ms or self._seen < PREFILLS_MIN:
            return None
        fits = step_for(self._quickest_ms, self._budget_ms, self._most)
        is_slow = self._quickest_ms * self._step > TOO_SLOW * self._budget_ms
        return fits if fits > self._step or is_slow else self._step
