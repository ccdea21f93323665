"""SHELL: the gate and the table of routes in front of every endpoint of the fleet's gateway."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.front.access import Asked
from roost.gateway.front.router import NotMatched, Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.gateway.front.access import Gate, Principal
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.front.protocol import Handler
    from roost.gateway.front.rendering import Headers


class Call(msgspec.Struct, frozen=True):
    """A request that has passed the gate; `rest` is what a route's open end stood for."""

    exchange: Exchange
    tenant: TenantId
    role: str
    rest: str = ""


Endpoint: TypeAlias = "Callable[[Call], None]"
"""Answers a call whose body is whole, at once or later; it never raises what a client caused."""


class Routes:
    """Serves exchanges without a task of their own; see `front.protocol.Direct`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._router: Router[Endpoint] = Router()

    def add(self, methods: str, pattern: str, endpoint: Endpoint) -> None:
        """Serve these methods of this pattern; GET brings HEAD with it."""
        self._router.add(methods, pattern, endpoint)

    def match(self, exchange: Exchange) -> Handler | Failure | None:
        """Let the exchange through the gate and find who answers it."""
        method = exchange.head.method
        asked = Asked(method, exchange.path, exchange.fields, exchange.local)
        exchange.extra = list(self._gate.cors(asked))
        verdict = self._gate.check(asked)
        if isinstance(verdict, Failure):
            return verdict
        if method == "OPTIONS":
            return partial(_preflight, list(self._gate.preflight(asked)))
        found = self._router.match(method, exchange.raw_path.decode("ascii"))
        if isinstance(found, NotMatched):
            return partial(_not_matched, found)
        return partial(_answer, found.handler, verdict, found.rest)


def _answer(endpoint: Endpoint, principal: Principal, rest: str, exchange: Exchange) -> None:
    tenant = principal.tenant or TenantId(f"addr:{exchange.remote}")
    endpoint(Call(exchange, tenant, principal.role, rest))


def _preflight(headers: Headers, exchange: Exchange) -> None:
    exchange.extra = []
    exchange.reply(204, headers)


def _not_matched(found: NotMatched, exchange: Exchange) -> None:
    allow = [(b"allow", ", ".join(found.allow).encode())] if found.allow else []
    exchange.fail(found.failure, allow)
