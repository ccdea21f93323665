"""VALUE: everything that was seen while faults happened; promises are judged by this alone."""

from __future__ import annotations

from typing import Literal

import msgspec

from roost.bench.chaos.schedule import Fault
from roost.bench.chaos.soak import Reading
from roost.bench.drills.answers import Answer

Manner = Literal["plain", "replay", "leaves", "slow"]
"""How a client asked: as most do, with an answer that others may go on with, leaving in the middle,
or reading slowly."""


class Struck(msgspec.Struct, frozen=True):
    """One fault as it happened, in seconds since the load began.

    The fleet was whole again at `over_s`. `figures` are the fault's own, by name.
    """

    fault: Fault
    victim: str
    begun_s: float
    over_s: float
    figures: dict[str, float]


class Spoken(msgspec.Struct, frozen=True):
    """One chat of the load, and the text that a whole answer to it has."""

    manner: Manner
    answer: Answer
    whole: str


class Talked(msgspec.Struct, frozen=True):
    """One conversation by name: its turns whose end was read, and those that are kept, by number.

    `lies` is what was told of its home and is not true.
    """

    name: str
    read: tuple[int, ...]
    kept: tuple[int, ...]
    lies: tuple[str, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """One run: faults, chats and conversations, and who held something when all was over.

    A long run has `readings` of its processes too.
    """

    strikes: tuple[Struck, ...]
    spoken: tuple[Spoken, ...]
    talked: tuple[Talked, ...]
    held: dict[str, str]
    readings: tuple[Reading, ...] = ()
