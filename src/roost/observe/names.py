"""VALUE: every metric and every log event of roost with its meaning; nothing else may be emitted.

Documentation is generated from these tables and a test holds the code against them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Shape = Literal["counter", "gauge", "histogram"]


class Metric(msgspec.Struct, frozen=True):
    """One metric: Prometheus name, shape, labels and meaning; histograms have bounds in seconds."""

    name: str
    shape: Shape
    labels: tuple[str, ...]
    meaning: str
    bounds: tuple[float, ...] = ()


_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

METRICS: tuple[Metric, ...] = (
    Metric("roost_requests_total", "counter", ("outcome", "dialect"), "Requests that have ended."),
    Metric("roost_ttft_seconds", "histogram", (), "Arrival to the first answer text.", _SLOW),
    Metric("roost_inter_token_seconds", "histogram", (), "Gap between answer events.", _FAST),
    Metric("roost_queue_seconds", "histogram", (), "Arrival to dispatch.", _SLOW),
    Metric("roost_in_flight", "gauge", ("node",), "Leases taken on a node."),
    Metric("roost_queued", "gauge", (), "Requests that wait in the gateway's queue."),
    Metric("roost_running", "gauge", (), "Requests that a node works on."),
    Metric("roost_tasks", "gauge", (), "Tasks of the gateway's event loop."),
    Metric("roost_nodes", "gauge", ("state",), "Nodes by the state of their link."),
    Metric("roost_serving_nodes", "gauge", (), "Nodes that take work."),
    Metric("roost_wanted_nodes", "gauge", (), "Nodes that what is asked for needs."),
    Metric("roost_model_slots", "gauge", ("model",), "Slots that a model has."),
    Metric(
        "roost_model_demand_slots",
        "gauge",
        ("model",),
        "Slots that what is asked of it would use, refused requests included.",
    ),
    Metric("roost_model_wanted_slots", "gauge", ("model",), "Slots that it should have."),
    Metric(
        "roost_model_unmet_requests",
        "gauge",
        ("model",),
        "Refused in the last minute for want of room.",
    ),
    Metric("roost_node_load_1m", "gauge", ("node",), "Load average of its machine."),
    Metric("roost_node_rss_bytes", "gauge", ("node",), "Memory of the node's own process."),
    Metric(
        "roost_tenant_live",
        "gauge",
        ("tenant", "state"),
        "A tenant's requests that wait and run; all without a key are `no_key`.",
    ),
    Metric("roost_shed_total", "counter", ("reason",), "Requests refused for want of capacity."),
    Metric(
        "roost_limited_total",
        "counter",
        ("tenant", "limit"),
        "Requests kept out by their key: requests, tokens, at_once, day, month, models.",
    ),
    Metric("roost_tenant_requests_total", "counter", ("tenant",), "Of a tenant, refused ones too."),
    Metric(
        "roost_tenant_tokens_total", "counter", ("tenant",), "Prompt and answer, as in the usage."
    ),
    Metric("roost_retries_total", "counter", ("reason",), "Attempts made again on another node."),
    Metric("roost_dispatched_total", "counter", (), "Attempts given to a node."),
    Metric("roost_warm_total", "counter", (), "Of these, to where its conversation was."),
    Metric("roost_bounced_total", "counter", (), "Attempts that a node refused for want of room."),
    Metric("roost_stopped_total", "counter", ("by",), "Requests stopped before their end."),
    Metric("roost_breakers_opened_total", "counter", (), "Times a node was closed to a model."),
    Metric("roost_replays_total", "counter", ("reason",), "Answers gone on with elsewhere."),
    Metric(
        "roost_cached_prompt_tokens_total", "counter", (), "Prompt tokens that needed no prefill."
    ),
    Metric(
        "roost_prefill_tokens_total", "counter", (), "Prompt tokens computed, without cached ones."
    ),
    Metric("roost_completion_tokens_total", "counter", (), "Tokens generated."),
    Metric(
        "roost_cancel_to_free_seconds",
        "histogram",
        ("phase", "backend"),
        "From a cancel to the runtime's word that the slot is free.",
        _SLOW,
    ),
    Metric("roost_runtime_load_seconds", "histogram", ("model",), "Duration of a load.", _SLOW),
    Metric(
        "roost_link_state",
        "gauge",
        ("node",),
        "State of a node's link: 3 alive, 2 suspect, 1 stale, 0 dead.",
    ),
    Metric(
        "roost_worker_prefill_latency_ms",
        "gauge",
        ("node", "model"),
        "From a slot to the first text, on average of the last 32.",
    ),
    Metric(
        "roost_worker_decode_tokens_per_second",
        "gauge",
        ("node", "model"),
        "Generated in the last 10 seconds, as its node counts.",
    ),
    Metric(
        "roost_worker_generated_tokens",
        "gauge",
        ("node", "model"),
        "Generated since its runtime was ready.",
    ),
    Metric(
        "roost_worker_decode_failures",
        "gauge",
        ("node", "model"),
        "Streams that its runtime failed since it was ready.",
    ),
    Metric(
        "roost_worker_prefill_tokens_per_second",
        "gauge",
        ("node", "model"),
        "Of the last prompt that its runtime computed.",
    ),
    Metric(
        "roost_worker_slots", "gauge", ("node", "model", "state"), "Its slots, busy and idle ones."
    ),
    Metric("roost_worker_waiting", "gauge", ("node", "model"), "Streams that wait for a slot."),
    Metric("roost_worker_kv_tokens", "gauge", ("node", "model"), "Tokens that its slots hold."),
    Metric(
        "roost_worker_kv_room_tokens", "gauge", ("node", "model"), "Tokens that they could hold."
    ),
    Metric("roost_worker_kv_cache_bytes", "gauge", ("node", "model"), "KV that its slots hold."),
    Metric("roost_worker_rss_bytes", "gauge", ("node", "model"), "Memory of its process."),
    Metric(
        "roost_worker_anomaly",
        "gauge",
        ("node", "model", "kind"),
        "1 while something is odd: slow_decode, slow_prefill, memory_growth.",
    ),
    Metric(
        "roost_fleet_anomaly",
        "gauge",
        ("model", "kind"),
        "1 while something is odd about the whole: uneven_picks, low_cache, kv_growth.",
    ),
    Metric(
        "roost_cache_misses_total",
        "counter",
        ("why",),
        "Turns whose past was computed again: diverged, evicted, moved, lost, unknown.",
    ),
    Metric(
        "roost_spans_total", "counter", ("outcome",), "Of traces: sent to the collector, or lost."
    ),
    Metric("roost_stream_held_messages", "gauge", (), "Wait in all streams for their clients."),
    Metric(
        "roost_stream_fullest_ratio", "gauge", (), "Of its buffer, in the stream that holds most."
    ),
    Metric("roost_sessions", "gauge", ("node", "place"), "Idle conversations put aside."),
    Metric("roost_session_bytes", "gauge", ("node", "place"), "Bytes of those."),
    Metric(
        "roost_session_moves",
        "gauge",
        ("node", "move"),
        "Conversations parked, restored, forgotten, and moves failed since the node's start.",
    ),
    Metric(
        "roost_session_moving_s",
        "gauge",
        ("node",),
        "Seconds that requests have waited for those moves since the node's start.",
    ),
    Metric(
        "roost_memory_bytes",
        "gauge",
        ("node", "device", "kind"),
        "A node's memory: capacity, available, managed by runtimes, reserved for loads.",
    ),
    Metric(
        "roost_memory_pressure",
        "gauge",
        ("node", "device"),
        "0 normal, 1 filling, 2 full, 3 takes no more.",
    ),
    Metric(
        "roost_memory_relief",
        "gauge",
        ("node", "outcome"),
        "Relief passes, conversations and runtimes that went, models refused, since its start.",
    ),
    Metric("roost_kv_reserved_bytes", "gauge", ("node",), "KV that requests there may fill."),
    Metric("roost_write_seconds", "histogram", (), "One write to a client's socket.", _FAST),
    Metric(
        "roost_session_tokens_total",
        "counter",
        ("outcome",),
        "Session tokens that came: accepted, or malformed, unknown_key, forged, expired.",
    ),
    Metric("roost_transcript_commit_seconds", "histogram", (), "Until a turn was on disk.", _FAST),
    Metric(
        "roost_transcripts_degraded", "gauge", (), "1 while turns are kept in memory for the disk."
    ),
    Metric("roost_transcripts_lost_total", "counter", (), "Turns or conversations not kept."),
    Metric(
        "roost_conversations",
        "gauge",
        ("state",),
        "Named conversations that are active or idle, and turns that wait in them.",
    ),
    Metric(
        "roost_conversations_gone_total", "counter", ("why",), "Conversations let go of, as idle."
    ),
    Metric(
        "roost_handovers_total",
        "counter",
        ("outcome",),
        "Conversations of drained nodes: moved, failed, or nothing_kept of them.",
    ),
    Metric(
        "roost_compactions_total",
        "counter",
        ("trigger", "outcome"),
        "Pasts made shorter, by whose summary: model, extractive, cut; or still_too_long.",
    ),
    Metric("roost_compaction_seconds", "histogram", (), "Until a past was shorter.", _SLOW),
    Metric("roost_compaction_dropped_tokens_total", "counter", (), "That models got no more."),
    Metric(
        "roost_reattach_total",
        "counter",
        ("result",),
        "Clients that came back to a stream: resumed, events_gone, or unknown by its id.",
    ),
    Metric("roost_upstream_healthy", "gauge", ("node",), "1 while an upstream is in the pool."),
    Metric("roost_upstream_stalled", "gauge", ("node",), "1 while all its answers stand still."),
)

EVENTS: dict[str, str] = {
    "connections_clamped": "The system allows fewer open files than connections_max needs.",
    "listening": "The listener is open; the address is in the line.",
    "stopping": "A signal asked for the end: TERM within the drain's grace, INT at once.",
    "reloaded": "HUP: the settings that have changed and count from now on.",
    "reload_needs_restart": "HUP: settings that have changed and count after a restart alone.",
    "reload_refused": "HUP found a setting that is wrong; what was in force stays.",
    "join_admitted": "Somebody has shown a valid join token, this one, and joins as a node.",
    "operated": "An operator has changed something on a node: by whom, what.",
    "node_joined": "A node's link is up and its first report has arrived.",
    "node_state": "A link state changed, a drain began, moved all or ended, or a breaker moved.",
    "node_left": "A node's link is gone.",
    "node_clash": "A node has joined with the identity of one that is joined; that one has to go.",
    "node_refused": "A node tried to join and was turned away.",
    "link_up": "This node has joined a gateway.",
    "link_down": "This node has lost a gateway and dials again.",
    "request_dispatched": "A request was given to a node; the policy and who came second too.",
    "stream_begun": "A node has a slot for a request, and begins to compute its prompt.",
    "request_retried": "An attempt failed before its first answer byte and is made again.",
    "request_cut": "A runtime or node died in mid-answer; another one is to go on with it.",
    "request_replayed": "A node has begun to go on with an answer that another one had begun.",
    "request_shed": "A request was refused for want of capacity.",
    "stream_slow_client": "A client has not taken a write for a second.",
    "stream_sequence_gap": "Numbers of a worker's answer do not follow each other; it has failed.",
    "stream_buffer_high": "More than 0.8 of a stream's buffer waits for its client.",
    "stream_buffer_overflow": "The oldest text gives way, as a client that does not read wants it.",
    "stream_write_timeout": "A client has not read for so long that it is cut off.",
    "request_repeated": "A request came again under its Idempotency-Key, and was not run.",
    "request_done": "A request has ended; outcome, node and counts are in the line.",
    "fields_ignored": "A request had fields that roost does not know; they were ignored.",
    "session_ignored": "A session token said nothing: malformed, of another key, forged, expired.",
    "transcript_lost": "A turn could not be kept: the disk failed or is too slow.",
    "conversation_gone": "A conversation's place has ended, idle or crowded out; its text stays.",
    "conversation_not_moved": "A conversation of a drained node stays there; `reason` says why.",
    "conversation_moved": "A conversation of a drained node was computed anew elsewhere.",
    "transcripts_degraded": "The disk takes no conversations, so memory does; or does again.",
    "compaction_success": "A past was made shorter: why, by whose summary, by how many tokens.",
    "compaction_failure": "A past could not be made short enough; nothing of it has changed.",
    "backend_chosen": "A model has got a backend; a warning where the preferred one cannot be.",
    "model_wanted": "A node was asked to load a model.",
    "order_sent": "An operator has a node load, unload, pin or unpin a model.",
    "usage_not_saved": "What keys have used is not on disk; it is tried again with what comes.",
    "memory_pressure": "A memory of the node has more, or less, left; a warning where it fills.",
    "runtime_loading": "A runtime is being started.",
    "runtime_ready": "A runtime is ready.",
    "runtime_failed": "A runtime could not be started, or not be ended.",
    "runtime_odd": "A runtime answers at another pace than it did, or grows; or does so no more.",
    "fleet_odd": "A node is passed over, pasts are computed again, one grows; or no more.",
    "fleet_report": "How the fleet does, every 20 s in which something is asked of it.",
    "runtime_gone": "A runtime has ended.",
    "runtime_report": "How a runtime does, every 20 s in which it does something.",
    "run_started": "A request has got a slot of this node, or its place in a batch.",
    "run_first_text": "A request has said its first text.",
    "run_ended": "A request has left its slot: why, after how much; a warning if by a fault.",
    "run_refused": "This node did not take a request up; the reason is what its gateway was told.",
    "heartbeat_heard": "A coordinator of system 1 has taken this worker's heartbeat.",
    "heartbeat_unheard": "A coordinator refused this worker's heartbeat, or is not there.",
    "heartbeat_refused": "A worker of system 1 was turned away; the reason is what it was told.",
    "worker_joined": "A worker of system 1 has sent a heartbeat, and is one of the fleet.",
    "worker_left": "A worker of system 1 has been silent for too long, or does not answer.",
    "worker_unreachable": "A worker of system 1 sends heartbeats, and nobody answers where it is.",
    "worker_prefilled": "A coordinator has put a turn into a session of the worker API.",
    "worker_decoded": "A session of the worker API has answered, or its client has left.",
    "worker_denied": "The worker API did not do what was asked; the reason is in system 1's words.",
    "worker_session_not_removed": "A worker of system 1 may still hold a session nobody wants.",
    "worker_session_gone": "A session of the worker API has ended, and its KV with it.",
    "session_not_moved": "A conversation could not be put aside, moved to disk or brought back.",
    "states_found": "What an earlier life of this node has left, and what of it was spoilt or old.",
    "states_unfit": "Some of that is of another model, build or setting, which `differs` names.",
    "states_changed": "An operator has had something done with states of conversations.",
    "states_not_kept": "Conversations cannot outlive this process; `reason` says why.",
    "pull_started": "An operator of a gateway has this node fetch a model.",
    "pull_done": "That model is installed.",
    "pull_failed": "It could not be fetched; `reason` is one of the catalogue.",
    "pull_defect": "A pull ended in a defect of roost.",
    "models_changed": "Models were pulled or removed; the node offers what is installed now.",
    "models_unreadable": "What is installed cannot be read; the node offers what it knew.",
    "upstream_forgotten": "An upstream that is off the list has ended what it had.",
    "upstream_health": "An upstream has become healthy or unhealthy.",
    "upstream_list": "The list of upstreams has been read anew.",
    "upstream_parked": "An operator drained an upstream, or ended that.",
    "upstream_report": "Counters of one upstream or of the fleet, every 20 s.",
    "upstream_stall": "All answers of an upstream stand still, or one moved again.",
    "websocket_note": "A library's complaint about a WebSocket; the peer broke off or misbehaved.",
    "internal_error": "A defect in roost; the request was answered with 500.",
}
