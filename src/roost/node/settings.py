"""VALUE: the limits of a node's agent."""

from __future__ import annotations

import msgspec

from roost.node.floor.pace import PaceSettings
from roost.node.joining.reporter import ReportSettings
from roost.node.models.ledger import RoomSettings
from roost.node.models.pressure import PressureSettings
from roost.node.models.residency import BackoffSettings
from roost.node.models.stays import StaySettings
from roost.node.states.session_settings import SessionSettings


class LoopTimes(msgspec.Struct, frozen=True):
    """What the shell of a node may take: times that may change while it runs, in seconds.

    `stop_grace_s` is what a runtime gets between asking and killing, `move_timeout_s` what one move
    of a slot's content may take, `count_keep_s` how long what counts prompts waits for the next.
    """

    stop_grace_s: float
    move_timeout_s: float
    count_keep_s: float


class AgentSettings(msgspec.Struct, frozen=True):
    """Limits of a node.

    `backend` is what reports name for models whose offer names none.
    `max_in_flight` streams per model hold or wait for a slot; None means as many as it has slots.
    `streams_max` streams in all, those included that only wait for credit.
    `outbox_events_max` events of one stream wait for credit before its backend is paused.
    `fences_max` keys whose highest epoch is remembered.
    `sessions` limits what is put aside of conversations that are in no slot.
    `room` limits how many runtimes, and how large, there are at a time.
    `pressure` says what is done when the machine's memory runs short.
    `stay` is how long they are kept that nobody uses.
    `pace` says when a runtime that owes events and produces none counts as hung.
    `awake_s` without any report or tick means that the node itself was asleep.
    `progress_min_s` between two reports of a load's progress.
    `vectors_tokens_max` tokens of all inputs of a request for vectors.
    `cold_counts` are backends whose models' prompts are counted without weights.
    """

    backend: str
    max_in_flight: int | None = None
    streams_max: int = 1024
    outbox_events_max: int = 256
    fences_max: int = 4096
    awake_s: float = 0.5
    progress_min_s: float = 0.25
    vectors_tokens_max: int = 300_000
    cold_counts: frozenset[str] = frozenset()
    room: RoomSettings = RoomSettings()
    pressure: PressureSettings = PressureSettings()
    stay: StaySettings = StaySettings()
    sessions: SessionSettings = SessionSettings()
    pace: PaceSettings = PaceSettings()
    report: ReportSettings = ReportSettings()
    backoff: BackoffSettings = BackoffSettings()
