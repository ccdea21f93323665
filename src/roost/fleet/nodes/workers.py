"""MACHINE: workers of system 1, by their heartbeats: who there is, where, and how alive.

    (none) ──heartbeat──▶ alive ──30 s──▶ stale ──60 s──▶ dead ──cleanup──▶ (none)
                            ▲               │               │
                            ╰───heartbeat───┴───────────────╯

A worker is somebody from its first heartbeat on: until it is dead, or known not to answer where it
was, one of the same name at another address is refused. `Join` asks for a link to it, `Refresh`
hands on what it says, `Rest` asks for no new work, and `Leave` for the end of its link. A link that
has ended by itself is asked for anew with the next heartbeat, and until then its worker counts as
stale: it lives, but not for us. A worker that wants to see another key than before is a new process
at the old address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from roost.core.worker import WorkerBeat, WorkerStatus
from roost.errors import Failure


class WorkerSettings(msgspec.Struct, frozen=True):
    """Ages of the last heartbeat that change what a worker is, and how many workers there may be.

    Dead ones are forgotten every `cleanup_s`. A tick that is late by more than `stall_s` means that
    this process did not run.
    """

    stale_s: float = 30.0
    dead_s: float = 60.0
    cleanup_s: float = 60.0
    most: int = 64
    stall_s: float = 1.0


class Join(msgspec.Struct, frozen=True):
    """Make a link to this worker."""

    beat: WorkerBeat


class Refresh(msgspec.Struct, frozen=True):
    """The worker that has a link says this now."""

    beat: WorkerBeat


class Rest(msgspec.Struct, frozen=True):
    """Give the worker no new work, until its next heartbeat."""

    worker: str


class Leave(msgspec.Struct, frozen=True):
    """End the worker's link."""

    worker: str


WorkerEffect: TypeAlias = Join | Refresh | Rest | Leave


class WorkerLine(msgspec.Struct, frozen=True):
    """One worker as lists show it; `age_s` is that of its last heartbeat."""

    beat: WorkerBeat
    status: WorkerStatus
    age_s: float


@dataclass(slots=True)
class _Known:
    beat: WorkerBeat
    heard_s: float
    linked: bool = True
    rests: bool = False


class Workers:
    """Everybody who has sent a heartbeat and is not forgotten."""

    def __init__(self, settings: WorkerSettings, now: float) -> None:
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._cleanup_s = now + settings.cleanup_s

    def on_heartbeat(self, beat: WorkerBeat, now: float) -> list[WorkerEffect] | Failure:
        """A worker says that it lives; a failure is for it to hear, and changes nothing."""
        known = self._known.get(beat.worker)
        if known is None or self._status(known, now) == "dead":
            return self._welcome(beat, now)
        if known.beat.url != beat.url and known.linked:
            return Failure(
                "worker_id_taken",
                f"A worker {beat.worker} is known at another address. Give this one a name of its "
                f"own, or wait until that one has been silent for {self._settings.dead_s:.0f} s.",
            )
        # A key that is another one was made by a process that is another one: its sessions are new.
        again = known.linked and known.beat.key == beat.key
        left: list[WorkerEffect] = [Leave(beat.worker)] if known.linked and not again else []
        known.beat, known.heard_s, known.rests, known.linked = beat, now, False, True
        return [Refresh(beat)] if again else [*left, Join(beat)]

    def on_unlinked(self, worker: str, now: float) -> None:
        """The link to a worker has ended, or could not be made."""
        known = self._known.get(worker)
        if known is not None:
            known.linked = False

    def on_tick(self, now: float) -> list[WorkerEffect]:
        """Time has passed."""
        self._forgive_own_sleep(now)
        effects: list[WorkerEffect] = []
        for name, known in self._known.items():
            status = self._aged(known, now)
            if status == "dead" and known.linked:
                known.linked = False
                effects.append(Leave(name))
            elif status == "stale" and known.linked and not known.rests:
                known.rests = True
                effects.append(Rest(name))
        if now >= self._cleanup_s:
            self._cleanup_s = now + self._settings.cleanup_s
            self._forget_dead(now)
        return effects

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do; None while nobody is known."""
        due = [self._due(known) for known in self._known.values()]
        return min((*due, self._cleanup_s)) if due else None

    def lines(self, now: float) -> tuple[WorkerLine, ...]:
        """Everybody, by name."""
        return tuple(
            WorkerLine(known.beat, self._status(known, now), now - known.heard_s)
            for _, known in sorted(self._known.items())
        )

    def _welcome(self, beat: WorkerBeat, now: float) -> list[WorkerEffect] | Failure:
        if beat.worker not in self._known and len(self._known) >= self._settings.most:
            self._forget_dead(now)
        if beat.worker not in self._known and len(self._known) >= self._settings.most:
            text = f"There are {self._settings.most} workers already: see coordinator.workers_max."
            return Failure("overloaded", text, retry_after_s=60)
        old = self._known.get(beat.worker)
        self._known[beat.worker] = _Known(beat, now)
        # Dead by its age, though no tick has said so yet.
        left: list[WorkerEffect] = [Leave(beat.worker)] if old is not None and old.linked else []
        return [*left, Join(beat)]

    def _forgive_own_sleep(self, now: float) -> None:
        """Take a late tick's lateness off every age: what was said meanwhile lies unread."""
        due = self.next_tick()
        late_s = 0.0 if due is None else now - due
        if late_s > self._settings.stall_s:
            for known in self._known.values():
                known.heard_s = min(now, known.heard_s + late_s)

    def _forget_dead(self, now: float) -> None:
        dead = [name for name, known in self._known.items() if self._aged(known, now) == "dead"]
        for name in dead:
            if not self._known[name].linked:
                del self._known[name]

    def _due(self, known: _Known) -> float:
        if not known.linked:
            return self._cleanup_s
        wait_s = self._settings.dead_s if known.rests else self._settings.stale_s
        return known.heard_s + wait_s

    def _status(self, known: _Known, now: float) -> WorkerStatus:
        status = self._aged(known, now)
        return "stale" if status == "alive" and not known.linked else status

    def _aged(self, known: _Known, now: float) -> WorkerStatus:
        # The same sums as in `_due`: a tick that is due finds something to do.
        if now >= known.heard_s + self._settings.dead_s:
            return "dead"
        return "stale" if now >= known.heard_s + self._settings.stale_s else "alive"
