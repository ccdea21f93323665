"""SHELL: what keys may use, held against what they ask, and what they have used, kept on disk.

Every way to generate passes `Mind.expect`, and ends in `Mind.depart`: these two reserve and settle.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import ModelId
from roost.dialects.limit_headers import anthropic_limits, openai_limits
from roost.errors import RoostError
from roost.fleet.line.allowances import DAY_S, Allowances, AllowanceSettings, first_of_month
from roost.fleet.watching.tenant_labels import TenantLabels

if TYPE_CHECKING:
    from roost.core.allowance import Account, Spent, Standing
    from roost.core.request import Terms
    from roost.errors import Failure
    from roost.gateway.front.rendering import Headers
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics
    from roost.store.credentials.usage import UsageStore

NO_KEY = "no_key"
"""The label of all whose requests no key stands for: their addresses are nobody's business."""


class LimiterSettings(msgspec.Struct, frozen=True):
    """What is used is saved every `save_s`; so many tenants have metrics of their own."""

    allowances: AllowanceSettings = AllowanceSettings()
    save_s: float = 1.0
    tenants_max: int = 100


class Limiter:
    """The only caller of `Allowances` in one gateway."""

    def __init__(self, settings: LimiterSettings, metrics: Metrics) -> None:
        self.allowances = Allowances(settings.allowances)
        self._metrics = metrics
        self._labels = TenantLabels(settings.tenants_max)
        self._loop = asyncio.get_running_loop()

    def reserve(self, terms: Terms, model: str, *, is_free: bool = False) -> Failure | None:
        """Take a request in on its account, or say why it cannot be."""
        asked = terms, ModelId(model), self._loop.time(), time.time()
        refused = self.allowances.on_request(*asked, is_free=is_free)
        if refused is None:
            return None
        self._metrics("roost_limited_total", self.label(terms.account), refused.limit).inc()
        return refused.failure

    def settle(self, terms: Terms, tokens: int) -> None:
        """Charge what a request has really taken; called once for each, however it ended."""
        self.allowances.on_spent(terms.request_id, tokens, self._loop.time(), time.time())
        label = self.label(terms.account)
        self._metrics("roost_tenant_requests_total", label).inc()
        self._metrics("roost_tenant_tokens_total", label).inc(tokens)

    def may_use(self, account: Account | None, model: str) -> bool:
        """Whether an account may use a model, by any of its names; without one anybody may."""
        return account is None or self.allowances.may_use(account.allowance, model)

    def headers(self, account: Account | None, *, anthropic: bool) -> Headers:
        """Return how an account stands, as reply headers of an API; none where nothing counts."""
        if account is None or not account.allowance.is_limited:
            return []
        standing: Standing = self.allowances.standing(account, self._loop.time())
        return anthropic_limits(standing, time.time()) if anthropic else openai_limits(standing)

    def label(self, account: Account | None) -> str:
        """Name an account in metrics."""
        return NO_KEY if account is None else self._labels(account.tenant)


class UsageKeeper:
    """Saves what is used, and learns what other gateways of the same home have had used."""

    def __init__(self, limiter: Limiter, store: UsageStore, save_s: float, log: Log) -> None:
        self._allowances = limiter.allowances
        self._store = store
        self._save_s = save_s
        self._log = log
        self._failed = False
        self._writing: asyncio.Future[tuple[Spent, ...]] | None = None
        self._loop = asyncio.get_running_loop()

    def load(self) -> None:
        """Learn what has been used before this gateway began; raises `storage_error`."""
        self._allowances.take_unsaved()
        self._allowances.on_saved(self._store.since(self._first_day()), self._loop.time())

    async def run(self) -> None:
        """Save for as long as this gateway runs."""
        while True:
            await asyncio.sleep(self._save_s)
            await self.save()

    async def save(self) -> None:
        """Save what has been used; what cannot be is saved with what comes, and told once.

        Where this is cancelled the thread goes on, and the next call waits for it and no more.
        """
        if self._writing is None:
            spent = self._allowances.take_unsaved()
            writing = self._loop.run_in_executor(None, self._store.add, spent, self._first_day())
            self._writing = writing
        try:
            totals = await asyncio.shield(self._writing)
        except RoostError as error:
            self._allowances.on_not_saved()
            if not self._failed:
                self._log.warning("usage_not_saved", reason=error.failure.message)
            self._failed = True
        else:
            self._failed = False
            self._allowances.on_saved(totals, self._loop.time())
        self._writing = None

    async def close(self) -> None:
        """Save the rest and let go of the file; nothing is used any more."""
        if self._writing is not None:
            await self.save()
        await self.save()
        self._store.close()

    def _first_day(self) -> int:
        return first_of_month(int(time.time() // DAY_S))
