"""VALUE: every setting, in one table.

A row called `queue.length` is the flag `--queue-length`, the variable `ROOST_QUEUE_LENGTH`, the key
`length` under `[queue]` in roost.toml, the attribute `Settings.queue_length`, a line of
`roost config show` and a line of docs/settings.md.

This room imports no heavy library, msgspec included: what `--help` needs has to load at once.
"""

from __future__ import annotations

from roost.config.setting import DAY_S, Setting
from roost.config.setting import choice as _choice
from roost.config.setting import seconds as _seconds
from roost.config.setting import size as _bytes
from roost.config.setting import switch as _switch

_CACHE_TYPES = "f16 f32 bf16 q8_0 q5_1 q5_0 q4_1 q4_0"

_ROWS: tuple[Setting, ...] = (
    Setting("host", "127.0.0.1", "", "Address to listen on; beyond loopback a key is needed."),
    Setting("port", 7878, "", "Port to listen on; 0 takes a free one.", most=65_535),
    Setting("home", "", "", "Where models, keys and state live; empty is the user's data folder."),
    Setting("slots", 0, "slots", "Per runtime; 0 is 4, or 2 under 4 cores.", most=1024),
    Setting(
        *("max_in_flight", 0, "requests", "At once per model on a node; 0 is as many as slots."),
        aliases=("ROOST_MAX_INFLIGHT",),
    ),
    Setting("max_in_flight_decodes", 32, "requests", "At once over the whole fleet; 0 is no cap."),
    Setting(
        *("max_in_flight_decodes_per_node", -1, "requests"),
        "At once on a node; -1 is as many as its largest model has slots, but at least 4; 0: any.",
        least=-1,
        aliases=("ROOST_MAX_IN_FLIGHT_DECODES_PER_WORKER",),
        inherits="slots",
    ),
    Setting("max_runtimes", 0, "runtimes", "On a node at a time; 0 is no limit."),
    Setting(
        *("max_runtime_bytes", 0, "bytes", "What runtimes on a node take together; 0 is no limit."),
        most=2**53,
    ),
    Setting(
        *("transformers_model_cache_size", 1, "models"),
        "Of Transformers on a node at a time; 0 is one, while it is used.",
        most=8,
    ),
    Setting(
        *("onnx_genai_model_cache_size", 1, "models"),
        "Of ONNX GenAI on a node at a time; 0 is one, while it is used.",
        most=8,
    ),
    Setting("queue.length", 64, "requests", "How many may wait; 0 refuses at once.", most=100_000),
    _seconds("queue.wait_s", 60, "How long a request may wait before it is refused.", 0),
    Setting(
        "queue.class_one_in", 8, "requests", "Of which one is a waiting lower class's.", least=2
    ),
    Setting("ctx", 4096, "tokens", "Context per slot, at most the model's own, which 0 takes."),
    Setting("batch", 256, "tokens", "Prompt tokens per prefill step.", least=1, most=65_536),
    Setting(
        "threads",
        0,
        "threads",
        "Per runtime; 0 is the backend's choice, or a container's part.",
        most=4096,
    ),
    Setting(
        "threads_batch", 0, "threads", "Of llama.cpp in prefill; 0 is as in decode.", most=4096
    ),
    Setting(
        *("ubatch", 0, "tokens", "Computed by llama.cpp at once; 0 is a whole step."), most=65_536
    ),
    _choice("cache_type_k", _CACHE_TYPES, "How llama.cpp keeps keys."),
    _choice("cache_type_v", _CACHE_TYPES, "How llama.cpp keeps values; others need flash_attn."),
    _choice("flash_attn", "auto on off", "Flash attention of llama.cpp."),
    Setting("gpu_layers", -1, "layers", "Of llama.cpp on a GPU; -1 is its own choice.", least=-1),
    Setting("main_gpu", -1, "", "Which one llama.cpp prefers; -1 is its own choice.", least=-1),
    _choice("kv_offload", "on off", "Whether llama.cpp keeps KV where its layers are."),
    _choice(
        "mmap", "auto on off", "Whether llama.cpp maps weights; auto copies them where it helps."
    ),
    _choice("mlock", "off on", "Whether llama.cpp keeps a model's memory from being swapped out."),
    Setting(
        *("step_budget_ms", 300, "ms", "About the longest prefill step of llama.cpp; 0 is any."),
        most=60_000,
    ),
    Setting("projector", "", "", "A model's file for pictures (mmproj), for llama.cpp."),
    Setting("adapters", (), "", "LoRA files for llama.cpp: FILE.gguf, or FILE.gguf=0.5."),
    Setting("llama_args", (), "", "More arguments of a llama-server binary, behind all others."),
    _choice(
        *("device", "auto cpu cuda mps rocm dml openvino qnn webgpu"),
        "Where hosted libraries compute.",
    ),
    _choice(
        "dtype", "auto float32 bfloat16 float16", "In what they compute; auto is the model's own."
    ),
    _choice("mode", "auto generate embed", "What models are for; auto is what each was made for."),
    _choice("pooling", "auto mean cls last", "How llama.cpp makes one vector of a text's many."),
    Setting(
        "vector_sizes", (), "", "Of a model's vectors, its own first, then such it was cut to."
    ),
    Setting("model_options", (), "", "Of single models, by the names above: MODEL.ctx=8192."),
    Setting("default_model", "", "", "For requests that name none; empty is the only one served."),
    Setting("aliases", (), "", "Other names of models, as gpt-4o=MODEL."),
    Setting("backend", "auto", "", "Which backend runs models."),
    Setting("llama_server", "", "", "A llama-server binary to use in place of the built-in one."),
    _bytes("body_max_bytes", 16_777_216, "Largest request body."),
    _bytes("bodies_max_bytes", 268_435_456, "All request bodies held at once; at least one fits."),
    _bytes("body_offload_bytes", 1_048_576, "Bodies over this are parsed in another process."),
    _bytes("head_max_bytes", 16_384, "Largest request line and headers.", least=1024),
    _seconds("receipt.head_s", 10, "Until the headers must have arrived."),
    _seconds("receipt.body_s", 60, "Until the body must have arrived."),
    _seconds("receipt.idle_s", 75, "How long a connection may idle between two requests."),
    Setting("connections_max", 4096, "connections", "Open client connections.", least=1),
    _seconds("stream.commit_after_s", 8, "Until status and headers go out without an event."),
    _seconds("stream.keepalive_s", 10, "Between signs of life on a silent stream."),
    _seconds("stream.write_deadline_s", 30, "How long the oldest unsent byte may wait."),
    Setting("stream.buffer_events", 64, "events", "Held per stream for a slow client.", least=1),
    _choice("stream.on_full", "pause drop_oldest", "Then, at /coordinator/infer alone."),
    _bytes("stream.send_buffer_bytes", 65_536, "Send buffer of a client's socket.", least=4096),
    _seconds("link.ping_s", 1, "Between pings on a link."),
    _seconds("link.suspect_s", 2, "Silence after which a node gets no new work."),
    _seconds("link.stale_s", 5, "Silence after which a node is stale."),
    _seconds("link.dead_s", 15, "Silence after which a node is dead and its requests fail."),
    _bytes("link.message_max_bytes", 33_554_432, "Largest message on a link.", least=1024),
    Setting("retry.ratio", 0.1, "", "Retries as a share of requests in the window.", most=1),
    Setting("retry.floor", 3, "retries", "Always allowed in the window, whatever the share."),
    _seconds("retry.window_s", 10, "Over which retries are counted."),
    Setting("retry.attempts", 3, "attempts", "Per request, the first included.", least=1, most=10),
    Setting(
        "retry.quarantine_kills", 2, "runtimes", "Dead under a request: no more tries.", least=1
    ),
    Setting(
        *("retry.redispatch_per_node", 2, "requests", "After a death, computed anew at once."),
        least=1,
    ),
    Setting("replay.max_tokens", 4096, "tokens", "Longest answer that is gone on with elsewhere."),
    Setting("breaker.failures", 5, "failures", "In a row that close a node to a model.", least=1),
    Setting("breaker.ratio", 0.5, "", "Share of failures in the window that does so too.", most=1),
    Setting("breaker.window", 20, "requests", "Over which that share is taken.", least=1),
    _seconds("breaker.open_s", 5, "Until a closed-off node is tried again; doubled each time."),
    _seconds("breaker.open_max_s", 60, "Longest time until a closed-off node is tried again."),
    Setting("breaker.successes", 2, "requests", "In a row that give it back its work.", least=1),
    _seconds("idempotency.ttl_s", 86_400, "How long an ending is remembered under its key."),
    Setting("idempotency.entries", 10_000, "keys", "Remembered Idempotency-Keys.", least=1),
    _bytes("idempotency.answer_max_bytes", 1_048_576, "Largest answer kept to be given again."),
    _bytes("idempotency.answers_max_bytes", 67_108_864, "All such answers; the oldest go first."),
    _seconds("reattach.max_s", 60, "Most that a client may ask to be awaited when it is lost."),
    _bytes("reattach.log_bytes", 1_048_576, "Kept of each stream that can be attached to again."),
    Setting("reattach.entries", 128, "streams", "That can be attached to again.", least=1),
    Setting("placement.replicas", 1, "loads", "Of a model nobody runs, at a time; 0 is no limit."),
    Setting("placement.keep", (), "", "Models to have loaded unasked, as model=2."),
    Setting("affinity.entries", 100_000, "entries", "Remembered ends of conversations."),
    _seconds("affinity.ttl_s", 3600, "How long the end of a conversation is remembered."),
    Setting("receipts.entries", 10_000, "requests", "Whose receipts are kept.", least=1),
    _seconds("receipts.ttl_s", 86_400, "How long a receipt is kept."),
    Setting("telemetry.active", 128, "requests", "That run, and are shown at once.", least=1),
    Setting("telemetry.recent", 64, "requests", "That ended last, and are still shown.", least=1),
    Setting(
        *("scaling.target_share", 0.8, "", "Of slots that are to be in use, on average."),
        least=0.05,
        most=1,
    ),
    _seconds("scaling.calm_s", 300, "That fewer nodes would have done, until fewer are wanted."),
    Setting(
        "otel.endpoint", "", "", "Collector of traces, http://HOST:4318; empty: none are sent."
    ),
    Setting("otel.share", 1.0, "", "Of requests that are traced unless their caller says.", most=1),
    _seconds("runtime.start_timeout_s", 900, "Until a runtime must be ready, however it gets on."),
    _seconds("runtime.load_stall_s", 60, "Until a load that gets no further is called off."),
    _seconds("runtime.stop_grace_s", 10, "Between asking a runtime to stop and killing it."),
    _seconds("runtime.release_timeout_s", 30, "Until a cancelled slot must be free again."),
    _choice("runtime.evict", "idle never", "Which runtimes make room for another model."),
    _bytes(
        "runtime.memory_max_bytes", 0, "What a runtime may write to beside files; 0: all.", least=0
    ),
    _seconds("runtime.min_resident_s", 2, "Until a ready runtime may make room for another.", 0),
    Setting(
        *("runtime.keep_alive_s", -1.0, "s", "Until an idle runtime goes; -1 is never, 0 at once."),
        least=-1,
        most=DAY_S,
    ),
    Setting("runtime.keep_alive", (), "", "Times of single models, as model=600."),
    _seconds("runtime.turn_s", 10, "How long busy runtimes keep a model that needs room.", 0),
    _seconds("runtime.room_wait_s", 30, "How long a model waits for room before it is refused.", 0),
    _seconds("runtime.stall_s", 30, "Silence that is a hang, until its pace is known."),
    _seconds("runtime.stall_floor_s", 5, "Least silence that is a hang, however quick it is."),
    _seconds("runtime.count_keep_s", 60, "For more counts of a model that is not loaded.", 0),
    _bytes("runtime.log_max_bytes", 4_194_304, "Of a runtime's log; then another is begun.", 1024),
    Setting("runtime.logs_kept", 3, "files", "Full logs of a model that are kept.", most=1000),
    Setting("memory.soft_share", 0.75, "", "Of the memory gone: operators are told.", most=1),
    Setting("memory.hard_share", 0.85, "", "Then what is idle makes room, once.", most=1),
    Setting("memory.full_share", 0.95, "", "Most that may be taken; no load beyond.", most=1),
    Setting("embed.inputs_max", 2048, "inputs", "Of a request for vectors.", least=1, most=65_536),
    Setting("embed.tokens_max", 300_000, "tokens", "Of all of them together.", least=1),
    _choice("models.pulls", "allow refuse", "Whether operators may have a node fetch models."),
    _seconds("models.poll_s", 2, "Between looks for models that came or went."),
    _seconds("render.timeout_s", 2, "For rendering one chat template."),
    _bytes("render.output_max_bytes", 16_777_216, "Largest rendered prompt."),
    _bytes("sessions.ram_bytes", 2**30, "Idle conversations' KV in memory; 0 keeps none.", 0),
    _bytes("sessions.disk_bytes", 2**33, "Idle conversations' KV on disk; 0 keeps none.", 0),
    _choice(
        "sessions.persistence",
        "memory ephemeral disk auto",
        "What idle conversations outlive: a runtime (memory), the node (disk; auto: if it can).",
    ),
    _choice(
        "sessions.reuse",
        "prefer disabled required",
        "Whether what an earlier runtime has left is used; required: or its model is not.",
    ),
    _seconds("sessions.close_s", 30, "When a node ends, for copying them to disk.", 0),
    Setting("sessions.max", 1000, "sessions", "Idle conversations put aside.", least=1),
    Setting("sessions.tokens_min", 64, "tokens", "Fewer are not worth putting aside.", least=1),
    Setting(
        "sessions.shared_tokens_min",
        256,
        "tokens",
        "Shared beginnings worth one prefill.",
        least=16,
    ),
    _seconds("sessions.shared_wait_s", 60, "For another's prefill; 0 waits for none.", 0),
    _seconds("sessions.idle_s", 3600, "Until an idle conversation is forgotten."),
    _seconds("sessions.move_timeout_s", 10, "For putting one aside or bringing it back."),
    Setting("worker_api", "", "", "HOST:PORT for system 1's /worker routes; empty serves none."),
    Setting("worker.sessions_max", 100, "sessions", "Of the worker API at once.", least=1),
    _bytes("worker.session_kv_bytes", 2**29, "KV that one session of it may hold."),
    _bytes("worker.kv_bytes", 2**33, "KV that all its sessions may hold."),
    Setting("worker.context_tokens", 2048, "tokens", "Prompts of one session of it.", least=1),
    _bytes("worker.body_max_bytes", 2**20, "Largest turn it takes."),
    _seconds("worker.idle_s", 300, "Without use until a session of it ends."),
    _seconds("worker.lifetime_s", 86_400, "After which a session of it ends."),
    _seconds("worker.young_s", 10, "Since its last use until a session makes room.", 0),
    _seconds("worker.busy_wait_s", 5, "That a call waits for a busy session."),
    _seconds("worker.sweep_s", 60, "Between looks for sessions that are over."),
    Setting(
        *("worker.heartbeat", "", "", "A coordinator of system 1 to tell of the worker API."),
        aliases=("ROOST_COORDINATOR_URL",),
    ),
    Setting("worker.heartbeat_token", "", "", "Join token that it wants to see.", secret=True),
    Setting("worker.id", "", "", "Its name in heartbeats; empty is the node's id."),
    Setting("worker.url", "", "", "Where it is reached; empty is where it listens."),
    _seconds("worker.heartbeat_s", 10, "Between two heartbeats."),
    _seconds("worker.heartbeat_timeout_s", 5, "For one heartbeat."),
    _seconds("drain.grace_s", 30, "For requests to finish after TERM.", 0),
    Setting("allowed_hosts", (), "", "Host names to answer to, besides loopback names."),
    Setting(
        "cors.origins", (), "", "Of pages that may call, as https://HOST; * is all; none else."
    ),
    Setting("trusted_proxies", (), "", "Addresses whose forwarding headers are believed."),
    Setting("base_path", "", "", "Prefix of every address, as /llm, behind a proxy."),
    Setting("tls_cert", "", "", "Certificate file; with tls_key it turns TLS on."),
    Setting("tls_key", "", "", "Key file of the certificate."),
    Setting(
        *("keys", (), "", "API keys: NAME:KEY, or NAME:sha256:HEX; in the file also as tables."),
        secret=True,
    ),
    Setting(
        *("limits.answer_tokens", 1024, "tokens", "Reserved for an answer at most, under a limit."),
        least=1,
    ),
    _seconds("limits.save_s", 1, "Between saves of what keys have used."),
    Setting("limits.tenants_max", 100, "tenants", "With metrics of their own; others share one."),
    Setting(
        *("node_tokens", (), "", "Join tokens beside those of `roost token`, or sha256:HEX."),
        secret=True,
    ),
    _switch("insecure_http", "Serve beyond loopback without TLS."),
    _choice("log_level", "info debug warning error", "Least important event to log."),
    _choice("log_format", "auto json human", "For programs or people; auto asks the terminal."),
    _choice(
        "policy",
        "predicted least_inflight weighted round_robin random power_of_two prefix_affinity",
        "How a node is chosen.",
    ),
    _switch("strict", "Refuse unknown request fields in place of ignoring them."),
    _choice(
        *("context.policy", "reject trim", "For chats that are too long: refused, or trimmed."),
    ),
    Setting(
        *("session.keys", (), "", "ID:HEX, the first signs; empty is one kept in the home folder."),
        secret=True,
    ),
    _seconds("session.ttl_s", 86_400, "How long a session token counts."),
    Setting("conversations.max", 100_000, "conversations", "With a name, known at once.", least=1),
    Setting("conversations.turns_waiting", 8, "requests", "That may wait behind a turn."),
    _seconds("conversations.wait_s", 60, "How long a turn may wait for the one before."),
    _seconds("conversations.release_wait_s", 1, "Until the place of the turn before is free."),
    _seconds("conversations.idle_ttl_s", 300, "Without a turn until its place is let go."),
    _seconds("conversations.lifetime_s", 86_400, "After which a conversation's place ends."),
    Setting("handover.at_once", 2, "conversations", "Of drained nodes, moved at a time.", least=1),
    Setting("handover.tries", 3, "tries", "To move one, until it is left as it is.", least=1),
    _seconds("handover.wait_s", 60, "How long moving one may take."),
    _seconds("handover.retry_s", 5, "Until one that could not be moved is tried again."),
    Setting("handoff.each_max", 128, "prompts", "A tenant has computed ahead at once.", least=1),
    Setting("handoff.all_max", 1024, "prompts", "Everybody together has.", least=1),
    _seconds("handoff.ttl_s", 900, "Until a prompt that was computed ahead is forgotten."),
    _choice(
        "compaction.summariser", "extractive model off", "Who sums up pasts that are too long."
    ),
    Setting("compaction.budget_tokens", 2048, "tokens", "Most a past may take.", least=64),
    Setting("compaction.threshold", 0.8, "", "Share of it that is compacted.", least=0.1, most=1),
    Setting("compaction.tail_pairs", 2, "turns", "At its end that stay word for word.", most=64),
    Setting("compaction.summary_max_tokens", 384, "tokens", "Of a summary.", least=32),
    _seconds("compaction.summary_wait_s", 15, "For a model's summary; then it is extractive."),
    Setting(
        "compaction.kept_least", 0.6, "", "Share of names and numbers a model's keeps.", most=1
    ),
    _seconds("compaction.debounce_s", 30, "Between two of a conversation that are not urgent.", 0),
    _bytes("compaction.kv_max_bytes", 2**34, "Of named conversations; 0 is no limit.", 0),
    Setting("compaction.batch", 3, "conversations", "Compacted when they take more.", least=1),
    _choice("transcripts.keep", "disk memory off", "Where the words of named conversations go."),
    Setting("transcripts.retention_days", 7, "days", "From the last turn.", least=1, most=3650),
    _bytes("transcripts.disk_max_bytes", 1_073_741_824, "Most they take on disk.", 65_536),
    _bytes("transcripts.memory_max_bytes", 67_108_864, "Most kept in memory; oldest go first."),
    _seconds("transcripts.commit_wait_s", 5, "How long an answer's end waits for the disk."),
    _choice("transcripts.on_disk_failure", "memory refuse", "What then keeps a turn, or nothing."),
    _switch("coordinator.legacy_503", "Overload is 503 at /coordinator/infer, not 429."),
    _switch(
        "coordinator.omit_terminal", "Leave out the last event, which old clients do not know."
    ),
    Setting("coordinator.worker_nets", (), "", "Where system 1's workers may be; empty: nowhere."),
    Setting("coordinator.workers_max", 64, "workers", "Of system 1 at once.", least=1),
    _seconds("coordinator.heartbeat_late_s", 30, "How old a heartbeat may be by its own clock."),
    _seconds("coordinator.heartbeat_early_s", 5, "How far ahead of ours that clock may be.", 0),
    _seconds("coordinator.worker_stale_s", 30, "Without a heartbeat until it gets no new work."),
    _seconds("coordinator.worker_dead_s", 60, "Without one until its sessions are given up."),
    _seconds("coordinator.worker_cleanup_s", 60, "Between looks for dead workers to forget."),
    _seconds("coordinator.worker_resolve_s", 2, "Until a worker's name must be an address."),
    _seconds("coordinator.worker_connect_s", 2, "Until a connection to a worker must stand."),
    Setting("coordinator.worker_model", "", "", "Of workers that do not name theirs; empty: none."),
    Setting("coordinator.worker_slots", 4, "slots", "Of those that do not say.", 1, 1024),
    Setting("coordinator.worker_context_tokens", 2048, "tokens", "Likewise.", least=1),
    Setting("coordinator.worker_sessions_max", 100, "sessions", "Kept on one of them.", least=1),
    _seconds("coordinator.worker_session_idle_s", 300, "Without a turn until one is removed."),
    _seconds("coordinator.worker_prefill_s", 60, "For a worker to prefill a turn."),
    _seconds(
        "coordinator.worker_idle_s", 60, "Without a token until a worker's answer has failed."
    ),
    _seconds("coordinator.worker_call_s", 5, "For everything else that a worker is asked."),
    _seconds("coordinator.stats_s", 0.5, "Until a worker must have told its sessions."),
    Setting(
        *("upstream.max_in_flight", 2, "requests", "Per --upstream server; 0 is slots."),
        inherits="max_in_flight",
    ),
    Setting(
        *("upstream.queue_length", 0, "requests", "How many may wait in --upstream mode."),
        inherits="queue.length",
    ),
    Setting("upstream.urls", (), "", "Servers beside those of --upstream."),
    Setting(
        *("upstream.keys", (), "", "Keys of upstream.urls, in their order; - for none."),
        secret=True,
    ),
    Setting("upstream.probe_path", "", "", "Address to probe; empty tries the usual ones."),
    _seconds("upstream.probe_s", 2, "Between probes of a server, and until one must answer."),
    _seconds("upstream.models_s", 30, "Between looks at what a healthy server lists."),
    _seconds("upstream.stall_s", 30, "Silence of all its answers: others are taken first."),
    Setting("upstream.errors_max", 3, "answers", "Of status 500 in a row: not healthy.", least=1),
    _seconds("upstream.connect_s", 2, "Until a connection to a server must stand."),
    Setting("upstream.kept", 64, "connections", "Kept unused per server."),
    _seconds("upstream.kept_s", 4, "How long an unused connection to a server is kept."),
    _seconds("upstream.first_byte_s", 600, "Until the first byte of an answer must have come."),
    _seconds("upstream.idle_s", 120, "Silence on an answer after which the server has failed."),
    _switch("offline", "Fetch nothing from anywhere: models come from files of this machine."),
    Setting("hub.endpoint", "", "", "Where hf: models come from; empty is the public hub."),
    Setting("hub.token", "", "", "Sent to the hub alone, for models that need one.", secret=True),
    Setting(
        *(
            "token",
            "",
            "",
            "A join token, for `roost node`; as a flag, everybody here can read it.",
        ),
        secret=True,
    ),
    Setting("token_file", "", "", "A file that holds the join token and nothing else."),
    Setting("join", "", "", "The gateway's address, for `roost node`: https://HOST:PORT."),
    Setting("ca_file", "", "", "Vouches for a gateway's certificate, at nodes and verbs."),
    Setting("url", "", "", "For verbs that ask a gateway; empty is the one that runs here."),
    Setting("api_key", "", "", "For verbs that ask a gateway.", secret=True),
)
RELOADABLE = frozenset(
    {
        *("log_level", "log_format", "default_model", "aliases", "strict", "tls_cert", "tls_key"),
        *("queue.length", "queue.wait_s", "max_in_flight_decodes", "placement.keep"),
        *("receipt.head_s", "receipt.body_s", "receipt.idle_s", "head_max_bytes", "body_max_bytes"),
        *("bodies_max_bytes", "body_offload_bytes", "connections_max", "stream.commit_after_s"),
        *("stream.keepalive_s", "stream.write_deadline_s", "stream.on_full", "replay.max_tokens"),
        *("conversations.release_wait_s", "upstream.urls", "upstream.keys"),
        *("keys", "node_tokens", "cors.origins"),
        *("max_in_flight", "max_runtimes", "max_runtime_bytes", "step_budget_ms"),
        *("transformers_model_cache_size", "onnx_genai_model_cache_size", "embed.tokens_max"),
        *("runtime.evict", "runtime.min_resident_s", "runtime.keep_alive_s", "runtime.keep_alive"),
        *("runtime.turn_s", "runtime.room_wait_s", "runtime.load_stall_s", "runtime.stall_s"),
        *("runtime.stall_floor_s", "runtime.stop_grace_s", "runtime.count_keep_s"),
        *("memory.soft_share", "memory.hard_share", "memory.full_share", "sessions.max"),
        *("sessions.tokens_min", "sessions.shared_tokens_min", "sessions.shared_wait_s"),
        *("sessions.idle_s", "sessions.close_s", "sessions.move_timeout_s"),
    }
)
"""What HUP has a running process read again."""
TABLE = tuple(row._replace(reloadable=row.name in RELOADABLE) for row in _ROWS)
BY_NAME = {row.name: row for row in TABLE}
