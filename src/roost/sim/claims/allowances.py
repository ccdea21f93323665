"""DECIDER: what must be true of keys with limits, whatever becomes of their requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from roost.core.allowance import Allowance
from roost.core.ids import RequestId
from roost.sim.booking import Booking
from roost.sim.claims.aside import Claim
from roost.sim.history import History

MINUTE_S = 60.0
SLACK = 1e-3


@dataclass(slots=True)
class _Books:
    """One tenant's account, as bookings alone tell of it."""

    allowance: Allowance
    at_s: float = 0.0
    requests: float = 0.0
    tokens: float = 0.0
    live: dict[RequestId, int] = field(default_factory=dict)

    def pass_time(self, now: float) -> None:
        """Let both rates fill again."""
        passed = (now - self.at_s) / MINUTE_S
        self.at_s = now
        self.requests = max(0.0, self.requests - passed * self.allowance.requests_per_minute)
        self.tokens = max(0.0, self.tokens - passed * self.allowance.tokens_per_minute)

    def causes(self, need: int) -> list[tuple[str, float]]:
        """Name what would keep a request out, and by how much."""
        limits = self.allowance
        found: list[tuple[str, float]] = []
        if limits.at_once:
            found.append(("at_once", len(self.live) + 1 - limits.at_once))
        if limits.requests_per_minute:
            found.append(("requests", self.requests + 1 - limits.requests_per_minute))
        if limits.tokens_per_minute:
            most = limits.tokens_per_minute
            found.append(("tokens", self.tokens + min(need, most) - most))
        return found

    def note(self, booking: Booking) -> None:
        """Take in what happened."""
        if booking.kind == "in":
            self.live[booking.request] = booking.tokens
            self.requests += 1
            self.tokens += booking.tokens
        elif booking.kind == "over":
            reserved = self.live.pop(booking.request, None)
            if reserved is not None:
                self.tokens = max(0.0, self.tokens + booking.tokens - reserved)


def _replayed(history: History) -> Iterator[tuple[Booking, list[tuple[str, float]]]]:
    """Give each decision with what would have kept the request out, as far as bookings say."""
    books: defaultdict[str, _Books] = defaultdict(lambda: _Books(history.allowance))
    for booking in history.bookings:
        if booking.kind == "reborn":
            books.clear()
            continue
        mine = books[booking.tenant]
        mine.pass_time(booking.at_s)
        if booking.kind != "over":
            yield booking, mine.causes(booking.tokens)
        mine.note(booking)


def allowances_hold(history: History) -> Iterator[str]:
    """Nobody is let in beyond what his key may."""
    for booking, causes in _replayed(history):
        over = [name for name, by in causes if by > SLACK]
        if booking.kind == "in" and over:
            yield f"{booking.request} of {booking.tenant} was let in over its {', '.join(over)}"


def keys_refuse_with_cause(history: History) -> Iterator[str]:
    """Nobody is kept out by anything but what his own requests take, or have taken."""
    for booking, causes in _replayed(history):
        if booking.kind == "out" and not any(by > -SLACK for _, by in causes):
            yield f"{booking.request} of {booking.tenant} was kept out, and had room"


def accounts_return(history: History) -> Iterator[str]:
    """At rest no place and no token is reserved."""
    rest = history.rest
    if rest is not None and rest.on_account:
        yield f"{rest.on_account} places and tokens are still reserved"


CLAIMS: tuple[Claim, ...] = (
    (
        "allowances_hold",
        "A key has no more requests, tokens and places than it may.",
        allowances_hold,
    ),
    (
        "keys_refuse_with_cause",
        "A key keeps a request out only for what its other requests take or have taken.",
        keys_refuse_with_cause,
    ),
    ("accounts_return", "At rest nothing is reserved for any key.", accounts_return),
)
"""Name, claim, and how to find what breaks it."""
