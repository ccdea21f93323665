"""SHELL: what a client holds on to when its connection breaks: a key, and a stream to come back to.

Whatever generates asks here: `asked` reads the headers, `answered` takes the key, or answers what
has run under it; `reel` and `outlet` are what a scribe then writes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roost.fleet.streams.idempotency import Claim
from roost.gateway.reading.asked import KEY_HEADER, REATTACH_HEADER, asked_key, asked_window_s
from roost.gateway.replay.reel import ErrorEvent, Numbered, Reel, granted
from roost.gateway.replay.repeats import Repeats

if TYPE_CHECKING:
    from roost.fleet.streams.idempotency import IdempotencySettings
    from roost.fleet.streams.relay import Relay
    from roost.gateway.mind import Mind
    from roost.gateway.replay.reattach import Reattach
    from roost.gateway.routes import Call
    from roost.gateway.turns.outlet import Outlet


class Held(msgspec.Struct, frozen=True):
    """What a client has asked for: a key of its own, and for how long to wait for it if lost."""

    claim: Claim | None
    window_s: float | None


class Lifelines:
    """The same for every way to generate."""

    def __init__(self, mind: Mind, settings: IdempotencySettings, reattach: Reattach) -> None:
        self._repeats = Repeats(mind, settings)
        self._reattach = reattach

    def asked(
        self, call: Call, fingerprint: bytes, in_body: object = None, *, streamed: bool = True
    ) -> Held:
        """Read what is asked for; `bad_request` for what is unfit.

        `fingerprint` is a hash of API and body, `in_body` the twin of `x-roost-reattach-s`.
        """
        fields, exchange = call.exchange.fields, call.exchange
        key = asked_key(fields.get(KEY_HEADER))
        window_s = asked_window_s(
            fields.get(REATTACH_HEADER), in_body, most_s=self._reattach.max_s, streamed=streamed
        )
        if key is None:
            return Held(None, window_s)
        return Held(Claim(call.tenant, key, fingerprint, exchange.request_id), window_s)

    def answered(self, call: Call, held: Held, dialect: str) -> bool:
        """Take the key, if there is one; True where it was taken, and the call is answered."""
        if held.claim is None:
            return False
        return self._repeats.answered(
            *(held.claim, call.exchange, dialect),
            lambda request: self._reattach.place(request, call.tenant),
        )

    def reel(self, call: Call, held: Held, error: ErrorEvent) -> Reel | None:
        """Return what stands for the exchange of a client that is to be awaited.

        `error` makes an error event in the client's dialect. It wants the turn for its `watcher`;
        without a reel the turn is the exchange's.
        """
        if held.window_s is None:
            return None
        reel = self._reattach.reel(call, held.window_s, error)
        if reel is None:
            call.exchange.extra += granted(0)
        return reel

    def outlet(self, held: Held, relay: Relay, base: Outlet, *, numbered: bool) -> Outlet:
        """Return what a scribe writes to, over a reel (then `numbered`) or an exchange."""
        outlet = base
        if held.claim is not None:
            outlet = self._repeats.recorded(held.claim, outlet, relay)
        return Numbered(outlet) if numbered else outlet
