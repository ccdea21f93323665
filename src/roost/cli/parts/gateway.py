"""WIRING: from settings to the parts of a gateway, and whether it may listen at all."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from roost.cli.parts.aliases import read_aliases
from roost.cli.parts.conversations import (
    archive_settings,
    handoff_settings,
    handover_settings,
    infer_settings,
)
from roost.cli.parts.guests import guest_settings
from roost.core.hosts import is_loopback
from roost.core.trace import TracingSettings
from roost.errors import fail
from roost.fleet.line.allowances import AllowanceSettings
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.idempotency import IdempotencySettings
from roost.fleet.streams.relay import RelaySettings
from roost.fleet.streams.stream_log import ReattachSettings
from roost.fleet.watching.scaling import ScalingSettings
from roost.fleet.watching.telemetry import TelemetrySettings
from roost.gateway.assemble import GatewaySettings
from roost.gateway.entry.identity import IdentitySettings
from roost.gateway.front.access import origins, trusted
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.generation import GenerationSettings
from roost.gateway.node_link import GatewayLinkSettings
from roost.gateway.routes import Places
from roost.gateway.turns.limiter import LimiterSettings
from roost.wire.heartbeat import LinkSettings

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.core.fence import Life
    from roost.fleet.settings import Policy
    from roost.gateway.upstream.gateway import UpstreamSettings
    from roost.gateway.upstream.targets import Target

LISTENER_SETTINGS = (
    "host",
    "port",
    "connections_max",
    "head_max_bytes",
    "body_max_bytes",
    "bodies_max_bytes",
    "body_offload_bytes",
    "receipt.",
    "allowed_hosts",
    "cors.",
    "trusted_proxies",
    "base_path",
    "tls_cert",
    "tls_key",
    "insecure_http",
    "keys",
    "drain.",
    "log_level",
    "log_format",
)
GATEWAY_SETTINGS = (
    *LISTENER_SETTINGS,
    "queue.",
    "default_model",
    "node_tokens",
    "limits.",
    "aliases",
    "stream.",
    "link.",
    "retry.",
    "replay.",
    "idempotency.",
    "reattach.",
    "placement.",
    "affinity.",
    "session.",
    "receipts.",
    "scaling.",
    "telemetry.",
    "otel.",
    "conversations.",
    "handover.",
    "handoff.",
    "compaction.",
    "transcripts.",
    "coordinator.",
    "breaker.",
    "max_in_flight_decodes",
    "max_in_flight_decodes_per_node",
    "policy",
    "strict",
    "context.",
    "embed.inputs_max",
)
UPSTREAM_SETTINGS = (
    *(name for name in LISTENER_SETTINGS if name != "body_offload_bytes"),
    "queue.wait_s",
    "limits.tenants_max",
    "aliases",
    "stream.commit_after_s",
    "stream.write_deadline_s",
    "stream.send_buffer_bytes",
    "retry.attempts",
    "retry.ratio",
    "retry.floor",
    "retry.window_s",
    "upstream.",
)
"""What a gateway in front of other servers reads; what stands for one of these counts as well."""
KEPT_MAX = 1000


def check_exposure(settings: Settings, *, keys_exist: bool, flag: str = "") -> None:
    """Refuse to listen beyond loopback without a key, and say out loud where it is without TLS.

    `flag` is what says where to listen, with its value, if that is not `--host`.
    """
    if is_loopback(settings.host):
        return
    if not keys_exist:
        message = (
            f"{flag or f'--host {settings.host}'} can be reached from other machines, so a key is "
            "needed: make one with `roost keys add NAME`."
        )
        raise fail("bad_request", message)
    if settings.insecure_http and not settings.tls_cert:
        print(
            f"roost: serving http://{settings.host}:{settings.port} WITHOUT TLS, as asked for by "
            "--insecure-http; keys and prompts can be read on the way",
            file=sys.stderr,
        )


@contextmanager
def said_where(settings: Settings, flag: str = "") -> Iterator[None]:
    """Turn what keeps a listener from opening into a sentence with the flags to change."""
    try:
        yield
    except ssl.SSLError:
        message = "--tls-cert and --tls-key: these files are no certificate and its key in PEM."
        raise fail("bad_request", message) from None
    except FileNotFoundError:
        message = "--tls-cert or --tls-key names a file that does not exist."
        raise fail("bad_request", message) from None
    except UnicodeError:
        where = flag or f"--host {settings.host}"
        raise fail("bad_request", f"{where}: this is no name of a machine.") from None
    except OSError as error:
        where = flag or f"--host {settings.host} --port {settings.port}"
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise fail(
            "storage_error", f"{where}: cannot listen there ({why}){_instead(error, flag)}"
        ) from None


def _instead(error: OSError, flag: str) -> str:
    if error.errno != errno.EADDRINUSE:
        return "."
    other = f"give {flag.partition(' ')[0]} another port" if flag else "choose another --port"
    return f": end what has that port, or {other}."


def listener(settings: Settings) -> Listener:
    """Return where to listen."""
    return Listener(
        host=settings.host,
        port=settings.port,
        tls_cert=settings.tls_cert or None,
        tls_key=settings.tls_key or None,
    )


def limits(settings: Settings) -> FrontLimits:
    """Return what a client connection may cost."""
    return FrontLimits(
        head_s=settings.receipt_head_s,
        body_s=settings.receipt_body_s,
        idle_s=settings.receipt_idle_s,
        # The relay owns the write deadline of a turn. This is the net for everything else, so wide
        # that the relay always decides first, and its outcome is the one that is counted.
        write_s=2 * settings.stream_write_deadline_s,
        head_max_bytes=settings.head_max_bytes,
        body_max_bytes=settings.body_max_bytes,
        bodies_max_bytes=max(settings.bodies_max_bytes, settings.body_max_bytes),
        connections_max=settings.connections_max,
        send_buffer_bytes=settings.stream_send_buffer_bytes,
        websocket_message_bytes=settings.link_message_max_bytes,
    )


DECODES_LEAST = 4
"""On a node at once where nobody has said how many, and no more slots are known."""


def fleet_settings(settings: Settings) -> FleetSettings:
    """Return the coordinator's limits."""
    decodes = settings.max_in_flight_decodes_per_node
    by_slots = decodes < 0
    return FleetSettings(
        # The table's choices are the policies; `load` has checked the value against them.
        policy=cast("Policy", settings.policy),
        queue_length=settings.queue_length,
        queue_wait_s=settings.queue_wait_s,
        class_one_in=settings.queue_class_one_in,
        link_suspect_s=settings.link_suspect_s,
        link_stale_s=settings.link_stale_s,
        link_dead_s=settings.link_dead_s,
        retry_ratio=settings.retry_ratio,
        retry_floor=settings.retry_floor,
        retry_window_s=settings.retry_window_s,
        retry_attempts=settings.retry_attempts,
        quarantine_kills=settings.retry_quarantine_kills,
        redispatch_per_node=settings.retry_redispatch_per_node,
        receipts_entries=settings.receipts_entries,
        receipts_ttl_s=settings.receipts_ttl_s,
        replicas=settings.placement_replicas,
        keep=kept(settings.placement_keep),
        affinity_entries=settings.affinity_entries,
        affinity_ttl_s=settings.affinity_ttl_s,
        max_decodes=settings.max_in_flight_decodes,
        max_decodes_per_node=DECODES_LEAST if by_slots else decodes,
        decodes_by_slots=by_slots,
        breaker_failures=settings.breaker_failures,
        breaker_ratio=settings.breaker_ratio,
        breaker_window=settings.breaker_window,
        breaker_open_s=settings.breaker_open_s,
        breaker_open_max_s=settings.breaker_open_max_s,
        breaker_successes=settings.breaker_successes,
    )


def kept(texts: Iterable[str]) -> dict[str, int]:
    """Read `model=2` and so on; raises `bad_request` for what is none of that."""
    counts = {}
    for text in texts:
        model, _, count = text.rpartition("=")
        if not model or not count.isdecimal() or int(count) > KEPT_MAX:
            message = f"--placement-keep {text}: write a model, = and how many nodes run it."
            raise fail("bad_request", message, param="placement.keep")
        counts[model] = int(count)
    return counts


def gateway_settings(
    settings: Settings, life: Life, identity: IdentitySettings | None = None
) -> GatewaySettings:
    """Return everything a fleet gateway is told; `life` is this start of it.

    Without an `identity` it tells no session tokens.
    """
    name = socket.gethostname()
    relay = RelaySettings(
        commit_after_s=settings.stream_commit_after_s,
        keepalive_s=settings.stream_keepalive_s,
        write_deadline_s=settings.stream_write_deadline_s,
        buffer_events=settings.stream_buffer_events,
        replay_max_tokens=settings.replay_max_tokens,
    )
    return GatewaySettings(
        name=name,
        fleet=fleet_settings(settings),
        generation=GenerationSettings(
            default_model=settings.default_model,
            aliases=read_aliases(settings.aliases),
            offload_bytes=settings.body_offload_bytes,
            strict=settings.strict,
            trims=settings.context_policy == "trim",
            inputs_max=settings.embed_inputs_max,
            relay=relay,
        ),
        link=GatewayLinkSettings(
            name,
            credit=settings.stream_buffer_events,
            life=life,
            message_max_bytes=settings.link_message_max_bytes,
            link=LinkSettings(ping_s=settings.link_ping_s, dead_s=settings.link_dead_s),
        ),
        listener=listener(settings),
        limits=limits(settings),
        allowed_hosts=settings.allowed_hosts,
        places=Places(settings.base_path, trusted(settings.trusted_proxies)),
        idempotency=IdempotencySettings(
            ttl_s=settings.idempotency_ttl_s,
            entries=settings.idempotency_entries,
            answer_max_bytes=settings.idempotency_answer_max_bytes,
            answers_max_bytes=settings.idempotency_answers_max_bytes,
        ),
        reattach=ReattachSettings(
            max_s=settings.reattach_max_s,
            log_bytes=settings.reattach_log_bytes,
            entries=settings.reattach_entries,
        ),
        infer=infer_settings(settings, relay),
        archive=archive_settings(settings),
        handover=handover_settings(settings),
        handoffs=handoff_settings(settings),
        identity=identity or IdentitySettings(life=life),
        guests=guest_settings(settings),
        telemetry=TelemetrySettings(settings.telemetry_active, settings.telemetry_recent),
        scaling=ScalingSettings(settings.scaling_target_share, settings.scaling_calm_s),
        tracing=TracingSettings(settings.otel_endpoint, settings.otel_share),
        limiter=limiter_settings(settings),
        origins=settings.cors_origins,
    )


def limiter_settings(settings: Settings) -> LimiterSettings:
    """Return how what keys may use is counted; raises `bad_request` for origins that are none."""
    origins(settings.cors_origins)
    return LimiterSettings(
        AllowanceSettings(settings.limits_answer_tokens),
        save_s=settings.limits_save_s,
        tenants_max=settings.limits_tenants_max,
    )


def upstream_settings(settings: Settings, targets: tuple[Target, ...]) -> UpstreamSettings:
    """Return everything a stateless gateway is told."""
    import msgspec

    from roost.fleet.upstream.pool import PoolSettings
    from roost.gateway.upstream.client import ClientLimits
    from roost.gateway.upstream.gateway import UpstreamSettings
    from roost.gateway.upstream.passage import PassageLimits

    return UpstreamSettings(
        targets=targets,
        listener=listener(settings),
        # No relay decides here, so the front's own deadline is the one of the setting.
        limits=msgspec.structs.replace(limits(settings), write_s=settings.stream_write_deadline_s),
        pool=PoolSettings(
            max_in_flight=settings.upstream_max_in_flight,
            queue_length=settings.upstream_queue_length,
            queue_wait_s=settings.queue_wait_s,
            attempts=settings.retry_attempts,
            errors_max=settings.upstream_errors_max,
            probe_s=settings.upstream_probe_s,
            stall_s=settings.upstream_stall_s,
            retry_ratio=settings.retry_ratio,
            retry_floor=settings.retry_floor,
            retry_window_s=settings.retry_window_s,
        ),
        passage=PassageLimits(
            first_byte_s=settings.upstream_first_byte_s,
            idle_s=settings.upstream_idle_s,
            commit_after_s=settings.stream_commit_after_s,
        ),
        client=ClientLimits(
            connect_s=settings.upstream_connect_s,
            kept=settings.upstream_kept,
            kept_s=settings.upstream_kept_s,
        ),
        allowed_hosts=settings.allowed_hosts,
        places=Places(settings.base_path, trusted(settings.trusted_proxies)),
        probe_path=settings.upstream_probe_path,
        models_s=settings.upstream_models_s,
        limiter=limiter_settings(settings),
        origins=settings.cors_origins,
        aliases=read_aliases(settings.aliases),
    )
