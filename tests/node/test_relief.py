"""Measured memory: what is reserved, who goes when it runs short, who is refused and why."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import DeviceView, MemoryReport, ModelOffer
from roost.errors import Failure
from roost.node.effects import Calibrate, Load, Pressed, Unload, Weigh
from roost.node.models.ledger import RoomSettings
from roost.node.models.pressure import Reading
from roost.node.relief import Weights
from roost.wire.messages import Refused
from tests.node.kit import FIRST, MODEL, OTHER, SETTINGS, Node, offer
from tests.node.test_orders import order, seen

MB = 1_000_000
CAPACITY = 1000 * MB
SECOND = RuntimeId("other#2")
ROOM = RoomSettings(min_resident_s=2.0, turn_s=10.0, wait_s=30.0)


def sized(model: ModelId, size_mb: int) -> ModelOffer:
    """A model of that size."""
    return msgspec.structs.replace(offer(model), size_bytes=size_mb * MB)


def made(first_mb: int = 300, second_mb: int = 300) -> Node:
    """A node with two models of these sizes."""
    settings = msgspec.structs.replace(SETTINGS, room=ROOM)
    return Node(settings, sized(MODEL, first_mb), sized(OTHER, second_mb))


def weigh(node: Node, room_mb: int | None, number: int = 99, **taken_mb: int) -> None:
    """The machine is measured: so much is left, and runtimes take so much (`m_1` is m#1)."""
    runtimes = {RuntimeId(name.replace("_", "#")): size * MB for name, size in taken_mb.items()}
    room = None if room_mb is None else room_mb * MB
    weights = Weights((Reading("host", CAPACITY, room),), runtimes, number)
    node.take(node.agent.on_weighed(weights, node.now))


def memory(node: Node) -> MemoryReport:
    """What the node reports."""
    report = node.agent.status().memory
    assert report is not None
    return report


def refusal(node: Node, stream: int) -> Failure:
    """Why a stream was refused."""
    return next(m.failure for m in node.said(stream) if isinstance(m, Refused))


def done(node: Node, kind: type) -> list[object]:
    """All effects of a kind so far."""
    return [effect for effect in node.all if isinstance(effect, kind)]


def test_without_a_measurement_nothing_is_refused_for_memory() -> None:
    """Nobody has looked, and then nobody knows; unknown figures are None."""
    node = made(10**9, 10**9)
    node.serve(1)
    node.serve(2, model=OTHER)
    assert node.agent.status().memory is None
    weigh(node, None)
    assert memory(node).devices[0] == DeviceView(
        "host", CAPACITY, None, 2 * 10**9 * MB, 0, "unknown"
    )


def test_a_load_is_reserved_before_any_measurement_shows_it() -> None:
    """Two that fit alone and not together: the second waits for the first one's place."""
    node = made()
    weigh(node, 500)
    node.open(1)
    assert node.agent.statistics().loads == 1
    assert memory(node).devices[0].reserved_bytes == 300 * MB
    assert Load(OTHER, SECOND) not in node.open(2, model=OTHER)
    node.loaded()
    assert memory(node).devices[0].managed_bytes == 300 * MB


def test_an_idle_runtime_makes_room_before_the_load() -> None:
    """First one pass and a measurement, then the idle one goes, then the other is loaded."""
    node = made()
    weigh(node, 500)
    node.serve(1)
    weigh(node, 200, m_1=300)
    node.tick(10.0)
    effects = node.open(2, model=OTHER)
    assert Weigh(1) in effects
    assert not done(node, Unload)
    weigh(node, 200, 1, m_1=300)
    assert done(node, Unload) == [Unload(FIRST)]
    assert node.agent.statistics().loads == 1
    node.gone()
    assert done(node, Load)[1:] == [Load(OTHER, SECOND)]
    assert memory(node).passes == 1


def test_a_measurement_from_before_the_pass_does_not_count() -> None:
    """Whoever is refused was measured after all that could go had gone."""
    node = made(300, 900)
    weigh(node, 500)
    node.open(1, model=OTHER)
    weigh(node, 500, 0)
    assert node.agent.statistics().refused == 0
    weigh(node, 500, 1)
    assert node.agent.statistics().refused == 1


def test_who_gets_no_memory_is_told_what_is_missing_and_what_to_change() -> None:
    """After one pass, not two; the setting and the figures are in the words."""
    node = made(300, 900)
    weigh(node, 500)
    job = order(node, "load", OTHER)
    node.open(1, model=OTHER)
    weigh(node, 500, 1)
    failure = refusal(node, 1)
    assert failure.reason == "node_busy"
    # 900 of the 450 that may be taken: 50 are left alone.
    assert "needs about 900000000 bytes" in failure.message
    assert "450000000 too few" in failure.message
    assert "`memory.full_share`" in failure.message
    assert seen(node, job).failure == failure
    assert (memory(node).passes, memory(node).refused) == (1, 1)
    assert node.agent.status().models[1].usable
    node.tick(60.0)
    assert len(done(node, Weigh)) == 1


def test_a_model_in_use_or_pinned_stays_however_short_memory_is() -> None:
    """The pass takes idle ones alone, the longest unused first, and no more than needed."""
    node = made(200, 200)
    node.serve(1)
    node.tick(5.0)
    node.run(2, model=OTHER)
    weigh(node, 140, m_1=200)
    assert done(node, Unload) == [Unload(FIRST)]
    assert memory(node).evicted == 1
    pinned = made(200, 200)
    pinned.serve(1)
    order(pinned, "pin")
    pinned.tick(5.0)
    weigh(pinned, 10, m_1=200)
    assert done(pinned, Unload) == []
    assert (memory(pinned).passes, memory(pinned).evicted) == (1, 0)


def test_one_pass_frees_what_is_needed_and_no_more() -> None:
    """Of two idle ones the longer unused goes, and the pass is not repeated while it is leaving."""
    node = made(200, 200)
    node.serve(1)
    node.serve(2, model=OTHER)
    node.tick(5.0)
    for _ in range(3):
        weigh(node, 140, m_1=200)
        node.tick(6.0)
    assert done(node, Unload) == [Unload(FIRST)]
    assert memory(node).passes == 1


def test_a_young_runtime_stays_at_first() -> None:
    """What has just been loaded is not thrown out again, or pressure would have models thrash."""
    node = made()
    node.serve(1)
    weigh(node, 100, m_1=300)
    assert done(node, Unload) == []


def test_levels_are_told_once() -> None:
    """Each change of level is told, with how much has gone, and the report has it."""
    node = made()
    for room_mb in (500, 240, 230, 100, 900):
        weigh(node, room_mb)
    told = [(e.pressure, round(e.share, 2)) for e in node.all if isinstance(e, Pressed)]
    assert told == [("soft", 0.76), ("hard", 0.9), ("normal", 0.1)]
    assert memory(node).devices[0].pressure == "normal"


def test_what_a_runtime_was_seen_to_take_counts_from_then_on() -> None:
    """For the ledger, for the report, for the next load; written down when it is news."""
    node = made(300, 500)
    weigh(node, 900)
    node.serve(1)
    weigh(node, 700, m_1=200)
    assert done(node, Calibrate) == [Calibrate(FIRST, 200 * MB)]
    weigh(node, 700, m_1=201)
    weigh(node, 700, m_1=150)
    assert len(done(node, Calibrate)) == 1
    weigh(node, 700, m_1=210)
    assert done(node, Calibrate)[1:] == [Calibrate(FIRST, 210 * MB)]
    assert node.agent.status().models[0].measured_bytes == 210 * MB
    assert memory(node).devices[0].managed_bytes == 210 * MB
    node.gone()
    node.open(2)
    assert memory(node).devices[0].reserved_bytes == 210 * MB


def test_a_measured_model_that_is_offered_anew_is_the_same_one() -> None:
    """Its runtime is not replaced for a figure; another model under its name has none of it."""
    node = made()
    node.serve(1)
    weigh(node, 700, m_1=200)
    node.take(node.agent.on_models([sized(MODEL, 300), sized(OTHER, 300)], node.now))
    assert done(node, Unload) == []
    assert node.agent.status().models[0].measured_bytes == 200 * MB
    node.take(node.agent.on_models([sized(MODEL, 301), sized(OTHER, 300)], node.now))
    assert done(node, Unload) == [Unload(FIRST)]
    assert node.agent.status().models[0].measured_bytes is None


@pytest.mark.parametrize("device", ["cuda", "host"])
def test_each_memory_is_its_own(device: str) -> None:
    """A full main memory keeps nothing out of an accelerator's, of which nobody has told."""
    other = msgspec.structs.replace(sized(OTHER, 300), device=device)
    node = Node(msgspec.structs.replace(SETTINGS, room=ROOM), sized(MODEL, 10), other)
    weigh(node, 10)
    node.open(1, model=OTHER)
    weigh(node, 10, 1)
    assert node.agent.statistics().loads == (1 if device == "cuda" else 0)
    assert len(memory(node).devices) == 1
