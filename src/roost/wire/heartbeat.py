"""MACHINE: one end's sense of the other's life: pings, answers, round trip, silence.

Anything heard is a sign of life, not only a Pong: a busy link needs no extra traffic to count as
alive. The round trip is measured with pings alone, because only they are answered at once.

A silence counts only while this end was awake. A tick that comes late means that this process did
not run (stopped, swapped out, a machine without cores to spare): nothing could be heard meanwhile,
and what was said lies unread. Closing the link before reading it would be our own death, blamed on
the peer. The price is a detection that is late by the length of the sleep.
"""

from __future__ import annotations

import msgspec

from roost.wire.messages import Ping

_PINGS_MAX = 64
"""Pings whose time is remembered; a peer that never answers cannot make us remember more."""


class LinkSettings(msgspec.Struct, frozen=True):
    """Times of a link.

    `ping_s` between two pings of one end, `dead_s` of silence after which the link is closed,
    `greeting_s` for Hello and Welcome to be exchanged. A tick that is late by more than `stall_s`
    means that this end was asleep.
    """

    ping_s: float = 1.0
    dead_s: float = 15.0
    greeting_s: float = 10.0
    stall_s: float = 0.5


class Heartbeat:
    """Counts pings out and answers in; never sends anything itself."""

    def __init__(self, settings: LinkSettings, now: float) -> None:
        self._dead_s = settings.dead_s
        self._stall_s = settings.stall_s
        self._ping_s = settings.ping_s
        self._heard_at = now
        self._ping_at = now + settings.ping_s
        self._last_ping = 0
        self._last_pong = 0
        self._sent_at: dict[int, float] = {}
        self.rtt_s: float | None = None

    def start(self, ping_s: float, now: float) -> None:
        """Begin pinging every `ping_s` seconds from `now` on."""
        self._ping_s = ping_s
        self._ping_at = now + ping_s

    def on_heard(self, now: float) -> None:
        """Something legal arrived."""
        self._heard_at = now

    def on_pong(self, seq: int, now: float) -> bool:
        """Take an answer; False if no ping of this number waits for one."""
        if not self._last_pong < seq <= self._last_ping:
            return False
        self._last_pong = seq
        sent_at = self._sent_at.get(seq)
        if sent_at is not None:
            self.rtt_s = now - sent_at
        self._sent_at = {n: at for n, at in self._sent_at.items() if n > seq}
        return True

    def due_ping(self, now: float) -> Ping | None:
        """The ping to send at `now`, if it is time for one."""
        if now < self._ping_at:
            return None
        # From now, not from the missed time: a late tick sends one ping, not a burst.
        self._ping_at = now + self._ping_s
        self._last_ping += 1
        self._sent_at[self._last_ping] = now
        if len(self._sent_at) > _PINGS_MAX:
            del self._sent_at[next(iter(self._sent_at))]
        return Ping(self._last_ping)

    def is_dead(self, now: float) -> bool:
        """Whether the silence has lasted too long."""
        return self.heard_age_s(now) >= self._dead_s

    def heard_age_s(self, now: float) -> float:
        """Seconds since anything was heard."""
        return now - self._heard_at

    def next_tick(self) -> float:
        """When to look again."""
        return min(self._ping_at, self._heard_at + self._dead_s)

    def forgive_own_sleep(self, now: float) -> None:
        """Take a late tick's lateness off the silence, and leave time to read what came meanwhile.

        To be called at a tick, before the silence is judged.
        """
        late_s = now - self.next_tick()
        if late_s > self._stall_s:
            awake_s = self._dead_s - self._stall_s
            self._heard_at = min(now, max(self._heard_at + late_s, now - awake_s))
