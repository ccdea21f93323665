"""POST /coordinator/infer for readers that rather lose text than hold up the model."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.test_infer import PATH, RELAY, events, saying, texts, turn
from tests.gateway.test_lines import lines_of


async def test_a_slow_reader_may_have_the_oldest_dropped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With drop_oldest the stream goes on: `seq` has the gap, the last event counts it."""
    relay = msgspec.structs.replace(RELAY, buffer_events=8, on_full="drop_oldest")
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings(relay=relay))
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", PATH, turn("q"))
        await until(lambda: bool(node.opened), what="it runs")
        client.stop_reading()
        stream = node.opened[0].stream
        node.say(stream, Started(5, 0, 0))
        piece = "x" * 50_000
        for _ in range(200):
            node.say(stream, Delta(piece))
        node.say(stream, Finished("length", Usage(5, 0, 200)))
        node.release(stream)
        mind = stage.gateway.mind
        await until(lambda: not mind.coordinator.statistics().running, what="it is computed")
        client.read_again()
        reply = await client.reply()
        assert reply.clean
        *tokens, last = events(reply)
        seqs = [cast("int", token["seq"]) for token in tokens]
        dropped = cast("int", last["dropped"])
        assert dropped > 50
        assert len(seqs) + dropped == 200
        assert seqs == sorted(set(seqs))
        assert last["seq"] == 200
        assert last["reason"] == "length"
        request = reply.headers["x-roost-request-id"]
        (overflow,) = lines_of(capsys, "stream_buffer_overflow")
        assert overflow["request"] == request
        await until(lambda: not mind.turns, what="it is over")
        receipt = await ask(stage.port, "GET", f"/roost/v1/requests/{request}")
        assert (receipt.json()["outcome"], receipt.json()["dropped"]) == (
            "buffer_overflow",
            dropped,
        )
        assert mind.metrics.value("roost_requests_total", "buffer_overflow", "infer") == 1
        # What the client does not have is not part of the conversation either.
        node.on_open = saying(node, "ok")
        await ask(stage.port, "POST", PATH, turn("and?"))
        said = texts(node.opened[1])[1]
        assert len(said) == len("assistant: ") + len(piece) * len(seqs)
