"""VALUE: who owns a piece of work, so that whoever took it over is never contradicted.

A fence names the work by a key and its owner by an epoch. Epochs are ordered by generation, then
counter; the gateway's id comes last, so that two gateways never mean the same owner. A node does
what the highest epoch it has heard of asks, and nothing for a lower one.
"""

from __future__ import annotations

import msgspec


class Life(msgspec.Struct, frozen=True):
    """One start of a gateway: its id, and how often it has started, this time included."""

    gateway: str
    generation: int


class Epoch(msgspec.Struct, frozen=True, order=True):
    """One owner; `counter` rises with every attempt that a gateway makes, whatever its key."""

    generation: int
    counter: int
    gateway: str


class Fence(msgspec.Struct, frozen=True):
    """The work that is asked for, and for whom."""

    key: str
    epoch: Epoch
