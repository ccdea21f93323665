"""SHELL: what drills on three members have in common: members, clients, and what they can do."""

from __future__ import annotations

import random
from collections.abc import Callable

from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.stage import Stage

MEMBERS, SLOTS = 3, 2
PIECES, GAP_MS = 10, 20.0
CAPACITY_PER_S = MEMBERS * SLOTS * 1000 / (PIECES * GAP_MS)
"""Chats that they can complete."""


async def nodes(stage: Stage) -> Fleet:
    """Start a gateway and three nodes."""
    return await fleets.nodes(stage, MEMBERS, ("--slots", str(SLOTS)))


async def servers(stage: Stage, *gateway_flags: str) -> Fleet:
    """Start a stateless gateway before three servers."""
    flags = ("--slots", str(SLOTS), "--queue-length", "100")
    return await fleets.servers(stage, MEMBERS, flags, gateway_flags)


def client(fleet: Fleet, dice: random.Random) -> Callable[[int], Chat]:
    """Return what makes the chat of a number: each is one of its own."""

    def chat(_number: int) -> Chat:
        return Chat(fleet.port, fleet.stage.model, scripted(dice, PIECES, GAP_MS))

    return chat


async def full_house(chat: Callable[[int], Chat]) -> list[Answer]:
    """Ask for every slot at once."""
    return await at_once([chat(number) for number in range(MEMBERS * SLOTS)])
