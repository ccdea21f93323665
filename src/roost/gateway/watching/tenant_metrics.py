"""SHELL: who waits and who runs as gauges, under the names that tenants have in all metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.observe.metrics import Metrics


class TenantMetrics:
    """Keeps the series of tenants that have a request, and drops those of the others."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: set[tuple[str, str]] = set()

    def refresh(self, waiting: Iterable[str], running: Iterable[str]) -> None:
        """Count the tenant's label of every request that waits or runs."""
        sums = Counter((label, "waiting") for label in waiting)
        sums.update((label, "running") for label in running)
        for series, requests in sums.items():
            self._metrics("roost_tenant_live", *series).set(requests)
        for gone in self._told - set(sums):
            self._metrics.forget("roost_tenant_live", *gone)
        self._told = set(sums)
