"""Every event and metric of system 1 has one of ours that says the same."""

from __future__ import annotations

from roost.observe.names import EVENTS, METRICS
from tests.system1_names import EVENT_TWINS, METRIC_TWINS

EVENTS_OF_SYSTEM_1 = """
    scheduler.select scheduler.reject admission.reject infer.early_reject
    infer.decode_capacity_reject system.capacity stream.session_start stream.session_end
    stream.slow_client stream.buffer_high stream.buffer_overflow stream.sequence_gap
    stream.write_timeout conversation.sweep_expired compaction.success compaction.failure
    drain.compact_failed worker.delete_session_failed coordinator.metrics session.start
    session.continue session.end decode.first_token decode.early_termination
    decode.session_not_found decode.token_generation_failed prefill.capacity_exceeded
    prefill.capacity_exceeded_race prefill.prompt_too_long prefill.model_prefill_failed
    capacity.* worker.metrics
"""
METRICS_OF_SYSTEM_1 = """
    scheduler.worker_alive.count scheduler.worker_load.active_sessions
    scheduler.worker_load.kv_bytes scheduler.request.rejected.count worker.prefill.latency_ms
    worker.decode.tokens_per_second worker.kv_cache.bytes worker.active_sessions
    worker.decode.failures coordinator.stream.buffer_fill_ratio
    coordinator.client_write_latency_ms coordinator.sessions.active
    coordinator.sessions.terminated
"""


def test_every_event_of_system_1_is_said_by_one_of_ours() -> None:
    """None is missing, and what stands beside it is in the list that code is held against."""
    assert EVENT_TWINS.keys() == set(EVENTS_OF_SYSTEM_1.split())
    assert {twin.ours for twin in EVENT_TWINS.values()} <= EVENTS.keys()


def test_every_metric_of_system_1_is_one_of_ours() -> None:
    """With the labels by which it is told apart."""
    ours = {metric.name: metric for metric in METRICS}
    assert METRIC_TWINS.keys() == set(METRICS_OF_SYSTEM_1.split())
    for twin in METRIC_TWINS.values():
        label = twin.by.partition(" ")[0]
        assert not label or label in ours[twin.ours].labels
