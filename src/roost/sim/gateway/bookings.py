"""MACHINE: the accounts of a simulated gateway's keys, and what is booked on them as history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roost.core.ids import RequestId
from roost.fleet.line.allowances import BYTES_PER_TOKEN
from roost.sim.booking import Booking, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roost.core.ids import ModelId
    from roost.core.request import Terms
    from roost.errors import Failure
    from roost.fleet.line.allowances import Allowances
    from roost.sim.history import History
    from roost.sim.world import World


class Bookings:
    """Stands for the part of a gateway that asks the accounts; `make` opens them for each life."""

    def __init__(self, world: World, history: History, make: Callable[[], Allowances]) -> None:
        self._world = world
        self._history = history
        self._make = make
        self._allowances = make()

    def begin_life(self) -> None:
        """Know nothing of what was booked before."""
        self._allowances = self._make()
        if self._history.allowance.is_limited:
            self._book(Booking("reborn", self._world.now, RequestId("")))

    def reserve(self, terms: Terms, model: ModelId) -> Failure | None:
        """Take a request in, or say why it cannot be."""
        now = self._world.now
        refused = self._allowances.on_request(terms, model, now, now)
        if terms.account is not None:
            most = self._history.answer_tokens
            answer = min(most, most if terms.max_tokens is None else terms.max_tokens)
            need = math.ceil(terms.prompt_bytes / BYTES_PER_TOKEN) + answer
            kind: Kind = "in" if refused is None else "out"
            self._book(Booking(kind, now, terms.request_id, terms.tenant, need))
        return None if refused is None else refused.failure

    def settle(self, terms: Terms, tokens: int) -> None:
        """A request is over, and has taken so many tokens."""
        now = self._world.now
        if terms.account is not None:
            self._book(Booking("over", now, terms.request_id, terms.tenant, tokens))
        self._allowances.on_spent(terms.request_id, tokens, now, now)

    def on_account(self, keys: Iterable[str]) -> int:
        """Add up the places and tokens that are reserved for these keys."""
        books = self._allowances
        return sum(books.under_way(key) + books.reserved(key) for key in keys)

    def _book(self, booking: Booking) -> None:
        self._history.bookings.append(booking)
        self._world.log(f"booked {booking.kind} {booking.request} {booking.tokens}")
