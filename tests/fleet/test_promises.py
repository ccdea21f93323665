"""Promises in six words, memory and runtimes, each from what a node has reported and no more."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.about import BackendAbout, NodeAbout, RuntimeAbout
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.machine import Device, Memory, Processor
from roost.core.model import Capabilities
from roost.core.request import Scope
from roost.core.snapshots import (
    DeviceView,
    MemoryReport,
    ModelOffer,
    RuntimeState,
    RuntimeView,
    SlotView,
)
from roost.fleet.watching.memory_views import PoolView, memory_of, pressure
from roost.fleet.watching.promises import GENERATION, STATES, NodePromises, promises_of
from roost.fleet.watching.runtime_views import backend_samples, runtime_lines
from roost.fleet.watching.views import NodeView

MODEL = ModelId("m")
LLAMA = BackendAbout(
    "llama", usable=True, claims=("chat", "completion", "state", "prefix_cache", "seed")
)
ABOUT = NodeAbout(
    Processor("cpu", 2, 2),
    Memory(1000, 400),
    backends=(LLAMA,),
    runtimes=(RuntimeAbout(RuntimeId("m#1"), 1, 70, None, 5.0, states=True),),
)
SLOTS = (SlotView(0, busy=True, tokens=3), SlotView(1, busy=False, tokens=4))


def node(**changes: object) -> NodeView:
    """A node of ours with one model that runs."""
    good = NodeView(
        id=NodeId("n"),
        name="n",
        state="alive",
        in_flight=0,
        draining=False,
        models=(ModelOffer(MODEL, 2, 64, size_bytes=100, backend="llama", kv_bytes=20),),
        runtimes=(RuntimeView(MODEL, "llama", "ready", RuntimeId("m#1"), SLOTS, 64, 1.5),),
        about=ABOUT,
        takes_wants=True,
        max_runtimes=1,
        reported=True,
    )
    return msgspec.structs.replace(good, **changes)


def offer(**changes: object) -> ModelOffer:
    """The model's offer with some changes."""
    return msgspec.structs.replace(node().models[0], **changes)


def of_model(shown: NodePromises) -> dict[str, tuple[str, str]]:
    """Give status and reason of the promises for the only model."""
    (model,) = shown.models
    return {one.id: (one.status, one.reason) for one in model.promises}


def of_node(shown: NodePromises) -> dict[str, str]:
    """Give the statuses of the promises of the node."""
    return {one.id: one.status for one in shown.promises}


def test_every_promise_is_judged_once_with_a_reason() -> None:
    """All ids of the protocol are there, and none says nothing."""
    shown = promises_of(node())
    ids = [one.id for one in (*shown.promises, *shown.models[0].promises)]
    assert len(ids) == len(set(ids))
    assert all(one.reason for one in (*shown.promises, *shown.models[0].promises))
    assert set(GENERATION) == {
        f"generation.{name}" for name in Capabilities.__struct_fields__ if name != "state"
    }
    assert {
        *("runtime.memory.telemetry.host", "runtime.memory.telemetry.accelerator"),
        *("runtime.memory.reservations", "runtime.model_residency", "runtime.placement"),
        *("runtime.state.prefix_cache", "runtime.state.persistence", "runtime.state.restore"),
        *("runtime.state.restore.cross_restart", "runtime.state.tier.disk"),
        *("runtime.state.tier.ram", "runtime.state.tier.vram", "runtime.pd.prefill"),
        *("runtime.pd.decode", "runtime.pd.handoff", "runtime.experts.residency"),
        "api.chat.omlx_options",
    } <= set(ids)


def test_what_a_backend_claims_is_supported_while_it_can_be_had() -> None:
    """A claim, a lack, and a model without a template."""
    found = of_model(promises_of(node()))
    assert found["generation.chat"] == ("supported", "llama does that")
    assert found["generation.vision"] == ("unsupported", "llama does not do that")
    bare = of_model(promises_of(node(models=(offer(has_chat=False),))))
    assert bare["generation.chat"] == ("unsupported", "the model has no chat template")
    assert bare["generation.completion"][0] == "supported"


def test_tools_are_promised_wherever_one_can_talk() -> None:
    """Calls are read from text, so that no backend has to claim them; other servers get none."""
    assert of_model(promises_of(node()))["generation.tools"][0] == "supported"
    bare = of_model(promises_of(node(models=(offer(has_chat=False),))))
    assert bare["generation.tools"] == ("unsupported", "the model has no chat template")
    remote = BackendAbout("llama", usable=True, claims=("chat", "streaming"), external=True)
    about = msgspec.structs.replace(ABOUT, backends=(remote,))
    told = of_model(promises_of(node(about=about)))["generation.tools"]
    assert told == ("unsupported", "tools are not passed on by llama")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": "suspect"}, "its node is suspect"),
        ({"draining": True}, "no new work"),
        ({"models": (offer(usable=False),)}, "last load failed"),
        ({"models": (offer(backend=""),)}, "no backend there runs the model"),
        ({"about": None}, "its node does not say"),
        ({"about": msgspec.structs.replace(ABOUT, backends=())}, "its node does not say"),
    ],
)
def test_what_cannot_be_had_now_is_unavailable(changes: dict[str, object], why: str) -> None:
    """Neither supported nor unsupported: it may be otherwise in a moment, or nobody knows."""
    status, reason = of_model(promises_of(node(**changes)))["generation.chat"]
    assert status == "unavailable"
    assert why in reason


@pytest.mark.parametrize(
    ("state", "states", "status"),
    [
        ("absent", None, "unavailable"),
        ("loading", None, "unavailable"),
        ("ready", None, "unavailable"),
        ("ready", False, "unavailable"),
        ("ready", True, "experimental"),
    ],
)
def test_states_are_promised_after_a_trial(
    state: RuntimeState, states: bool | None, status: str
) -> None:
    """Unavailable before the trial and after one that failed; experimental once it worked."""
    about = msgspec.structs.replace(
        ABOUT, runtimes=(RuntimeAbout(RuntimeId("m#1"), states=states),)
    )
    runtime = RuntimeView(MODEL, "llama", state, RuntimeId("m#1"))
    found = of_model(promises_of(node(about=about, runtimes=(runtime,))))
    assert {found[name][0] for name in STATES} == {status}
    assert found["runtime.state.prefix_cache"][0] == "supported"
    assert found["runtime.state.restore.cross_restart"][0] == "unavailable"
    assert found["runtime.state.tier.vram"] == ("unsupported", "its slots are in main memory")


def test_states_outlive_a_node_that_keeps_them_on_disk() -> None:
    """Elsewhere they end with it, however well they can be read back."""
    name = "runtime.state.restore.cross_restart"
    for kept, status in (("disk", "experimental"), ("memory", "unavailable")):
        about = msgspec.structs.replace(ABOUT, persistence=kept)
        assert of_model(promises_of(node(about=about)))[name][0] == status
    untried = msgspec.structs.replace(
        ABOUT, persistence="disk", runtimes=(RuntimeAbout(RuntimeId("m#1"), states=False),)
    )
    assert of_model(promises_of(node(about=untried)))[name][0] == "unavailable"


def test_a_backend_without_states_has_none_to_promise() -> None:
    """Then nothing is going to change that."""
    plain = BackendAbout("llama", usable=True, accelerator="cuda", claims=("chat",))
    found = of_model(promises_of(node(about=msgspec.structs.replace(ABOUT, backends=(plain,)))))
    assert {found[name][0] for name in (*STATES, "runtime.state.prefix_cache")} == {"unsupported"}
    assert found["runtime.state.tier.vram"][0] == "supported"


@pytest.mark.parametrize(
    ("kept", "status"), [(None, "supported"), (0, "unsupported"), (8, "supported")]
)
def test_a_backend_that_keeps_nothing_has_no_residency(kept: int | None, status: str) -> None:
    """From one model on it has."""
    one = msgspec.structs.replace(LLAMA, kept=kept)
    about = msgspec.structs.replace(ABOUT, backends=(one,))
    assert of_model(promises_of(node(about=about)))["runtime.model_residency"][0] == status


@pytest.mark.parametrize("serves", ["plain_turns", "turns"])
def test_a_worker_of_another_protocol_is_looked_after_elsewhere(serves: Scope) -> None:
    """Its model and its KV are its own, and what it does is known by its word alone."""
    foreign = node(models=(offer(serves=serves, backend="x"),), about=None, takes_wants=False)
    shown = promises_of(foreign)
    assert of_model(shown)["runtime.model_residency"][0] == "externally_managed"
    assert of_node(shown)["runtime.placement"] == "externally_managed"
    found = {name: status for name, (status, _) in of_model(shown).items()}
    assert found["generation.sessions"] == "metadata_only"
    assert found["generation.completion"] == "unsupported"
    assert found["runtime.state.restore"] == "externally_managed"


def test_a_server_that_is_asked_looks_after_itself() -> None:
    """It has its model and its KV, and what it reuses is known by its word."""
    remote = BackendAbout("llama", usable=True, claims=("chat", "streaming"), external=True)
    about = msgspec.structs.replace(ABOUT, backends=(remote,))
    found = {name: status for name, (status, _) in of_model(promises_of(node(about=about))).items()}
    assert found["runtime.model_residency"] == "externally_managed"
    assert {found[name] for name in STATES} == {"externally_managed"}
    assert found["runtime.state.tier.vram"] == "externally_managed"
    assert found["runtime.state.prefix_cache"] == "metadata_only"
    assert found["generation.chat"] == "supported"
    assert of_model(promises_of(node()))["runtime.model_residency"][0] == "supported"


def test_promises_of_a_whole_node() -> None:
    """By what its report has, and by what it lacks."""
    good = of_node(promises_of(node()))
    assert good["runtime.memory.telemetry.host"] == "supported"
    assert good["runtime.memory.telemetry.accelerator"] == "unavailable"
    assert good["runtime.memory.reservations"] == "supported"
    assert good["runtime.pd.handoff"] == good["runtime.pd.prefill"] == "supported"
    free = of_node(promises_of(node(max_runtimes=0)))
    assert free["runtime.memory.reservations"] == "unavailable"
    old = of_node(promises_of(node(about=None, takes_wants=False)))
    assert old["runtime.memory.telemetry.host"] == "unavailable"
    assert old["runtime.placement"] == "unavailable"
    listed = msgspec.structs.replace(ABOUT, devices=(Device("cuda", "GPU"),), memory=Memory(5))
    seen = of_node(promises_of(node(about=listed)))
    assert seen["runtime.memory.telemetry.accelerator"] == "metadata_only"
    assert seen["runtime.memory.telemetry.host"] == "unavailable"
    known = msgspec.structs.replace(ABOUT, devices=(Device("cuda", "GPU", 9, 5),))
    seen = of_node(promises_of(node(about=known)))
    assert seen["runtime.memory.telemetry.accelerator"] == "supported"


@pytest.mark.parametrize(
    ("available", "name"),
    [
        *((1000, "normal"), (2000, "normal"), (251, "normal"), (250, "soft"), (151, "soft")),
        *((150, "hard"), (51, "hard"), (50, "emergency"), (0, "emergency"), (None, "unknown")),
    ],
)
def test_pressure_has_its_thresholds(available: int | None, name: str) -> None:
    """75, 85 and 95 % gone; what is not known is no pressure and no calm either."""
    assert pressure(1000, available) == name
    assert pressure(None, available) == pressure(0, available) == "unknown"


def test_memory_adds_up_what_is_known() -> None:
    """What is ready is managed, what loads is reserved, in the memory where it lies."""
    shown = memory_of(node(), 5)
    assert shown.host == PoolView(1000, 400, 120, 0, "normal")
    assert shown.accelerator == PoolView()
    assert (shown.topology, shown.observed_at_unix_ms) == ("unknown", 5)
    assert (shown.counters.managed_allocations, shown.counters.active_reservations) == (1, 0)
    assert shown.counters.completed_evictions is None
    loading = RuntimeView(MODEL, "llama", "loading", RuntimeId("m#1"))
    assert memory_of(node(runtimes=(loading,)), None).host.reserved_bytes == 120
    unknown = memory_of(node(models=(offer(kv_bytes=None),)), None)
    assert unknown.host.managed_bytes is None
    assert memory_of(node(about=None), None).host == PoolView()


def test_what_a_node_has_measured_and_booked_counts() -> None:
    """Its own figures before those that are worked out, and what it did about pressure."""
    devices = (
        DeviceView("host", 900, 300, 130, 7, "soft"),
        DeviceView("cuda:0", managed_bytes=50, reserved_bytes=0),
    )
    about = msgspec.structs.replace(ABOUT, devices=(Device("cuda", "GPU", 100, 2),))
    shown = memory_of(node(memory=MemoryReport(devices, 3, 2, 1), about=about), None)
    assert shown.host == PoolView(900, 300, 130, 7, "soft")
    assert shown.accelerator == PoolView(100, 2, 50, 0, "emergency")
    assert (shown.counters.completed_demotions, shown.counters.completed_evictions) == (2, 1)
    assert shown.counters.telemetry_errors is None
    measured = node(memory=MemoryReport(devices), max_runtimes=0)
    assert of_node(promises_of(measured))["runtime.memory.reservations"] == "supported"


def test_accelerators_are_one_pool() -> None:
    """Their memory together; one that is not told makes the sum unknown."""
    cuda = msgspec.structs.replace(LLAMA, accelerator="cuda")
    two = (Device("cuda", "a", 100, 10), Device("cuda", "b", 100, 10))
    about = msgspec.structs.replace(ABOUT, backends=(cuda,), devices=two)
    shown = memory_of(node(about=about), None)
    assert shown.accelerator == PoolView(200, 20, 120, 0, "hard")
    assert (shown.host.managed_bytes, shown.topology) == (0, "discrete")
    assert shown.overall_pressure == "hard"
    odd = msgspec.structs.replace(about, devices=(two[0], Device("cuda", "b")))
    assert memory_of(node(about=odd), None).accelerator.capacity_bytes is None
    metal = (msgspec.structs.replace(LLAMA, accelerator="metal"),)
    apple = msgspec.structs.replace(ABOUT, backends=metal)
    assert memory_of(node(about=apple), None).topology == "unified"


def test_runtimes_have_their_own_figures() -> None:
    """KV by its slots and the bytes of a token; gauges have only what is known."""
    known = node(models=(offer(kv_token_bytes=8),))
    (line,) = runtime_lines([known])
    assert (line.kv_tokens, line.kv_bytes) == (7, 56)
    (sample,) = backend_samples([line])
    assert sample.gauges == {
        "kv_tokens": 7,
        "kv_bytes": 56,
        "load_seconds": 1.5,
        "waiting": 0,
        "slots": 2,
        "slots_busy": 1,
        "live": 1,
        "rss_bytes": 70,
        "decode_tokens_per_second": 5.0,
    }
    absent = node(runtimes=(RuntimeView(MODEL, "llama", "absent"),), about=None)
    (line,) = runtime_lines([absent])
    assert (line.figures, line.kv_tokens, line.kv_bytes) == (None, None, None)
    (sample,) = backend_samples([line])
    assert (sample.available, sample.gauges) == (False, {"waiting": 0})
