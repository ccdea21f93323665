"""Descriptors: the limit is raised, connections are clamped to it, and running out is survived."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from roost.gateway.front.limits import FrontLimits
from tests.gateway.front.conftest import GET, opened

SCRIPT = Path(__file__).with_name("out_of_descriptors.py")


async def child(*words: object) -> tuple[dict[str, float], str]:
    """Run the script in a process of its own, whose limits it may spoil."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), *map(str, words)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return msgspec.json.decode(out, type=dict[str, float]), err.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "limit", "connections"),
    [
        (256, 2048, 1000, 1128, 1000),
        (256, 600, 1000, 600, 472),
        (256, 256, 100, 256, 100),
        (100, 100, 1000, 100, 50),
    ],
)
async def test_the_soft_limit_is_raised_and_connections_fit(
    soft: int, hard: int, wanted: int, limit: int, connections: int
) -> None:
    """The soft limit goes up as far as needed and allowed; what does not fit is clamped, once."""
    seen, log = await child("fit", soft, hard, wanted)
    assert seen == {"limit": limit, "connections": connections}
    assert log.count("connections_clamped") == (connections < wanted)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_running_out_does_not_spin(loop: str) -> None:
    """Without a free descriptor the front idles, and serves again once there is one."""
    seen, log = await child("exhaust", loop)
    assert seen["busy_s"] < 0.25
    assert seen["status"] == 200
    assert len(log) < 20_000


async def test_refusals_are_bounded() -> None:
    """So many are told that there are too many connections; those beyond are cut without a word."""
    limits = FrontLimits(connections_max=1, refusals_max=2, linger_s=5)
    async with opened(limits) as world:
        first = await world.client()
        assert (await first.ask(GET)).status == 200
        for _ in range(2):
            assert (await (await world.client()).reply()).status == 503
        assert await (await world.client()).closed() == b""
        assert world.front.connections <= 4
