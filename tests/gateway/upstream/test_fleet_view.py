"""`/roost/v1/fleet` of a gateway in front of servers: readable by whoever reads a fleet's."""

from __future__ import annotations

import msgspec

from roost.cli.verbs.fleet import row
from roost.core.ids import NodeId
from roost.fleet.upstream.effects import PoolView, ServerView
from roost.fleet.upstream.pool import PoolSettings
from roost.fleet.watching.views import NodeView
from roost.gateway.upstream.fleet_view import UpstreamFleet, fleet_view
from tests.conftest import Eventually
from tests.gateway.upstream.conftest import PROBE_S, FakeServer, chat, fleet, get, hang

FLEET = "/roost/v1/fleet"


def test_health_is_told_in_the_states_of_a_link() -> None:
    """A server that was never asked is a suspect; the figures are those of the pool."""
    servers = (
        ServerView("a", "healthy", 2, 7),
        ServerView("b", "unhealthy", 1, 3),
        ServerView("c", "unknown", 0, 0),
        ServerView("d", "healthy", 0, 0, drained=True, stalled=True, models=("m",)),
    )
    view = fleet_view(PoolView(servers, queued=4, rejected=5, unavailable=6), 3)
    assert [(n.id, n.state, n.in_flight, n.max_in_flight) for n in view.nodes] == [
        ("a", "alive", 2, 3),
        ("b", "dead", 1, 3),
        ("c", "suspect", 0, 3),
        ("d", "stale", 0, 3),
    ]
    assert [(n.draining, [m.model for m in n.models]) for n in view.nodes[2:]] == [
        (False, []),
        (True, ["m"]),
    ]
    assert msgspec.to_builtins(view.statistics) == {
        "waiting": 4,
        "running": 3,
        "leases": 3,
        "in_flight": {"a": 2, "b": 1, "c": 0, "d": 0},
        "nodes": {"alive": 1, "dead": 1, "suspect": 1, "stale": 1},
        "served": 10,
        "rejected": 5,
        "unavailable": 6,
    }


async def test_the_fleet_is_served(eventually: Eventually) -> None:
    """Nodes have every field of a fleet's node, a running request shows, and HEAD has no body."""
    well, ill = FakeServer(hang), FakeServer(healthy=False)
    async with fleet(well, ill, pool=PoolSettings(max_in_flight=3, probe_s=PROBE_S)) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: world.in_flight == 1)
        reply = await world.ask(get(FLEET))
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        first, second = msgspec.json.decode(reply.body, type=UpstreamFleet).nodes
        assert first == NodeView(NodeId("s0"), "s0", "alive", 1, draining=False, max_in_flight=3)
        assert (second.id, second.state) == ("s1", "dead")
        raw = msgspec.json.decode(reply.body)
        assert raw["nodes"][0]["models"] == []
        assert row(raw["nodes"][0]) == "s0  s0  alive  1/3 in flight  "
        client = await world.client()
        await client.send(get(FLEET).replace(b"GET", b"HEAD"))
        head = await client.reply(to_head=True)
        assert (head.status, head.headers["content-length"]) == (200, str(len(reply.body)))
        assert (await client.ask(get(FLEET))).status == 200
        assert (await world.ask(chat(path=FLEET))).status == 405
        assert len(well.asked) == 1
