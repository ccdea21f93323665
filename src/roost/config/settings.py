"""VALUE: the settings in force, an attribute for each row of the table."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """All of them, in the order of `table.TABLE`, which holds their meanings, units and bounds.

    Zeros that mean "work it out" are worked out: `slots` and `max_in_flight` are at least 1, and
    `home` is an absolute path.
    """

    host: str
    port: int
    home: str
    slots: int
    max_in_flight: int
    max_in_flight_decodes: int
    max_in_flight_decodes_per_node: int
    max_runtimes: int
    max_runtime_bytes: int
    transformers_model_cache_size: int
    onnx_genai_model_cache_size: int
    queue_length: int
    queue_wait_s: float
    queue_class_one_in: int
    ctx: int
    batch: int
    threads: int
    threads_batch: int
    ubatch: int
    cache_type_k: str
    cache_type_v: str
    flash_attn: str
    gpu_layers: int
    main_gpu: int
    kv_offload: str
    mmap: str
    mlock: str
    step_budget_ms: int
    projector: str
    adapters: tuple[str, ...]
    llama_args: tuple[str, ...]
    device: str
    dtype: str
    mode: str
    pooling: str
    vector_sizes: tuple[str, ...]
    model_options: tuple[str, ...]
    default_model: str
    aliases: tuple[str, ...]
    backend: str
    llama_server: str
    body_max_bytes: int
    bodies_max_bytes: int
    body_offload_bytes: int
    head_max_bytes: int
    receipt_head_s: float
    receipt_body_s: float
    receipt_idle_s: float
    connections_max: int
    stream_commit_after_s: float
    stream_keepalive_s: float
    stream_write_deadline_s: float
    stream_buffer_events: int
    stream_on_full: str
    stream_send_buffer_bytes: int
    link_ping_s: float
    link_suspect_s: float
    link_stale_s: float
    link_dead_s: float
    link_message_max_bytes: int
    retry_ratio: float
    retry_floor: int
    retry_window_s: float
    retry_attempts: int
    retry_quarantine_kills: int
    retry_redispatch_per_node: int
    replay_max_tokens: int
    breaker_failures: int
    breaker_ratio: float
    breaker_window: int
    breaker_open_s: float
    breaker_open_max_s: float
    breaker_successes: int
    idempotency_ttl_s: float
    idempotency_entries: int
    idempotency_answer_max_bytes: int
    idempotency_answers_max_bytes: int
    reattach_max_s: float
    reattach_log_bytes: int
    reattach_entries: int
    placement_replicas: int
    placement_keep: tuple[str, ...]
    affinity_entries: int
    affinity_ttl_s: float
    receipts_entries: int
    receipts_ttl_s: float
    telemetry_active: int
    telemetry_recent: int
    scaling_target_share: float
    scaling_calm_s: float
    otel_endpoint: str
    otel_share: float
    runtime_start_timeout_s: float
    runtime_load_stall_s: float
    runtime_stop_grace_s: float
    runtime_release_timeout_s: float
    runtime_evict: str
    runtime_memory_max_bytes: int
    runtime_min_resident_s: float
    runtime_keep_alive_s: float
    runtime_keep_alive: tuple[str, ...]
    runtime_turn_s: float
    runtime_room_wait_s: float
    runtime_stall_s: float
    runtime_stall_floor_s: float
    runtime_count_keep_s: float
    runtime_log_max_bytes: int
    runtime_logs_kept: int
    memory_soft_share: float
    memory_hard_share: float
    memory_full_share: float
    embed_inputs_max: int
    embed_tokens_max: int
    models_pulls: str
    models_poll_s: float
    render_timeout_s: float
    render_output_max_bytes: int
    sessions_ram_bytes: int
    sessions_disk_bytes: int
    sessions_persistence: str
    sessions_reuse: str
    sessions_close_s: float
    sessions_max: int
    sessions_tokens_min: int
    sessions_shared_tokens_min: int
    sessions_shared_wait_s: float
    sessions_idle_s: float
    sessions_move_timeout_s: float
    worker_api: str
    worker_sessions_max: int
    worker_session_kv_bytes: int
    worker_kv_bytes: int
    worker_context_tokens: int
    worker_body_max_bytes: int
    worker_idle_s: float
    worker_lifetime_s: float
    worker_young_s: float
    worker_busy_wait_s: float
    worker_sweep_s: float
    worker_heartbeat: str
    worker_heartbeat_token: str
    worker_id: str
    worker_url: str
    worker_heartbeat_s: float
    worker_heartbeat_timeout_s: float
    drain_grace_s: float
    allowed_hosts: tuple[str, ...]
    cors_origins: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    base_path: str
    tls_cert: str
    tls_key: str
    keys: tuple[str, ...]
    limits_answer_tokens: int
    limits_save_s: float
    limits_tenants_max: int
    node_tokens: tuple[str, ...]
    insecure_http: bool
    log_level: str
    log_format: str
    policy: str
    strict: bool
    context_policy: str
    session_keys: tuple[str, ...]
    session_ttl_s: float
    conversations_max: int
    conversations_turns_waiting: int
    conversations_wait_s: float
    conversations_release_wait_s: float
    conversations_idle_ttl_s: float
    conversations_lifetime_s: float
    handover_at_once: int
    handover_tries: int
    handover_wait_s: float
    handover_retry_s: float
    handoff_each_max: int
    handoff_all_max: int
    handoff_ttl_s: float
    compaction_summariser: str
    compaction_budget_tokens: int
    compaction_threshold: float
    compaction_tail_pairs: int
    compaction_summary_max_tokens: int
    compaction_summary_wait_s: float
    compaction_kept_least: float
    compaction_debounce_s: float
    compaction_kv_max_bytes: int
    compaction_batch: int
    transcripts_keep: str
    transcripts_retention_days: int
    transcripts_disk_max_bytes: int
    transcripts_memory_max_bytes: int
    transcripts_commit_wait_s: float
    transcripts_on_disk_failure: str
    coordinator_legacy_503: bool
    coordinator_omit_terminal: bool
    coordinator_worker_nets: tuple[str, ...]
    coordinator_workers_max: int
    coordinator_heartbeat_late_s: float
    coordinator_heartbeat_early_s: float
    coordinator_worker_stale_s: float
    coordinator_worker_dead_s: float
    coordinator_worker_cleanup_s: float
    coordinator_worker_resolve_s: float
    coordinator_worker_connect_s: float
    coordinator_worker_model: str
    coordinator_worker_slots: int
    coordinator_worker_context_tokens: int
    coordinator_worker_sessions_max: int
    coordinator_worker_session_idle_s: float
    coordinator_worker_prefill_s: float
    coordinator_worker_idle_s: float
    coordinator_worker_call_s: float
    coordinator_stats_s: float
    upstream_max_in_flight: int
    upstream_queue_length: int
    upstream_urls: tuple[str, ...]
    upstream_keys: tuple[str, ...]
    upstream_probe_path: str
    upstream_probe_s: float
    upstream_models_s: float
    upstream_stall_s: float
    upstream_errors_max: int
    upstream_connect_s: float
    upstream_kept: int
    upstream_kept_s: float
    upstream_first_byte_s: float
    upstream_idle_s: float
    offline: bool
    hub_endpoint: str
    hub_token: str
    token: str
    token_file: str
    join: str
    ca_file: str
    url: str
    api_key: str
