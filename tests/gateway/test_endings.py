"""Every ending of a request is told apart: in metrics, in the receipt and in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec
import pytest

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.errors import Failure
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Client, Stage, ask, staged
from tests.gateway.puppet import Puppet
from tests.gateway.test_fleet_gateway import STREAM, idle, opened_count

CHAT = "/v1/chat/completions"
Way: TypeAlias = Callable[["Running"], Awaitable[None]]


class Running(msgspec.Struct):
    """A stream in mid-answer."""

    stage: Stage
    client: Client
    node: Puppet

    @property
    def request(self) -> str:
        """Its id."""
        return self.node.opened[0].request_id

    def say(self, *events: Delta | Finished | Failed) -> None:
        """Let the node go on."""
        self.node.say(self.node.opened[0].stream, *events)


async def complete(run: Running) -> None:
    """The model comes to its end."""
    run.say(Finished("stop", Usage(9, 0, 2)))
    await run.client.rest()


async def client_disconnect(run: Running) -> None:
    """The client leaves."""
    run.client.close()


async def write_timeout(run: Running) -> None:
    """The client does not read."""
    run.client.stop_reading()
    run.say(*[Delta("x" * 200_000)] * 8)


async def node_error(run: Running) -> None:
    """The runtime dies."""
    run.say(Failed(Failure("runtime_died", "It died.")))
    assert b"runtime_died" in (await run.client.rest()).body


async def deadline(run: Running) -> None:
    """The client's own time passes; see the header below."""
    assert b'"deadline"' in (await run.client.rest()).body


async def cancelled(run: Running) -> None:
    """Somebody stops it by its id."""
    await ask(run.stage.port, "DELETE", f"/roost/v1/requests/{run.request}")
    assert b'"cancelled"' in (await run.client.rest()).body


WAYS: list[tuple[Way, str]] = [
    (complete, "complete"),
    (client_disconnect, "client_gone"),
    (write_timeout, "client_gone"),
    (node_error, "runtime_died"),
    (deadline, "deadline"),
    (cancelled, "cancelled"),
]


@pytest.mark.parametrize(("way", "outcome"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_endings_are_told_apart(
    way: Way, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One ending each, by one name everywhere; the receipt has the reason beside it."""
    name = way.__name__
    relay = msgspec.structs.replace(SETTINGS.generation.relay, write_deadline_s=0.3)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=relay)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        limit = "300" if way is deadline else "60000"
        client.send("POST", CHAT, STREAM, x_roost_timeout_ms=limit)
        await until(partial(opened_count, node, 1), what="it runs")
        node.say(node.opened[0].stream, Started(9, 0, 0), Delta("so far"))
        await client.head()
        run = Running(stage, client, node)
        await way(run)
        metric = partial(stage.gateway.metrics.value, "roost_requests_total")
        await until(lambda: metric(name, "openai") == 1, what="it is counted")
        node.release(node.opened[0].stream)
        await until(partial(idle, stage), what="everything is free")
        assert [other for other, _ in WAYS if metric(other.__name__, "openai")] == [way]
        receipt = (await ask(stage.port, "GET", f"/roost/v1/requests/{run.request}")).json()
        assert (receipt["ending"], receipt["outcome"]) == (name, outcome)
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
    told = [line["outcome"] for line in lines if line["event"] == "request_done"]
    assert told == [name]


async def test_a_complete_answer_that_nobody_read_is_no_complete_ending() -> None:
    """The node was done in time; the receipt tells that its client was not."""
    relay = msgspec.structs.replace(SETTINGS.generation.relay, write_deadline_s=0.3)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=relay)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, *["x" * 200_000] * 8)
        await stage.ready()
        client = await stage.client()
        client.stop_reading()
        client.send("POST", CHAT, STREAM)
        metric = stage.gateway.metrics.value
        await until(
            lambda: metric("roost_requests_total", "write_timeout", "openai") == 1,
            what="it is counted",
        )
        path = f"/roost/v1/requests/{node.opened[0].request_id}"
        receipt = (await ask(stage.port, "GET", path)).json()
        assert (receipt["ending"], receipt["outcome"]) == ("write_timeout", "complete")
