"""POST /coordinator/infer and the disk: what was said is there before its end, and after."""

from __future__ import annotations

from pathlib import Path

import msgspec

from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.test_infer import PATH, events, infer, joined, ran, saying, texts, turn


async def test_the_end_is_told_only_when_the_turn_is_on_disk(tmp_path: Path) -> None:
    """Whoever has read the last event finds the turn after any crash."""
    home = Home.open(tmp_path / "home")
    journal = Journal(open_disk(home, 2**30), JournalSettings())
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, journal=journal) as stage:
        node = stage.add_node()
        await stage.ready()
        other = open_disk(home, 2**30)
        for number in range(5):
            client = await stage.client()
            client.send("POST", PATH, turn(f"q{number}"))
            await until(ran(node, number + 1), what="it runs")
            node.answer(node.opened[number], f"a{number}")
            await client.reader.readuntil(b'"finished":true')
            rows = other.execute("select asked, answered, complete from turns").fetchall()
            assert rows[-1] == (f"q{number}", f"a{number}", 1)
            assert len(rows) == number + 1
        other.close()


async def test_a_restarted_gateway_goes_on_where_it_was(tmp_path: Path) -> None:
    """Words and home of a conversation survive the gateway: the next turn is whole and warm."""
    home = Home.open(tmp_path / "home")
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    homes: dict[str, str] = {}
    for life in range(2):
        journal = Journal(open_disk(home, 2**30), JournalSettings())
        async with staged(settings, journal=journal) as stage:
            nodes = [stage.add_node(name) for name in ("a", "b", "c")]
            for node in nodes:
                node.on_open = saying(node, "yes")
            await until(joined(stage, 3), what="all joined")
            for number in range(6):
                name = f"c{number}"
                reply = await ask(stage.port, "POST", PATH, turn(f"turn {life}", name))
                found = reply.headers["x-roost-node"]
                if life:
                    assert found == homes[name]
                    assert reply.headers["x-roost-placement"] == "warm"
                    opened = next(n for n in nodes if n.opened and n.opened[-1].request).opened
                    assert opened
                homes[name] = found
            if life:
                longest = [texts(opened) for node in nodes for opened in node.opened]
                expected = ["user: turn 0", "assistant: yes", "user: turn 1"]
                assert longest == [expected] * 6


async def test_a_full_disk_ends_no_conversation_and_is_told(tmp_path: Path) -> None:
    """Turns that do not fit are remembered all the same, and a gauge says where they are."""
    small = open_disk(Home.open(tmp_path / "home"), 65_536)
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, journal=Journal(small, JournalSettings())) as stage:
        node = stage.add_node()
        node.on_open = saying(node, "yes")
        await stage.ready()
        for number in range(4):
            reply = await ask(stage.port, "POST", PATH, turn(f"{number} " + "x" * 40_000))
            assert events(reply)[-1]["reason"] == "stop"
        assert len(texts(node.opened[3])) == 7
        metrics = stage.gateway.metrics
        await until(lambda: metrics.value("roost_transcripts_degraded") == 1, what="it is told")
        assert metrics.value("roost_transcripts_lost_total") == 0


async def test_what_the_disk_does_not_take_is_told_and_not_remembered(tmp_path: Path) -> None:
    """Where memory is not to do: the text breaks off, and who says it again has said it once."""
    small = open_disk(Home.open(tmp_path / "home"), 65_536)
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    journal = Journal(small, JournalSettings(refused=True, retry_s=60.0))
    async with staged(settings, journal=journal) as stage:
        node = stage.add_node()
        node.on_open = saying(node, "yes")
        await stage.ready()
        first = await ask(stage.port, "POST", PATH, turn("a short turn"))
        assert events(first)[-1]["reason"] == "stop"
        for _ in range(2):
            refused = await ask(stage.port, "POST", PATH, turn("x" * 90_000))
            assert events(refused)[-1]["code"] == "storage_error"
            assert "token" in events(refused)[0]
        # What was said to the model is what is on disk, and this turn.
        assert len(texts(node.opened[2])) == 3
        assert stage.gateway.metrics.value("roost_transcripts_lost_total") == 2
