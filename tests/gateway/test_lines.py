"""Lines of the log say of which request and conversation they are; the fleet's own figures too."""

from __future__ import annotations

from functools import partial
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import TenantId
from roost.fleet.conversations.registry import ConversationSettings, conversation_key
from roost.fleet.settings import FleetSettings
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.entry.identity import Identity, IdentitySettings
from roost.gateway.reading.session_token import SessionKey
from roost.observe import logs
from roost.observe.metrics import Metrics
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.puppet import MODEL
from tests.gateway.test_fleet_gateway import idle
from tests.gateway.test_infer import PATH, RELAY, saying, turn

CHAT, PLAN = "/v1/chat/completions", "/roost/v1/scaling"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "a secret"}]}
Line = dict[str, object]


def lines_of(capsys: pytest.CaptureFixture[str], *events: str) -> list[Line]:
    """The lines of these events."""
    lines = [msgspec.json.decode(line, type=Line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if line["event"] in events]


async def test_every_line_of_a_turn_has_its_request_and_its_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One word for each conversation, in all its lines, and none that its client has used."""
    infer = InferSettings(relay=RELAY, conversations=ConversationSettings(most=1))
    settings = msgspec.structs.replace(SETTINGS, infer=infer)
    told = "request_dispatched", "stream_begun", "request_done", "conversation_gone"
    logs.configure("debug", "json")
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        node.on_open = saying(node, "ok")
        await stage.ready()
        for name in ("talk-one", "talk-one", "talk-two"):
            assert (await ask(stage.port, "POST", PATH, turn("hush", name))).status == 200
            await until(partial(idle, stage), what="its place is free")
            await until(lambda: stage.gateway.infer.conversations.counts().active == 0)
    lines = lines_of(capsys, *told)
    turns = [line for line in lines if line["event"] != "conversation_gone"]
    assert [line["event"] for line in turns] == [*told[:3]] * 3
    requests = [line["request"] for line in turns]
    assert len(set(requests)) == 3
    sessions = [line["session"] for line in turns]
    assert sessions[:6] == [sessions[0]] * 6
    assert sessions[6:] == [sessions[6]] * 3
    assert sessions[0] != sessions[6]
    (gone,) = [line for line in lines if line["event"] == "conversation_gone"]
    assert (gone["session"], gone["why"]) == (sessions[0], "crowded")
    assert all(line["node"] == "n1" for line in turns)
    assert (turns[0]["candidates"], turns[0]["placement"], turns[3]["placement"]) == (
        *(1, "cold", "warm"),
    )
    assert turns[2]["live"] == 0
    assert "talk-one" not in repr(lines)
    assert "hush" not in repr(lines)


async def test_what_is_refused_says_why_and_is_counted_as_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In its line, in the fleet's report, in metrics and under /roost/v1/scaling."""
    fleet = FleetSettings(queue_length=0)
    async with staged(msgspec.structs.replace(SETTINGS, fleet=fleet)) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        client = await stage.client()
        client.send("POST", CHAT, HELLO)
        await until(lambda: len(node.opened) == 1, what="it runs")
        assert (await ask(stage.port, "POST", CHAT, HELLO)).status == 429
        # A look that is not a second old is not made anew.
        mind = stage.gateway.mind
        await until(lambda: mind.scale.view(mind.now_s).models[0].running == 1, what="it is seen")
        scaling = msgspec.convert((await ask(stage.port, "GET", PLAN)).json(), Line)
        # Its mean over a minute begins with the gateway: how much was asked for is its own test's.
        wanted = cast("int", scaling["wanted_nodes"])
        assert (scaling["nodes"], scaling["advice"]) == (1, wanted - 1)
        (model,) = msgspec.convert(scaling["models"], list[Line])
        assert (model["model"], model["slots"], model["unmet"]) == (MODEL, 1, 1)
        assert (model["running"], model["waiting"]) == (1, 0)
        text = (await ask(stage.port, "GET", "/metrics")).body.decode()
        assert "roost_serving_nodes 1.0" in text
        assert "roost_wanted_nodes " in text
        assert f'roost_model_slots{{model="{MODEL}"}} 1.0' in text
        assert f'roost_model_unmet_requests{{model="{MODEL}"}} 1.0' in text
        node.answer(node.opened[0], "ok")
        assert (await client.reply()).status == 200
        await until(partial(idle, stage), what="its place is free")
    done = lines_of(capsys, "request_done")
    assert [(line["outcome"], line.get("reason")) for line in done] == [
        ("rejected", "queue_full"),
        ("complete", None),
    ]
    assert all(line["session"] == done[0]["session"] for line in done)


async def test_a_reader_that_is_cut_off_or_loses_text_is_told_of_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The write deadline and the first loss are lines of their own, with the request."""
    relay = msgspec.structs.replace(
        RELAY, buffer_events=8, on_full="drop_oldest", write_deadline_s=0.2
    )
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings(relay=relay))
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.stop_reading()
        client.send("POST", PATH, turn("q"))
        await until(lambda: bool(node.opened), what="it runs")
        stream = node.opened[0].stream
        node.say(stream, Started(5, 0, 0))
        for _ in range(100):
            node.say(stream, Delta("x" * 50_000))
        await until(lambda: bool(node.cancelled), what="it is given up")
        node.say(stream, Finished("stop", Usage(5, 0, 100)))
        node.release(stream)
        await until(partial(idle, stage), what="its place is free")
        request = node.opened[0].request_id
    said = lines_of(capsys, "stream_write_timeout", "request_done")
    assert [line["event"] for line in said] == ["stream_write_timeout", "request_done"]
    assert {line["request"] for line in said} == {request}
    assert said[1]["outcome"] == "write_timeout"


def test_a_label_is_of_no_use_without_the_secret_and_lasts_as_long_as_that() -> None:
    """The same with the same key, another with another, and never the conversation's own key."""
    key = conversation_key(TenantId("key:ann"), "talk")
    one, again, other = (
        Identity(IdentitySettings((SessionKey("k", secret * 32),)), Metrics(), logs.get())
        for secret in (b"a", b"a", b"b")
    )
    assert one.label(key) == again.label(key)
    assert one.label(key) != other.label(key)
    assert one.label(key) not in key.hex()
    without = [Identity(IdentitySettings(), Metrics(), logs.get()) for _ in range(2)]
    assert without[0].label(key) != without[1].label(key)
