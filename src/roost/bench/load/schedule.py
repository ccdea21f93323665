"""DECIDER: when requests are due; every time is fixed before anything is sent.

A generator that waits for answers before it sends again measures a slow server at the pace of that
server, and calls it quick (coordinated omission). Times that are fixed in advance cannot do that.
"""

from __future__ import annotations

from itertools import count, takewhile
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

Arrivals = Literal["constant", "poisson", "bursts"]
DUE_MAX = 1_000_000


def check_load(rate: float, duration_s: float, burst: int) -> None:
    """Refuse numbers that are no load with a `ValueError`.

    Those are a rate, duration or burst that is not above zero, and more than `DUE_MAX` requests.
    """
    if not (rate > 0 and duration_s > 0 and burst >= 1):
        raise ValueError("rate and duration have to be above 0, and a burst at least 1")
    if max(rate * duration_s, burst) > DUE_MAX:
        raise ValueError(f"more than {DUE_MAX} requests are no measurement any more")


def due_times(
    arrivals: Arrivals, rate: float, duration_s: float, burst: int, dice: random.Random
) -> list[float]:
    """Return when requests are due, in seconds from the beginning and in order.

    `constant` is every 1 / rate seconds, `poisson` at random with that mean, `bursts` `burst` at
    once and at random in between, `rate` in the mean.
    """
    if arrivals == "constant":
        return [number / rate for number in range(round(rate * duration_s))]
    if arrivals == "poisson":
        return list(_before(duration_s, lambda: dice.expovariate(rate)))
    moments = _before(duration_s, lambda: dice.expovariate(rate / burst))
    return [moment for moment in moments for _ in range(burst)]


def _before(end_s: float, gap_s: Callable[[], float]) -> Iterator[float]:
    """Yield moments with gaps between them, the first at once."""

    def moments() -> Iterator[float]:
        at_s = 0.0
        for _ in count():
            yield at_s
            at_s += gap_s()

    return takewhile(lambda at_s: at_s < end_s, moments())
