"""A gateway finds by itself what is odd: in the feed, in metrics and in the log."""

from __future__ import annotations

from functools import partial
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_control import data
from tests.gateway.test_fleet_gateway import idle
from tests.gateway.test_operations import by_name, call


def answer(node: Puppet, cached: int, opened: Open) -> None:
    """Answer, and say that so many tokens of a thousand were there."""
    node.say(opened.stream, Started(1000, cached, 0), Delta("yes"))
    node.say(opened.stream, Finished("stop", Usage(1000, cached, 1)))
    node.release(opened.stream)


def stamped(minute: int) -> dict[str, object]:
    """A turn of a client that puts the time into its system prompt."""
    said = (("system", f"It is 12:{minute:02d}."), ("user", "a"), ("assistant", "b"), ("user", "c"))
    messages = [{"role": role, "content": content} for role, content in said]
    return {"model": MODEL, "messages": messages}


async def turns(stage: Stage, node: Puppet, cached: int, minutes: range) -> None:
    """Ask one turn after the other."""
    node.on_open = partial(answer, node, cached)
    for minute in minutes:
        reply = await call(stage, "ann", "POST", "/v1/chat/completions", stamped(minute))
        assert reply.status == 200
        await until(partial(idle, stage), what="its place is free")


async def test_a_client_whose_past_is_never_there_is_told_where_it_parts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Per request, as a habit with its reason, and in the log when it begins and ends."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node()
        await stage.ready()
        await turns(stage, node, 212, range(16))
        seen = data(await call(stage, "root", "GET", "/roost/v1/observability"))
        rows = cast("list[dict[str, object]]", seen["requests"])
        assert {row["cache_miss"] for row in rows} == {"diverged at token 212"}
        (hint,) = cast("list[dict[str, object]]", seen["anomalies"])
        assert (hint["kind"], hint["model"], hint["node"]) == ("low_cache", MODEL, None)
        assert str(hint["text"]).endswith("mostly: diverged at token 212")
        events = cast("list[dict[str, dict[str, object]]]", seen["events"])
        (odd,) = [one["facts"] for one in events if str(one["event"]) == "fleet_odd"]
        assert (odd["kind"], odd["begins"]) == ("low_cache", True)
        text = (await ask(stage.port, "GET", "/metrics", authorization="Bearer root")).body.decode()
        assert 'roost_cache_misses_total{why="diverged"} 16.0' in text
        assert f'roost_fleet_anomaly{{kind="low_cache",model="{MODEL}"}} 1.0' in text
        await turns(stage, node, 990, range(16, 33))
        later = data(await call(stage, "root", "GET", "/roost/v1/observability"))
        assert later["anomalies"] == []
        text = (await ask(stage.port, "GET", "/metrics", authorization="Bearer root")).body.decode()
        assert "roost_fleet_anomaly{" not in text
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["begins"] for one in lines if one["event"] == "fleet_odd"] == [True, False]
    done = [one for one in lines if one["event"] == "request_done"]
    assert [one.get("cache_miss") for one in done][:2] == ["diverged at token 212"] * 2
    assert "cache_miss" not in done[-1]
