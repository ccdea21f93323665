"""The fleet that is played: the same by a seed, alive, and in a gateway's own words."""

from __future__ import annotations

import random
from typing import cast

import msgspec
import pytest

from roost.cli.dashboard.demo import CATCH_UP_S, QUEUE_MAX, DemoFleet
from roost.cli.dashboard.feed import Feed, Row
from roost.cli.dashboard.source import feed_of
from roost.errors import RoostError
from roost.fleet.watching.happenings import SHOWN, Happening
from roost.fleet.watching.telemetry import RowView
from roost.fleet.watching.views import NodeView


def played(seconds: float, seed: int = 7) -> DemoFleet:
    """A fleet that has run for so long."""
    fleet = DemoFleet(random.Random(seed), 0.0, 0)
    for second in range(int(seconds) + 1):
        fleet.on_tick(float(second))
    return fleet


def look(fleet: DemoFleet) -> Feed:
    """Look at it as `roost top` does."""
    return feed_of(fleet.raw())


def live(fleet: DemoFleet, state: str) -> Row:
    """Give the first request in this state."""
    return next(row for row in look(fleet).observed.requests if row.state == state)


def test_one_seed_is_one_history() -> None:
    """And another one is another."""
    one, same, other = (msgspec.json.encode(played(40, seed).raw()) for seed in (7, 7, 8))
    assert one == same
    assert one != other


def test_it_speaks_as_a_gateway_does() -> None:
    """What it says is what a gateway's own structs say."""
    raw = played(90).raw()
    observed = cast("dict[str, object]", raw["observability"])
    rows = msgspec.convert(observed["requests"], list[RowView])
    assert {"done", "streaming"} <= {row.state for row in rows}
    events = msgspec.convert(observed["events"], list[Happening])
    assert {event.event for event in events} <= SHOWN
    nodes = msgspec.convert(cast("dict[str, object]", raw["fleet"])["nodes"], list[NodeView])
    assert len(nodes) == 3


def test_everything_that_can_be_shown_comes_about() -> None:
    """Somebody waits, a node leaves and comes back, a load, something odd; never a longer line."""
    fleet = DemoFleet(random.Random(7), 0.0, 0)
    seen: set[str] = set()
    for second in range(400):
        fleet.on_tick(float(second))
        feed = look(fleet)
        seen |= {row.state for row in feed.observed.requests}
        seen |= {event.event for event in feed.observed.events}
        seen |= {hint.kind for hint in feed.observed.anomalies}
        seen |= {one.state for node in feed.fleet.nodes for one in node.runtimes}
        # Those whose node was lost come back to a line that may be full.
        assert feed.observed.queue.length <= QUEUE_MAX + 8
        for node in feed.fleet.nodes:
            assert node.in_flight <= node.max_in_flight
    assert {"waiting", "prefill", "streaming", "done", "error", "cancelled"} <= seen
    assert {"node_left", "node_joined", "slow_decode", "loading", "ready"} <= seen


def test_what_is_long_past_is_not_made_up_for() -> None:
    """A terminal that was asleep for a day shows the fleet at once."""
    fleet = played(1)
    fleet.on_tick(86_400.0)
    assert look(fleet).observed.uptime_seconds == pytest.approx(86_400.0, abs=1)
    assert look(fleet).observed.totals.started < CATCH_UP_S * 5


def test_what_is_done_to_it_shows() -> None:
    """A request is stopped, a node drained and not, a model unloaded when nobody uses it."""
    fleet = played(20)
    request = live(fleet, "streaming").id
    fleet.on_action("DELETE", f"/roost/v1/requests/{request}", {})
    assert {row.id: row.state for row in look(fleet).observed.requests}[request] == "cancelled"
    with pytest.raises(RoostError, match="No request of this id"):
        fleet.on_action("DELETE", f"/roost/v1/requests/{request}", {})
    for verb, draining in (("drain", True), ("undrain", False)):
        fleet.on_action("POST", f"/roost/v1/nodes/laptop/{verb}", {})
        nodes = {node.id: node.draining for node in look(fleet).fleet.nodes}
        assert nodes["laptop"] is draining
    fleet.on_action("POST", "/roost/v1/nodes/garage-pc/drain", {})
    for second in range(21, 121):
        fleet.on_tick(float(second))
        feed = look(fleet)
        if feed.fleet.nodes[0].in_flight == 0 and feed.fleet.nodes[0].state == "alive":
            break
    fleet.on_action("POST", "/roost/v1/nodes/garage-pc/unload", {"model": "gemma3"})
    runtimes = {one.model: one.state for one in look(fleet).fleet.nodes[0].runtimes}
    assert runtimes["gemma3"] == "absent"


@pytest.mark.parametrize(
    ("path", "model", "words"),
    [
        ("/roost/v1/nodes/nobody/drain", "", "No node"),
        ("/roost/v1/nodes/garage-pc/unload", "nothing", "not loaded"),
        ("/roost/v1/nodes/garage-pc/unload", "gemma3", "in use"),
    ],
)
def test_what_cannot_be_done_is_refused(path: str, model: str, words: str) -> None:
    """In the words of a gateway."""
    fleet = played(20)
    with pytest.raises(RoostError, match=words):
        fleet.on_action("POST", path, {"model": model})
