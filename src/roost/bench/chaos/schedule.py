"""DECIDER: which faults come when, out of a seed: the same seed is the same schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import msgspec

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

Fault = Literal[
    "kill-node",
    "stop-node",
    "restart-gateway",
    "drain",
    "slow-client",
    "stuck-reader",
    "stampede",
    "disk-full",
    "port-taken",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)


class Strike(msgspec.Struct, frozen=True):
    """One fault: on which member, how long before it the fleet is left alone, how long it lasts."""

    fault: Fault
    member: int
    pause_s: float
    lasts_s: float


def schedule(
    faults: Sequence[Fault], rounds: int, members: int, pace_s: float, dice: random.Random
) -> tuple[Strike, ...]:
    """Let every fault happen once in each round, in an order and at times that the dice choose.

    Pauses are half of `pace_s` to once and a half of it, and faults last as long.
    """
    strikes: list[Strike] = []
    for _ in range(rounds):
        order = list(faults)
        dice.shuffle(order)
        strikes += [
            Strike(
                fault,
                dice.randrange(members),
                round(pace_s * dice.uniform(0.5, 1.5), 3),
                round(pace_s * dice.uniform(0.5, 1.5), 3),
            )
            for fault in order
        ]
    return tuple(strikes)
