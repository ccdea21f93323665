"""MACHINE: how long a client may take, to send a request and to read the reply."""

from __future__ import annotations

from enum import Enum
from math import inf

from roost.errors import Failure
from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.refusals import head_too_large, too_large


class Phase(Enum):
    """What a connection is waiting for."""

    IDLE = "the next request"
    HEAD = "the rest of a head"
    BODY = "the rest of a body"
    BUSY = "our reply"
    LINGER = "the client to read a refusal"


class Receipt:
    """The receipt of requests on one connection. Deadlines are absolute: no trickle moves them."""

    def __init__(self, limits: FrontLimits, now: float) -> None:
        self._limits = limits
        self.phase = Phase.IDLE
        self.deadline = now + limits.head_s
        self._wire_bytes = 0

    def on_bytes(self, count: int, now: float) -> None:
        """Bytes have come in; the first of a head starts its clock."""
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEAD, now + self._limits.head_s)
        self._wire_bytes += count

    def on_head(self, now: float) -> None:
        """A head is complete."""
        self._enter(Phase.BODY, now + self._limits.body_s)

    def on_complete(self) -> None:
        """A request is complete; its reply has no deadline here."""
        self._enter(Phase.BUSY, inf)

    def on_idle(self, now: float) -> None:
        """Everything is answered."""
        self._enter(Phase.IDLE, now + self._limits.idle_s)

    def on_draining(self, now: float) -> None:
        """Nothing new is wanted: who idles gets a moment for a request that is on its way."""
        if self.phase is Phase.IDLE:
            self.deadline = min(self.deadline, now + self._limits.linger_s)

    def on_linger(self, now: float) -> None:
        """The connection ends; only its last bytes are awaited."""
        self._enter(Phase.LINGER, now + self._limits.linger_s)

    def on_paused(self) -> None:
        """We do not read for a while, so the client cannot be late."""
        self.deadline = inf

    def on_resumed(self, now: float) -> None:
        """We read again; what was in progress gets its time anew."""
        seconds = {Phase.HEAD: self._limits.head_s, Phase.BODY: self._limits.body_s}
        self.deadline = now + seconds.get(self.phase, inf)

    def over_head(self) -> bool:
        """Whether more has come in for the current head than a head may have."""
        return self._wire_bytes > self._limits.head_max_bytes

    def oversize(self) -> Failure | None:
        """Return why what has come in for this phase is too much already, or None.

        A body is counted where it is decoded; here only its framing is bounded, so that tiny chunks
        with long extensions cannot go on for ever.
        """
        if self.phase is Phase.HEAD and self.over_head():
            return head_too_large(self._limits.head_max_bytes)
        most = 2 * self._limits.body_max_bytes + self._limits.pipelined_bytes
        if self.phase is Phase.BODY and self._wire_bytes > most:
            return too_large(self._limits.body_max_bytes)
        return None

    def _enter(self, phase: Phase, deadline: float) -> None:
        self.phase, self.deadline, self._wire_bytes = phase, deadline, 0


class Stall:
    """Ages the oldest byte that the client has not taken from us."""

    def __init__(self, write_s: float) -> None:
        self._write_s = write_s
        self._mark_bytes = 0
        self._since: float | None = None

    def on_sweep(self, written_bytes: int, pending_bytes: int, now: float) -> bool:
        """Say whether the client is stuck, by how much of all that was written is pending."""
        taken = written_bytes - pending_bytes
        if pending_bytes == 0:
            self._since = None
        elif self._since is None or taken >= self._mark_bytes:
            # All that was pending at the mark is gone; what is pending now is younger than that.
            self._mark_bytes, self._since = written_bytes, now
        return self._since is not None and now - self._since > self._write_s
