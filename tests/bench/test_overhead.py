"""The benchmark of what roost costs beside the bare server: what it plays, and its verdict."""

from __future__ import annotations

import random

import pytest

from roost.bench.chat_stream import Told
from roost.bench.drills.stage import Stage
from roost.bench.overhead import BARE, ROOST, Block, Server, Setup, compared, report


def played(ours_s: float, added_s: float, cached: int = 40) -> dict[str, list[Block]]:
    """Write blocks of answers of 100 tokens; the bare server takes 2 s for them."""
    blocks: dict[str, list[Block]] = {}
    for load in ("1 stream", "8 streams", "warm"):
        blocks[load] = [
            Block(BARE, (Told(45, 40, 0.010, 100, 2.0),), 2.0),
            Block(ROOST, (Told(45, cached, 0.010 + added_s, 100, ours_s),), ours_s),
        ]
    return blocks


@pytest.mark.parametrize(
    ("ours_s", "added_s", "cached", "passed"),
    [
        (2.05, 0.0009, 40, True),
        (2.1, 0.0009, 40, False),
        (2.0, 0.002, 40, False),
        (2.0, 0.0, 10, False),
    ],
)
def test_the_verdict_follows_the_figures(
    ours_s: float, added_s: float, cached: int, passed: bool
) -> None:
    """Throughput is a ratio, the first token a difference, and warm has to be warm."""
    told = report(played(ours_s, added_s, cached), random.Random(1))
    assert told.passed is passed, told.text()
    assert told.figures["throughput of 8 streams"] == pytest.approx(2.0 / ours_s)
    assert told.figures["added to a warm TTFT, ms"] == pytest.approx(1000 * added_s)


@pytest.mark.slow
async def test_both_are_asked_the_same_in_turn() -> None:
    """Blocks alternate A B B A, eight streams are eight, and a repeated prompt is cached."""
    setup = Setup(rounds=1, max_tokens=4, warm=2, opening='@script {"prefill_ms_per_token": 0.1}\n')
    with Stage() as stage:
        server = stage.serve("node", "--slots", "8")
        await server.serves()
        servers = [Server(name, server.port, stage.model) for name in (BARE, ROOST)]
        found = await compared(servers, setup)
    assert [block.server for block in found["warm"]] == [BARE, ROOST, ROOST, BARE]
    assert [len(block.told) for block in found["8 streams"]] == [8, 8, 8, 8]
    assert all(one.tokens > 0 for blocks in found.values() for b in blocks for one in b.told)
    assert all(2 * one.cached >= one.prompt for block in found["warm"] for one in block.told)
