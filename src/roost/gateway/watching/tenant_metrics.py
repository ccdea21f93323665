"""DECIDER: who waits and who runs as gauges, under the names that tenants have in all metrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roost.gateway.watching.gauges import Series, Values


def of_tenants(waiting: Iterable[str], running: Iterable[str]) -> Values:
    """Count the tenant's label of every request that waits or runs."""
    sums: Counter[Series] = Counter(("roost_tenant_live", label, "waiting") for label in waiting)
    sums.update(("roost_tenant_live", label, "running") for label in running)
    return {**sums}
