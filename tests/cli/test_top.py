"""`roost top` as a verb: one look as text or JSON, a fleet that is played, and what is missing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial

import pytest

from roost.cli.dashboard.app import TopApp
from roost.cli.dashboard.source import GatewaySource
from roost.cli.main import run
from roost.config import Settings, load
from roost.config.load import Machine
from roost.core.events import Delta, Started
from tests.cli.dashboard.test_app import SMALL, Seat
from tests.conftest import until
from tests.gateway.conftest import Stage, staged
from tests.gateway.test_fleet_gateway import STREAM, idle, opened_count
from tests.gateway.test_operations import by_name


def settings(**flags: str) -> Settings:
    """The settings in force with these flags."""
    return load({}, dict(flags), "", Machine(4, "/nowhere")).settings


def test_one_look_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a server and without a terminal: every table under its title."""
    assert run(["top", "--demo", "--once"]) == 0
    said = capsys.readouterr().out
    for words in ("NODES 3", "RUNTIMES", "REQUESTS ", "QUEUE ", "EVENTS", "garage-pc", "█"):
        assert words in said
    assert "\x1b" not in said
    lengths = [len(line) for line in said.splitlines()]
    assert max(lengths) <= 120


def test_one_look_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object of the two answers, for scripts."""
    assert run(["top", "--demo", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"observability", "fleet"}
    assert len(said["fleet"]["nodes"]) == 3


@pytest.mark.parametrize("wrong", ["499", "60001", "soon", "-5", "1e3", ""])
def test_an_interval_has_bounds(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused with what it may be."""
    with pytest.raises(SystemExit) as ended:
        run(["top", "--demo", "--once", "--interval-ms", wrong])
    assert ended.value.code == 2
    assert "500" in capsys.readouterr().err


def test_nobody_there_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do about it."""
    assert run(["top", "--once", "--url", "http://127.0.0.1:9"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("roost top: No gateway answers at http://127.0.0.1:9")
    assert said.count("\n") == 1


def test_without_textual_there_is_a_command_to_type() -> None:
    """And what works without it; one look does."""
    code = (
        "import sys; sys.modules['textual'] = None; from roost.cli.main import run; "
        "first = run(['top', '--demo', '--once']); sys.exit(10 * first + run(['top', '--demo']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "NODES 3" in ended.stdout
    assert "pip install" in ended.stderr
    assert "[top]'" in ended.stderr
    assert "roost top --once" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_real_gateway_is_shown_and_stops_what_it_is_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a person would: see the stream, press `c`, say `y`; the client hears that it is over."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", STREAM, authorization="Bearer ann")
        await until(partial(opened_count, node, 1), what="it runs")
        node.say(node.opened[0].stream, Started(9, 4, 0), Delta("so far", 2))
        await client.head()
        url = f"http://127.0.0.1:{stage.port}"
        once = ["top", "--once", "--url", url, "--api-key", "root"]
        assert await asyncio.to_thread(run, once) == 0
        said = capsys.readouterr().out
        assert f"roost top  {url}  admin" in said
        assert "key:ann" in said
        app = TopApp(GatewaySource(settings(url=url, api_key="root")), 3600.0)
        app.animation_level = "none"
        async with app.run_test(size=SMALL) as pilot:
            seat = Seat(app, pilot)
            await until(lambda: "1 run" in seat.says("summary"), what="it is seen")
            assert "streaming" in seat.rows("requests")[0]
            await seat.press("c", "y")
            await until(lambda: bool(node.cancelled), what="its node is told")
            assert b"cancelled" in (await client.rest()).body
            node.release(node.opened[0].stream)
            await until(partial(idle, stage), what="its place is free")
            await drained(seat, stage)


async def drained(seat: Seat, stage: Stage) -> None:
    """Drain the only node by its key, and see it."""
    await seat.press("d", "y")
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: fleet()[0].draining, what="it is drained")
    await until(lambda: "draining" in seat.rows("nodes")[0], what="that is seen")
    await until(lambda: "operated" in " ".join(seat.rows("events")), what="and who did it")
