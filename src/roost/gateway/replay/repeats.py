"""SHELL: requests that come with an `Idempotency-Key`: run once, then answered from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.errors import Failure
from roost.fleet.streams.idempotency import (
    Changed,
    Claim,
    Fresh,
    Full,
    Idempotency,
    IdempotencySettings,
    Running,
    Told,
)
from roost.gateway.reading.asked import KEY_HEADER
from roost.gateway.replay.recording import Recorded, Recorder, Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.ids import RequestId
    from roost.fleet.streams.relay import Relay
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.front.rendering import Headers
    from roost.gateway.mind import Mind
    from roost.gateway.turns.outlet import Outlet

RETRY_AFTER_S = 2
"""How long to wait before asking again for an answer that is being made."""

REPLAYED: Headers = [(b"idempotency-replayed", b"true")]
NOT_AGAIN: Headers = [(b"x-should-retry", b"false")]
"""Read by the clients that try every 409 again."""

Place: TypeAlias = "Callable[[RequestId], Headers]"
_PARAM = KEY_HEADER.decode()
CHANGED = Failure(
    "key_reused",
    "This Idempotency-Key was sent before with another body or to another address.",
    _PARAM,
)
FULL = Failure(
    "overloaded",
    "More requests with an Idempotency-Key are running than `idempotency.entries` allows.",
    retry_after_s=RETRY_AFTER_S,
)
_decoder = msgspec.msgpack.Decoder(Recorded)


class Repeats:
    """Knows what has run under which key."""

    def __init__(self, mind: Mind, settings: IdempotencySettings) -> None:
        self._mind = mind
        self._keys = Idempotency(settings)

    def answered(self, claim: Claim, exchange: Exchange, dialect: str, place: Place) -> bool:
        """Take the key for this request; or, where it is taken, answer and return True.

        `place` says where the stream of a request can be attached to, as headers.
        """
        mind = self._mind
        verdict = self._keys.on_request(claim, mind.now_s)
        if isinstance(verdict, Running) and verdict.request not in mind.turns:
            # It came to nothing by a defect; without this its key would be taken for ever.
            self._keys.on_untold(msgspec.structs.replace(claim, request=verdict.request))
            verdict = self._keys.on_request(claim, mind.now_s)
        if isinstance(verdict, Fresh):
            return False
        outcome = "rejected"
        match verdict:
            case Running(request):
                exchange.fail(_running(request), place(request))
            case Changed():
                exchange.fail(CHANGED)
            case Full():
                exchange.fail(FULL)
            case Told(request, None):
                exchange.fail(_not_kept(request), NOT_AGAIN)
            case Told(request, answer):
                assert answer is not None, "the case above"
                outcome = "replayed"
                exchange.request_id = request
                Replay(exchange, _decoder.decode(answer), REPLAYED)
        mind.metrics("roost_requests_total", outcome, dialect).inc()
        mind.log.info("request_repeated", request=claim.request, found=type(verdict).__name__)
        return True

    def recorded(self, claim: Claim, outlet: Outlet, relay: Relay) -> Recorder:
        """Return an outlet that keeps what it passes on, for the next request with this key."""
        return Recorder(outlet, relay, _Keeper(self._mind, self._keys, claim))


class _Keeper:
    def __init__(self, mind: Mind, keys: Idempotency, claim: Claim) -> None:
        self._mind = mind
        self._keys = keys
        self._claim = claim

    def grew(self, count: int) -> bool:
        return self._keys.on_bytes(self._claim, count)

    def told(self, reply: Recorded | None) -> None:
        answer = None if reply is None else msgspec.msgpack.encode(reply)
        self._keys.on_told(self._claim, answer, self._mind.now_s)

    def untold(self) -> None:
        self._keys.on_untold(self._claim)


def _running(request: str) -> Failure:
    return Failure(
        "key_in_use",
        f"Request {request} has this Idempotency-Key and is still running.",
        _PARAM,
        retry_after_s=RETRY_AFTER_S,
    )


def _not_kept(request: str) -> Failure:
    return Failure(
        "answer_not_kept",
        f"Request {request} has this Idempotency-Key and was answered; its answer is not kept.",
        _PARAM,
    )
