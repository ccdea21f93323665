"""A server that breaks promises on purpose is asked by the load itself, and gets its verdict."""

from __future__ import annotations

import random

import pytest

from roost.bench.chaos.load import PIECES, Load
from roost.bench.chaos.promises import verdicts
from roost.bench.chaos.seen import Manner, Seen
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.stage import Running, Stage
from tests.bench.lying import DONE, ERROR, HEAD, LAST, said, server

ENDS, ORDER = "Every request that was accepted ends exactly once", "Text arrives in order"
CUTS, HINTS = "An answer that is cut ends in one error event", "The queue is bounded"


ALL = [f"{number} " for number in range(PIECES)]
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n%s\r\n{}"


class Front(Running):
    """A server that runs already, in the place of a gateway."""

    def __init__(self, port: int) -> None:
        self.port = port


async def kept(reply: bytes, manner: Manner = "plain") -> dict[str, str]:
    """Ask a server that always replies so, and return all verdicts by promise."""
    async with server(reply) as port:
        with Stage() as stage:
            load = Load(Fleet(stage, "nodes", Front(port)), random.Random(1), 1.0, 0)
            await load.speak(manner)
    seen = Seen((), tuple(load.spoken), (), {})
    return {one.promise: one.kept for one in verdicts(seen)}


@pytest.mark.parametrize(
    ("reply", "promise", "verdict"),
    [
        (HEAD + said(*ALL) + DONE + LAST, ENDS, "kept"),
        (HEAD + said(*ALL) + DONE + LAST, ORDER, "kept"),
        (HEAD + said(*ALL) + DONE + DONE + LAST, ENDS, "broken"),
        (HEAD + said(*ALL) + LAST, ENDS, "broken"),
        (HEAD + said(*ALL[:3]), ENDS, "broken"),
        (HEAD + said(*ALL[:-1]) + DONE + LAST, ORDER, "broken"),
        (HEAD + said("0 ", "0 ", *ALL[1:]) + DONE + LAST, ORDER, "broken"),
        (HEAD + said(*ALL[:3]) + ERROR + DONE + LAST, CUTS, "broken"),
        (HEAD + said(*ALL[:3]) + ERROR, CUTS, "kept"),
        (REFUSED % b"", HINTS, "broken"),
        (REFUSED % b"Retry-After: 3\r\n", HINTS, "kept"),
        (b"", ENDS, "broken"),
    ],
)
async def test_what_it_does_is_what_is_found(reply: bytes, promise: str, verdict: str) -> None:
    """An honest server keeps what a lying one breaks, to the same client."""
    (found,) = [kept for told, kept in (await kept(reply)).items() if told.startswith(promise)]
    assert found == verdict


async def test_slow_and_leaving_clients_hear_the_same_server() -> None:
    """Who reads slowly gets all of it; who leaves gets a beginning."""
    for manner in ("slow", "leaves", "replay"):
        found = await kept(HEAD + said(*ALL) + DONE + LAST, manner)
        assert "broken" not in found.values(), manner
