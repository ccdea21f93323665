"""The coordinator's caps, context filter and learned routing, one situation at a time."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import ModelOffer, RuntimeView
from roost.fleet.effects import Answer, Dispatch
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import MODEL, Fleet, dispatched, of, offer, reasons, running, status


def sized(fleet: Fleet, name: str, **lengths: int) -> list[Dispatch]:
    """Let a request of known lengths arrive."""
    terms = Terms(RequestId(name), TenantId("t"), **lengths)  # type: ignore[arg-type]
    return of(fleet.machine.on_request(terms, MODEL, fleet.now), Dispatch)


def test_fleet_wide_decodes_are_capped_at_admission() -> None:
    """The cap counts leases: a burst cannot slip through before the first decode begins."""
    fleet = Fleet(FleetSettings(max_decodes=3))
    fleet.join("a", "b", report=status(offer(slots=8)))
    assert sum(len(dispatched(fleet.ask(f"r{n}"))) for n in range(5)) == 3
    assert dispatched(fleet.finish("r0")) == [("r3", fleet.machine.fleet()[0].id)] or (
        fleet.machine.statistics().leases == 3
    )


def test_decodes_of_all_models_are_capped_per_node() -> None:
    """Two models share one machine, and its cap."""
    fleet = Fleet(FleetSettings(max_decodes_per_node=2))
    fleet.join("a", report=status(offer("m", 4), offer("n", 4)))
    assert dispatched(fleet.ask("r1", "m")) == [("r1", "a")]
    assert dispatched(fleet.ask("r2", "n")) == [("r2", "a")]
    assert dispatched(fleet.ask("r3", "m")) == []
    assert dispatched(fleet.finish("r2")) == [("r3", "a")]


def test_a_node_takes_as_many_as_its_largest_model_has_slots() -> None:
    """All of its slots are of use; beside them a small model has no less than it had."""
    fleet = Fleet(FleetSettings(max_decodes_per_node=4, decodes_by_slots=True))
    fleet.join("a", report=status(offer("m", 6), offer("n", 2)))
    for n in range(6):
        assert dispatched(fleet.ask(f"m{n}", "m")) == [(f"m{n}", "a")]
    assert dispatched(fleet.ask("n1", "n")) == []
    assert dispatched(fleet.finish("m0")) == [("n1", "a")]
    few = Fleet(FleetSettings(max_decodes_per_node=4, decodes_by_slots=True))
    few.join("a", report=status(offer("m", 2), offer("n", 2)))
    asked = [("1", "m"), ("2", "m"), ("3", "n"), ("4", "n")]
    assert [dispatched(few.ask(n, model)) for n, model in asked] == [[(n, "a")] for n, _ in asked]


def test_who_waits_for_a_load_takes_no_place_of_a_nodes_cap() -> None:
    """A load that holds on holds up no other model; ready, its requests count like all others."""
    fleet = Fleet(FleetSettings(max_decodes_per_node=2))
    offers = offer("m", 2), offer("n", 2)
    fleet.join("a", report=status(*offers))
    for n in (1, 2, 3):
        fleet.ask(f"m{n}", "m")
    assert dispatched(fleet.ask("n1", "n")) == []
    loading = RuntimeView(ModelId("m"), "s", "loading", RuntimeId("m#1"), waiting=2)
    assert dispatched(fleet.report("a", status(*offers, runtimes=(loading,)))) == [("n1", "a")]
    assert dispatched(fleet.ask("n2", "n")) == [("n2", "a")]
    ready = RuntimeView(ModelId("m"), "s", "ready", RuntimeId("m#1"))
    fleet.report("a", status(*offers, runtimes=(ready,)))
    assert dispatched(fleet.finish("n1")) == []
    assert dispatched(fleet.finish("m1")) == []
    assert dispatched(fleet.finish("m2")) == [("m3", "a")]


def test_small_contexts_are_skipped_and_all_too_small_is_the_callers_business() -> None:
    """Only what surely does not fit is turned away, with the reason that a dialect knows."""
    fleet = Fleet()
    fleet.join("a", report=status(ModelOffer(MODEL, 8, 1000, max_token_bytes=10)))
    fleet.join("b", report=status(ModelOffer(MODEL, 8, 4000, max_token_bytes=10)))
    sent = [sized(fleet, f"r{n}", prompt_tokens=1500)[0].node for n in range(6)]
    assert set(sent) == {"b"}
    assert sized(fleet, "guess", prompt_bytes=9000) != []
    terms = Terms(RequestId("long"), TenantId("t"), prompt_bytes=40_000)
    (answer,) = of(fleet.machine.on_request(terms, MODEL, fleet.now), Answer)
    assert answer.failure.reason == "context_length_exceeded"
    assert "4000 tokens" in answer.failure.message


def test_reserved_kv_counts_before_any_report() -> None:
    """A long answer's reservation weighs on its node at once."""
    fleet = Fleet(FleetSettings(policy="weighted"))
    fleet.join("a", "b", report=status(offer(slots=4), runtimes=(running("r"),)))
    first = sized(fleet, "long", prompt_tokens=100, max_tokens=4000)[0].node
    second = sized(fleet, "short", prompt_tokens=10, max_tokens=10)[0].node
    assert {first, second} == {"a", "b"}
    assert sized(fleet, "next", prompt_tokens=10, max_tokens=10)[0].node == second


def _serve(fleet: Fleet, name: str, prefill_s: float, decode_s: float) -> None:
    """Let a request be served with these times per token."""
    rid = RequestId(name)
    sent = sized(fleet, name, prompt_bytes=400, max_tokens=50)
    assert sent
    fleet.machine.on_started(rid, 1, Started(100, 0, 0), fleet.now)
    slow = 4.0 if sent[0].node == "slow" else 1.0
    fleet.now += 100 * prefill_s * slow
    fleet.hear("slow", "fast")
    fleet.machine.on_first_token(rid, 1, fleet.now)
    fleet.now += 50 * decode_s * slow
    fleet.hear("slow", "fast")
    fleet.machine.on_finished(rid, 1, Finished("length", Usage(100, 0, 51)), "yes", fleet.now)
    fleet.free(name)


def test_the_faster_node_is_found_and_its_time_foretold() -> None:
    """After three requests on each the slower one is left alone; the prediction comes true."""
    fleet = Fleet(FleetSettings(policy="predicted"), seed=3)
    view = RuntimeView(ModelId("m"), "s", "ready", RuntimeId("r"))
    fleet.join("slow", "fast", report=status(offer(slots=2), runtimes=(view,)))
    for n in range(24):
        _serve(fleet, f"t{n}", 0.001, 0.01)
    (found,) = sized(fleet, "r", prompt_bytes=400, max_tokens=51)
    assert (found.node, found.policy, found.runner_up) == ("fast", "predicted", NodeId("slow"))
    assert found.predicted_s == pytest.approx(0.61, rel=0.05)


def test_round_robin_goes_round() -> None:
    """Each node in turn, whatever it is doing."""
    fleet = Fleet(FleetSettings(policy="round_robin"))
    fleet.join("a", "b", "c", report=status(offer(slots=8)))
    order = [dispatched(fleet.ask(f"r{n}"))[0][1] for n in range(6)]
    assert set(order[:3]) == {"a", "b", "c"}
    assert order[:3] == order[3:]


def test_limits_that_change_count_at_once() -> None:
    """A raised cap lets in who waits, a shorter line refuses who comes; the rest was built upon."""
    fleet = Fleet(FleetSettings(max_decodes=1, queue_length=8))
    fleet.join("a", report=status(offer(slots=8)))
    assert dispatched(fleet.ask("r0")) == [("r0", "a")]
    for n in (1, 2, 3):
        assert dispatched(fleet.ask(f"r{n}")) == []
    wider = FleetSettings(max_decodes=3, queue_length=1, policy="random", class_one_in=2)
    assert len(dispatched(fleet.machine.on_settings(wider, fleet.now))) == 2
    assert fleet.machine.capped
    # One waits, as many as may now: whoever comes is one too many.
    assert reasons(fleet.ask("r4")) == [("r4", "queue_full")]
    none = FleetSettings(max_decodes=3, queue_length=0)
    assert reasons(fleet.machine.on_settings(none, fleet.now)) == [("r3", "queue_full")]


def test_reserved_kv_is_counted_in_bytes_of_each_model() -> None:
    """Tokens of every lease times what a token of its model takes; all is given back at the end."""
    fleet = Fleet()
    wide = msgspec.structs.replace(offer(slots=4), kv_token_bytes=1000)
    narrow = msgspec.structs.replace(offer("x", slots=4), kv_token_bytes=10)
    fleet.join("a", report=status(wide, narrow))

    def reserved() -> int | None:
        return fleet.machine.fleet()[0].kv_reserved_bytes

    assert reserved() == 0
    sized(fleet, "one", prompt_tokens=100, max_tokens=50)
    assert reserved() == 150 * 1000
    fleet.free("one")
    assert reserved() == 0


def test_reserved_kv_of_unknown_layers_is_unknown() -> None:
    """It is not 0, and a guess would be added to what others know."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=4)))
    assert fleet.machine.fleet()[0].kv_reserved_bytes == 0
    sized(fleet, "one", prompt_tokens=100, max_tokens=50)
    assert fleet.machine.fleet()[0].kv_reserved_bytes is None
