"""WIRING: workers of system 1: from settings to what takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.dialects.heartbeat import Skew
from roost.fleet.workers import WorkerSettings
from roost.gateway.foreign.address import read_nets
from roost.gateway.foreign.guests import GuestSettings
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
        resolve_s=settings.coordinator_worker_resolve_s,
        stats_s=settings.coordinator_stats_s,
    )
