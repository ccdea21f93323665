"""The benchmark of what roost costs beside the bare server: what it plays, and its verdict."""

from __future__ import annotations

import random

import pytest

from roost.bench import overhead
from roost.bench.chat_stream import Told
from roost.bench.drills.stage import Stage
from roost.bench.overhead import BARE, ROOST, SAME, Block, Server, Setup, compared, report

WARM = (overhead.RESTED, overhead.AT_ONCE)


def played(ours_s: float, added_s: float, cached: int = 40) -> dict[str, list[Block]]:
    """Write blocks of answers of 100 tokens; the bare server takes 2 s for them, or 1.6."""
    blocks: dict[str, list[Block]] = {}
    for load in ("1 stream", "8 streams", *WARM):
        blocks[load] = [
            Block(BARE, (Told(45, 40, 0.010, 100, 2.0),), 2.0),
            Block(SAME, (Told(45, 40, 0.008, 100, 1.6),), 1.6),
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
    assert told.figures["throughput of 8 streams over llama.cpp"] == pytest.approx(2.0 / ours_s)
    same = told.figures["throughput of 8 streams over llama.cpp, huge pages"]
    assert same == pytest.approx(1.6 / ours_s)
    for load in WARM:
        added_ms = told.figures[f"added to a warm TTFT of llama.cpp {load}, ms"]
        assert added_ms == pytest.approx(1000 * added_s)


@pytest.mark.slow
async def test_all_are_asked_the_same_in_turn() -> None:
    """Blocks alternate A B C C B A, eight streams are eight, and a repeated prompt is cached."""
    setup = Setup(rounds=1, max_tokens=4, warm=2, opening='@script {"prefill_ms_per_token": 0.1}\n')
    with Stage() as stage:
        server = stage.serve("node", "--slots", "8")
        await server.serves()
        servers = [Server(name, server.port, stage.model) for name in (BARE, SAME, ROOST)]
        found = await compared(servers, setup)
    for load in WARM:
        assert [block.server for block in found[load]] == [BARE, SAME, ROOST, ROOST, SAME, BARE]
        assert all(2 * one.cached >= one.prompt for block in found[load] for one in block.told)
    assert [len(block.told) for block in found["8 streams"]] == [8] * 6
    assert all(one.tokens > 0 for blocks in found.values() for b in blocks for one in b.told)
