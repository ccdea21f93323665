"""SHELL: the gate and the table of routes in front of every endpoint of the fleet's gateway."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.failures import speaks_anthropic
from roost.gateway.front.access import Asked
from roost.gateway.front.router import NotMatched, Router, percent_decoded
from roost.gateway.front.shared import Early

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.allowance import Account
    from roost.gateway.front.access import Authorise, Gate, Principal
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.front.rendering import Headers
    from roost.gateway.front.shared import Match


class Call(msgspec.Struct, frozen=True):
    """A request that has passed the gate; `rest` is what a route's open end stood for."""

    exchange: Exchange
    tenant: TenantId
    principal: Principal
    rest: str = ""

    @property
    def sharer(self) -> TenantId:
        """Whose KV the call's prompt may share."""
        return self.principal.shares_as or self.tenant

    @property
    def role(self) -> str:
        """What the caller may do."""
        return self.principal.role


class Places(msgspec.Struct, frozen=True):
    """Where this gateway is found, and who may speak for others.

    `base_path` stands before every address. Only a client whose address is in `proxies` is
    believed about whom it forwards for.
    """

    base_path: str = ""
    proxies: frozenset[str] = frozenset()

    def inside(self, raw_path: str) -> str | None:
        """Return the path without the base; None for a path outside of it."""
        if not self.base_path:
            return raw_path
        rest = raw_path.removeprefix(self.base_path)
        if rest == raw_path or not (rest == "" or rest.startswith("/")):
            return None
        return rest or "/"

    def client(self, exchange: Exchange) -> str:
        """Return the client's address: the nearest one that no trusted proxy stands at."""
        remote = exchange.remote
        forwarded = exchange.fields.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
        while remote in self.proxies and (nearer := forwarded.pop().strip() if forwarded else ""):
            remote = nearer
        return remote


Endpoint: TypeAlias = "Callable[[Call], None]"
"""Answers a call whose body is whole, at once or later; it never raises what a client caused."""


class Standing(Protocol):
    """Tells how an account stands."""

    def __call__(self, account: Account | None, *, anthropic: bool) -> Headers:
        """Return reply headers of that API, or of OpenAI's."""
        ...


class Routes:
    """Serves exchanges without a task of their own; see `front.shared.Direct`.

    `standing` gives the headers that tell an account how it stands.
    """

    def __init__(self, gate: Gate, places: Places, standing: Standing | None = None) -> None:
        self._gate = gate
        self._places = places
        self._standing = standing
        self._router: Router[Endpoint] = Router()
        self._admits: dict[Endpoint, Authorise] = {}

    def add(
        self, methods: str, pattern: str, endpoint: Endpoint, admit: Authorise | None = None
    ) -> None:
        """Serve these methods of this pattern; GET brings HEAD with it.

        `admit` decides who may ask in the place of the gate's key check.
        """
        self._router.add(methods, pattern, endpoint)
        if admit is not None:
            self._admits[endpoint] = admit

    def served(self) -> list[tuple[str, str]]:
        """List methods and patterns, as they were added."""
        return [(method, pattern) for method, pattern, _ in self._router.rows()]

    def pattern_of(self, method: str, path: str) -> str | None:
        """Return the pattern by which an address is served; None for one that is not."""
        found = self._router.match(method, path)
        if isinstance(found, NotMatched):
            return None
        rows = self._router.rows()
        return next(
            (
                pattern
                for known, pattern, handler in rows
                if known == method
                and handler == found.handler
                and path.startswith(pattern.partition("{")[0])
            ),
            None,
        )

    def match(self, exchange: Exchange) -> Match:
        """Let the exchange through the gate and find who answers it; no body changes a refusal."""
        method = exchange.head.method
        raw_path = self._places.inside(exchange.raw_path.decode("ascii"))
        if raw_path is None:
            return Failure("not_found", "There is nothing at this address.")
        asked = Asked(method, percent_decoded(raw_path), exchange.fields, exchange.local)
        exchange.extra = list(self._gate.cors(asked))
        found = self._router.match(method, raw_path)
        admit = None if isinstance(found, NotMatched) else self._admits.get(found.handler)
        verdict = self._gate.check(asked, admit)
        if isinstance(verdict, Failure):
            return verdict
        if method == "OPTIONS":
            return Early(partial(_preflight, list(self._gate.preflight(asked))))
        if isinstance(found, NotMatched):
            return Early(partial(_not_matched, found))
        if self._standing is not None and verdict.account is not None:
            anthropic = speaks_anthropic(raw_path)
            exchange.late = partial(self._standing, verdict.account, anthropic=anthropic)
        tenant = verdict.tenant or TenantId(f"addr:{self._places.client(exchange)}")
        return partial(_answer, found.handler, tenant, verdict, found.rest)


def _answer(
    endpoint: Endpoint, tenant: TenantId, principal: Principal, rest: str, exchange: Exchange
) -> None:
    endpoint(Call(exchange, tenant, principal, rest))


def _preflight(headers: Headers, exchange: Exchange) -> None:
    exchange.extra = []
    exchange.reply(204, headers)


def _not_matched(found: NotMatched, exchange: Exchange) -> None:
    allow = [(b"allow", ", ".join(found.allow).encode())] if found.allow else []
    exchange.fail(found.failure, allow)
