"""Every metric of the fleet's gateway is fed by what it is about; slow readers are told apart."""

from __future__ import annotations

import re

import msgspec
import pytest

from roost.core.events import Delta, Started
from roost.core.ids import RuntimeId
from roost.core.snapshots import DeviceView, MemoryReport
from roost.errors import Failure
from roost.fleet.streams.relay import RelaySettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status

HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
STREAM = {**HELLO, "stream": True}
PATH = "/v1/chat/completions"
_SAMPLE = re.compile(r"^(roost_\w+?)(?:_total)?(\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


async def scraped(stage: Stage) -> dict[str, float]:
    """Read /metrics: values by name and labels, as they stand there."""
    text = (await ask(stage.port, "GET", "/metrics")).body.decode()
    return {f"{name}{labels}": float(value) for name, labels, value in _SAMPLE.findall(text)}


async def dispatched(node: Puppet, count: int) -> None:
    """Wait until so many streams were opened."""
    await until(lambda: len(node.opened) == count, what=f"{count} opened")


async def test_every_metric_is_fed() -> None:
    """What is counted at each turn of a few requests' lives stands in /metrics under its name."""
    async with staged() as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        loaded = status(1)
        fresh = msgspec.structs.replace(loaded.runtimes[0], runtime=RuntimeId("r2"), load_s=1.5)
        node.report(msgspec.structs.replace(loaded, runtimes=(fresh,)))
        first, second, third, fourth = [await stage.client() for _ in range(4)]
        first.send("POST", PATH, STREAM)
        await dispatched(node, 1)
        for client in (second, third):
            client.send("POST", PATH, HELLO)
        await until(lambda: stage.gateway.mind.coordinator.statistics().waiting == 2)
        fourth.send("POST", PATH, HELLO)
        assert (await fourth.reply()).status == 429
        seen = await scraped(stage)
        assert (seen["roost_queued"], seen['roost_in_flight{node="n1"}']) == (2, 1)
        assert seen['roost_link_state{node="n1"}'] == 3
        assert seen["roost_tasks"] >= 1
        node.answer(node.opened[0], "a", "b", cached=4)
        await dispatched(node, 2)
        second.close()
        await until(lambda: bool(node.cancelled), what="it is cancelled")
        node.release(node.opened[1].stream, freed_s=0.02)
        await dispatched(node, 3)
        node.refuse(node.opened[2].stream, Failure("node_busy", "full", retry_after_s=1))
        await dispatched(node, 4)
        node.answer(node.opened[3], "c")
        assert (await third.reply()).status == 200
        await until(lambda: not stage.gateway.mind.turns)
        seen = await scraped(stage)
    assert seen['roost_requests{dialect="openai",outcome="complete"}'] == 2
    assert seen['roost_requests{dialect="openai",outcome="client_disconnect"}'] == 1
    assert seen['roost_shed{reason="queue_full"}'] == 1
    assert seen["roost_dispatched"] == 4
    assert seen["roost_bounced"] == 1
    assert seen['roost_stopped{by="client"}'] == 1
    assert (seen["roost_warm"], seen["roost_breakers_opened"]) == (3, 0)
    assert (seen["roost_cached_prompt_tokens"], seen["roost_prefill_tokens"]) == (4, 14)
    assert seen["roost_completion_tokens"] == 3
    assert seen["roost_ttft_seconds_count"] == 2
    assert seen["roost_inter_token_seconds_count"] == 1
    assert seen["roost_queue_seconds_count"] == 4
    assert seen["roost_write_seconds_count"] >= 3
    freed = 'roost_cancel_to_free_seconds_sum{backend="puppet",phase="done"}'
    assert seen[freed] == pytest.approx(0.02)
    assert seen[f'roost_runtime_load_seconds_sum{{model="{MODEL}"}}'] == 1.5
    assert (seen["roost_stream_held_messages"], seen["roost_stream_fullest_ratio"]) == (0, 0)


@pytest.mark.slow
async def test_a_slow_reader_is_told_before_its_deadline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After a second, and when its buffer is nearly full: once each, with figures meanwhile."""
    generation = msgspec.structs.replace(
        SETTINGS.generation, relay=RelaySettings(buffer_events=8, write_deadline_s=30)
    )
    link = msgspec.structs.replace(SETTINGS.link, credit=8)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation, link=link)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.stop_reading()
        client.send("POST", PATH, STREAM)
        await dispatched(node, 1)
        opened = node.opened[0]
        node.say(opened.stream, Started(5, 0, 0), Delta("x" * 1_000_000))
        for _ in range(7):
            node.say(opened.stream, Delta("x" * 100))
        said: list[dict[str, object]] = []

        def told() -> bool:
            lines = capsys.readouterr().err.splitlines()
            said.extend(line for text in lines if (line := msgspec.json.decode(text)))
            return {"stream_slow_client", "stream_buffer_high"} <= {str(e["event"]) for e in said}

        await until(told)
        seen = await scraped(stage)
        assert seen["roost_stream_held_messages"] == 7
        assert seen["roost_stream_fullest_ratio"] == 7 / 8
        client.resume_reading()
        node.answer(opened, "end")
        await until(lambda: not stage.gateway.mind.turns)
        assert (await scraped(stage))["roost_stream_fullest_ratio"] == 0
    strains = [str(e["event"]) for e in said if str(e["event"]).startswith("stream_")]
    assert sorted(strains) == ["stream_buffer_high", "stream_slow_client"]


async def test_the_memory_of_nodes_is_told_and_ends_with_them() -> None:
    """What is known has a series; what is not, or is not any more, has none and is never 0."""
    full = DeviceView("host", 1000, 100, 600, 50, "hard")
    report = MemoryReport((full, DeviceView("cuda")), passes=2, demoted=5, evicted=1, refused=3)
    async with staged() as stage:
        node = stage.add_node()
        node.report_with(msgspec.structs.replace(status(), memory=report))
        await stage.ready()
        seen = await scraped(stage)
        sizes = {"capacity": 1000, "available": 100, "managed": 600, "reserved": 50}
        for kind, size in sizes.items():
            assert seen[f'roost_memory_bytes{{device="host",kind="{kind}",node="n1"}}'] == size
        assert seen['roost_memory_pressure{device="host",node="n1"}'] == 2
        assert seen['roost_memory_relief{node="n1",outcome="evicted"}'] == 1
        assert seen['roost_kv_reserved_bytes{node="n1"}'] == 0
        assert not [name for name in seen if 'device="cuda"' in name]
        unknown = DeviceView("host", 1000, None, None, 50)
        node.report(msgspec.structs.replace(status(), memory=MemoryReport((unknown,))))
        fleet = stage.gateway.mind.coordinator.fleet
        await until(lambda: fleet()[0].memory == MemoryReport((unknown,)), what="it reports")
        seen = await scraped(stage)
        assert [name for name in seen if name.startswith("roost_memory_pressure")] == []
        assert len([name for name in seen if name.startswith("roost_memory_bytes")]) == 2
        node.report(status())
        await until(lambda: fleet()[0].memory is None, what="it knows of no memory any more")
        assert [name for name in await scraped(stage) if name.startswith("roost_memory")] == []
        node.report(msgspec.structs.replace(status(), memory=report))
        await until(lambda: fleet()[0].memory == report, what="it does again")
        assert 'roost_memory_pressure{device="host",node="n1"}' in await scraped(stage)
        node.leave()
        await until(lambda: fleet()[0].state == "dead", what="it has left")
        assert [name for name in await scraped(stage) if name.startswith("roost_memory")] == []
