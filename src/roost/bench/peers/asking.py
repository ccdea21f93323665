"""SHELL: asks a gateway for streams whose server dies."""

from __future__ import annotations

import asyncio

from roost.bench.drills.asking import Chat, ask
from roost.bench.peers.deaths import STREAMS, Death

ASKED_S = 30.0


async def seen(variant: str, port: int, key: str) -> Death:
    """Ask for as many streams as the server waits for, and for one more when all have ended."""
    chat = Chat(port, "stub", "hello", timeout_s=ASKED_S, key=key)
    answers = await asyncio.gather(*(ask(chat) for _ in range(STREAMS)))
    return Death(variant, tuple(answers), await ask(chat))
