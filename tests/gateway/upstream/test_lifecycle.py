"""Running and ending the stateless gateway as the command line does."""

from __future__ import annotations

import asyncio

import pytest

from roost.gateway.front.limits import Listener
from roost.gateway.upstream.gateway import (
    UpstreamGateway,
    UpstreamSettings,
    run_upstream_gateway,
)
from roost.gateway.upstream.targets import Target
from tests.conftest import Eventually
from tests.gateway.front.conftest import Client
from tests.gateway.upstream.conftest import FakeServer, chat, fleet, get, hang

NOWHERE = UpstreamSettings(
    (Target("a", "127.0.0.1", 1),), Listener(port=0), tick_s=0.01, report_s=0.01
)


async def test_runs_until_it_is_closed() -> None:
    """`run_upstream_gateway` says when it is up, reports, and ends with `close`."""
    ready: asyncio.Future[UpstreamGateway] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(run_upstream_gateway(NOWHERE, on_ready=ready.set_result))
    gateway = await ready
    assert gateway.front is not None
    client = Client(*await asyncio.open_connection("127.0.0.1", gateway.front.port))
    assert (await client.ask(get("/"))).status == 200
    assert (await client.ask(get("/ready"))).status == 503
    client.close()
    assert await gateway.close(1)
    await asyncio.wait_for(running, 5)


async def test_reports_are_written(
    eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every `report_s` there is a line for each server and one for the fleet."""
    running = asyncio.ensure_future(run_upstream_gateway(NOWHERE))
    text = ""

    def reported() -> bool:
        nonlocal text
        text += "".join(capsys.readouterr())
        return "in_flight" in text and "unavailable" in text

    await eventually(reported)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_close_cuts_what_outlasts_the_grace(eventually: Eventually) -> None:
    """A request that does not end in time is cut, its place is free, and `close` says so."""
    server = FakeServer(hang)
    async with fleet(server) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: world.in_flight == 1)
        closing = asyncio.ensure_future(world.gateway.close(0.05))
        assert not await closing
        assert world.in_flight == 0
        assert await busy.closed() == b""


async def test_websockets_are_not_served() -> None:
    """The stateless gateway takes no upgrades."""
    async with fleet(FakeServer()) as world:
        client = await world.client()
        upgrade = (
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await client.send(get("/roost/v1/link")[:-2] + upgrade)
        assert (await client.head())[0] == 403
