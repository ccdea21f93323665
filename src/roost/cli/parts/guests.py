"""WIRING: workers of system 1: from settings to what takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.dialects.system1.heartbeat import Skew
from roost.fleet.nodes.workers import WorkerSettings
from roost.gateway.foreign.address import read_nets
from roost.gateway.foreign.guests import GuestSettings
from roost.gateway.foreign.report import OfferSettings
from roost.gateway.foreign.translator import ForeignSettings
from roost.gateway.upstream.client import ClientLimits

if TYPE_CHECKING:
    from roost.config import Settings


def guest_settings(settings: Settings) -> GuestSettings:
    """Return where such workers may be, and how long they may be silent."""
    return GuestSettings(
        nets=read_nets(settings.coordinator_worker_nets),
        skew=Skew(settings.coordinator_heartbeat_late_s, settings.coordinator_heartbeat_early_s),
        workers=WorkerSettings(
            stale_s=settings.coordinator_worker_stale_s,
            dead_s=max(settings.coordinator_worker_dead_s, settings.coordinator_worker_stale_s),
            cleanup_s=settings.coordinator_worker_cleanup_s,
            most=settings.coordinator_workers_max,
        ),
        client=ClientLimits(connect_s=settings.coordinator_worker_connect_s, kept=0),
        foreign=ForeignSettings(
            offer=OfferSettings(
                model=settings.coordinator_worker_model,
                slots=settings.coordinator_worker_slots,
                context_tokens=settings.coordinator_worker_context_tokens,
            ),
            prefill_s=settings.coordinator_worker_prefill_s,
            idle_s=settings.coordinator_worker_idle_s,
            call_s=settings.coordinator_worker_call_s,
            sessions_max=settings.coordinator_worker_sessions_max,
            session_idle_s=settings.coordinator_worker_session_idle_s,
            held_max=settings.stream_buffer_events,
        ),
        resolve_s=settings.coordinator_worker_resolve_s,
        stats_s=settings.coordinator_stats_s,
    )
