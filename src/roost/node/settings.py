"""VALUE: the limits of a node's agent."""

from __future__ import annotations

import msgspec

from roost.node.reporter import ReportSettings
from roost.node.residency import BackoffSettings


class AgentSettings(msgspec.Struct, frozen=True):
    """Limits of a node.

    `backend` names the backend in reports.
    `max_in_flight` streams per model hold or wait for a slot; None means as many as it has slots.
    `streams_max` streams in all, those included that only wait for credit.
    `outbox_events_max` events of one stream wait for credit before its backend is paused.
    `stall_s` without any event while work runs counts as a hung runtime.
    `progress_min_s` between two reports of a load's progress.
    """

    backend: str
    max_in_flight: int | None = None
    streams_max: int = 1024
    outbox_events_max: int = 256
    stall_s: float = 30.0
    progress_min_s: float = 0.25
    report: ReportSettings = ReportSettings()
    backoff: BackoffSettings = BackoffSettings()
