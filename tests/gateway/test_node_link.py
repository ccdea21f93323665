"""A node's link at the gateway: what counts as a sign of life."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roost.wire.heartbeat import LinkSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, staged


@pytest.mark.slow
async def test_a_node_that_only_answers_pings_is_alive() -> None:
    """Pings and their answers are signs of life, although nobody behind the link sees them."""
    fleet = msgspec.structs.replace(SETTINGS.fleet, link_suspect_s=0.15, link_stale_s=0.25)
    link = msgspec.structs.replace(SETTINGS.link, link=LinkSettings(ping_s=0.02))
    async with staged(msgspec.structs.replace(SETTINGS, fleet=fleet, link=link)) as stage:
        stage.add_node("quiet")
        await stage.ready()
        loop = asyncio.get_running_loop()
        enough_s = loop.time() + 4 * fleet.link_stale_s
        looks: list[str] = []

        def long_enough() -> bool:
            looks.append(stage.gateway.mind.coordinator.fleet()[0].state)
            return loop.time() > enough_s

        await until(long_enough)
        assert set(looks) == {"alive"}
