"""MACHINE: handoffs of a simulated gateway: the production machine, and both requests of each.

It does for them what the gateway's desk does: a place is reserved before any work, and given back
if nothing comes of that; a secret is spent before the answer begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from roost.core.events import Finished, StreamEvent
from roost.core.ids import RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import GenerateRequest, Terms
from roost.errors import Failure
from roost.fleet.conversations.handoffs import Handoff, Handoffs
from roost.fleet.streams.relay_effects import Mark
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Reader, Turn
from roost.sim.request_facts import Handed, Tried
from roost.sim.world import Process


class Office(Protocol):
    """The gateway, as handoffs need it."""

    turns: dict[RequestId, Turn]

    def ask(
        self, request: GenerateRequest, terms: Terms, reader: Reader, *, streamed: bool
    ) -> None:
        """A request has been received."""
        ...


class Desk:
    """Those of one life of a gateway: they end with it."""

    def __init__(self, process: Process, machine: Handoffs, ledger: Ledger, office: Office) -> None:
        self._process = process
        self._machine = machine
        self._ledger = ledger
        self._office = office

    def prefill(
        self, request: GenerateRequest, terms: Terms, reader: Reader, told: Callable[[str], None]
    ) -> None:
        """Compute a prompt ahead; `told` hears the secret."""
        now, history = self._process.world.now, self._ledger.history
        handed = Handed(terms.request_id, terms.tenant, self._process.name, now)
        history.handed.append(handed)
        handed.refused = self._machine.reserve(terms.tenant, now)
        if handed.refused is not None:
            self._refuse(terms.request_id, reader, handed.refused)
            return
        place = _Place(self, handed, request, reader, told)
        self._office.ask(request, terms, place, streamed=False)

    def decode(self, secret: str, request: GenerateRequest, terms: Terms, reader: Reader) -> None:
        """Answer a prompt that was computed ahead, whichever stands behind this secret."""
        now, history = self._process.world.now, self._ledger.history
        found = self._machine.spend(terms.tenant, secret, now)
        tried = Tried(now, terms.tenant, self._process.name, spent=not isinstance(found, Failure))
        next(one for one in history.handed if one.secret == secret).tries.append(tried)
        if isinstance(found, Failure):
            self._refuse(terms.request_id, reader, found)
            return
        request = msgspec.structs.replace(request, model=found.pin.model, prompt=found.prompt)
        terms = msgspec.structs.replace(terms, pin=found.pin)
        self._office.ask(request, terms, reader, streamed=False)

    def place(self, handed: Handed, request: GenerateRequest, prompt_tokens: int) -> str:
        """Keep a prompt that is computed; returns the secret."""
        dispatch = self._office.turns[handed.prefill].dispatch
        assert dispatch is not None, "somebody has computed it"
        pin = Pin(dispatch.node, request.model, prompt_tokens)
        handed.made_s, handed.secret = self._process.world.now, f"of {handed.prefill}"
        terms = self._office.turns[handed.prefill].terms
        handoff = Handoff(request.prompt, pin)
        self._machine.place(terms.tenant, handed.secret, handoff, handed.made_s)
        return handed.secret

    def give_up(self, handed: Handed) -> None:
        """Nothing has come of it."""
        handed.over_s = self._process.world.now
        self._machine.give_up(TenantId(handed.tenant))

    def count(self) -> int:
        """How many the machine still keeps a place for."""
        # A secret that nobody has ever had finds nothing, and has what is too old removed.
        self._machine.spend(TenantId("key:nobody"), "", self._process.world.now)
        return len(self._machine)

    def _refuse(self, request: RequestId, reader: Reader, failure: Failure) -> None:
        self._ledger.ended(request, "rejected", failure)
        reader.ended()


class _Place:
    """Stands between a prefill and its client, who is told a secret for what was said."""

    def __init__(
        self,
        desk: Desk,
        handed: Handed,
        request: GenerateRequest,
        reader: Reader,
        told: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._handed = handed
        self._request = request
        self._reader = reader
        self._told = told

    def take(self, events: Sequence[StreamEvent | Mark], written: Callable[[], None]) -> None:
        """Receive the whole answer, of which its client is told a secret alone."""
        for event in events:
            if isinstance(event, Finished):
                tokens = event.usage.prompt_tokens
                self._told(self._desk.place(self._handed, self._request, tokens))
        self._reader.take(events, written)

    def comment(self, written: Callable[[], None]) -> None:
        """Receive a sign of life."""
        self._reader.comment(written)

    def ended(self) -> None:
        """The prefill has ended, however it did."""
        if not self._handed.secret:
            self._desk.give_up(self._handed)
        self._reader.ended()
