"""VALUE: what system 1 called events and metrics, and where roost says the same.

The names on the left are those of its documents; a `*` stands for any end.
"""

from __future__ import annotations

import msgspec


class Twin(msgspec.Struct, frozen=True):
    """Our event or metric, and what in it tells this one from others; "" where the name does."""

    ours: str
    by: str = ""


EVENT_TWINS: dict[str, Twin] = {
    "scheduler.select": Twin("request_dispatched", "policy, score, candidates, runner_up"),
    "scheduler.reject": Twin("request_shed", "reason no_nodes, node_busy"),
    "admission.reject": Twin("request_shed", "reason"),
    "infer.early_reject": Twin("request_shed", "reason queue_full, before any prefill"),
    "infer.decode_capacity_reject": Twin("request_shed", "reason queue_full, queue_timeout"),
    "system.capacity": Twin("fleet_report", "slots, busy, wanted"),
    "stream.session_start": Twin("stream_begun"),
    "stream.session_end": Twin("request_done", "outcome, seconds, held_most, live"),
    "stream.slow_client": Twin("stream_slow_client"),
    "stream.buffer_high": Twin("stream_buffer_high"),
    "stream.buffer_overflow": Twin("stream_buffer_overflow"),
    "stream.sequence_gap": Twin("stream_sequence_gap"),
    "stream.write_timeout": Twin("stream_write_timeout"),
    "conversation.sweep_expired": Twin("conversation_gone", "why idle"),
    "compaction.success": Twin("compaction_success", "trigger, latency_ms"),
    "compaction.failure": Twin("compaction_failure", "trigger, outcome"),
    "drain.compact_failed": Twin("conversation_not_moved", "reason"),
    "worker.delete_session_failed": Twin("worker_session_not_removed"),
    "coordinator.metrics": Twin("fleet_report"),
    "session.start": Twin("worker_prefilled", "mode create; run_started on any node"),
    "session.continue": Twin("worker_prefilled", "mode continue"),
    "session.end": Twin("worker_decoded", "said, seconds, end; run_ended on any node"),
    "decode.first_token": Twin("run_first_text"),
    "decode.early_termination": Twin("run_ended", "end cancelled, phase decode"),
    "decode.session_not_found": Twin("worker_denied", "what decode, reason session_gone"),
    "decode.token_generation_failed": Twin("run_ended", "a warning, phase decode"),
    "prefill.capacity_exceeded": Twin("worker_denied", "what prefill, reason max_…, total_…"),
    "prefill.capacity_exceeded_race": Twin("worker_denied", "the same: it is decided once"),
    "prefill.prompt_too_long": Twin("worker_denied", "what prefill, reason prompt_too_long"),
    "prefill.model_prefill_failed": Twin("run_ended", "a warning, phase prefill"),
    "capacity.*": Twin("run_refused", "reason node_busy, out_of_memory"),
    "worker.metrics": Twin("runtime_report"),
}

METRIC_TWINS: dict[str, Twin] = {
    "scheduler.worker_alive.count": Twin("roost_nodes", "state alive"),
    "scheduler.worker_load.active_sessions": Twin("roost_worker_slots", "state busy"),
    "scheduler.worker_load.kv_bytes": Twin("roost_worker_kv_cache_bytes"),
    "scheduler.request.rejected.count": Twin("roost_shed_total", "reason"),
    "worker.prefill.latency_ms": Twin("roost_worker_prefill_latency_ms"),
    "worker.decode.tokens_per_second": Twin("roost_worker_decode_tokens_per_second"),
    "worker.kv_cache.bytes": Twin("roost_worker_kv_cache_bytes"),
    "worker.active_sessions": Twin("roost_worker_slots", "state busy"),
    "worker.decode.failures": Twin("roost_worker_decode_failures"),
    "coordinator.stream.buffer_fill_ratio": Twin("roost_stream_fullest_ratio"),
    "coordinator.client_write_latency_ms": Twin("roost_write_seconds"),
    "coordinator.sessions.active": Twin("roost_conversations", "state"),
    "coordinator.sessions.terminated": Twin("roost_conversations_gone_total", "why"),
}
