"""Turns that are answered while their client does not read: nothing is begun for them any more."""

from __future__ import annotations

import msgspec

from roost.core.ids import RequestId, TenantId
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.front.access import Principal
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.heads import Head
from roost.gateway.routes import Call
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.front.test_bridge import Wire
from tests.gateway.test_infer import PATH, ran, texts, turn, waits

ID = RequestId("f" * 32)


def unread(wire: Wire) -> Call:
    """A turn of the same conversation on a connection that nobody reads."""
    head = Head("POST", PATH.encode(), "1.1", [(b"host", b"h")], {b"host": b"h"})
    exchange = Exchange(wire, head, ID)
    exchange.add_body(msgspec.json.encode(turn("never")))
    exchange.on_complete()
    wire.blocked = True
    return Call(exchange, TenantId("addr:127.0.0.1"), Principal())


async def test_a_turn_that_was_cancelled_unheard_never_runs() -> None:
    """It would end for its client and for nobody else: its place would be taken for ever."""
    relay = RelaySettings(commit_after_s=0.02, keepalive_s=0.02, sealed=True)
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings(relay=relay))
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node, wire = stage.add_node(), Wire()
        await stage.ready()
        client = await stage.client()
        client.send("POST", PATH, turn("first"))
        await until(ran(node, 1), what="the first turn runs")
        call, mind = unread(wire), stage.gateway.mind
        stage.gateway.infer.infer(call)
        await until(waits(stage, 1), what="the second waits")
        await until(lambda: bool(wire.written), what="a sign of life is stuck")
        gone = await ask(stage.port, "DELETE", f"/roost/v1/requests/{ID}")
        assert gone.status == 202
        node.answer(node.opened[0], "yes")
        await until(lambda: stage.gateway.infer.conversations.counts().waiting == 0, what="turned")
        wire.blocked = False
        call.exchange.on_writable()
        assert wire.broken
        await until(lambda: not mind.turns, what="everybody has heard")
        numbers = mind.coordinator.statistics()
        assert (numbers.running, numbers.waiting, numbers.leases) == (0, 0, 0)
        assert [texts(opened) for opened in node.opened] == [["user: first"]]
