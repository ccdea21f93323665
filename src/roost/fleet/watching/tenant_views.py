"""DECIDER: who waits and who is being served, by tenant, for people who look on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from roost.core.ids import TenantId
from roost.fleet.watching.views import QueueView

TENANTS_MAX = 64


class TenantLine(msgspec.Struct, frozen=True):
    """One tenant: how many of its requests wait and run, and since when the oldest one waits.

    `cost_tokens` is what those that wait will probably need.
    """

    tenant: TenantId
    waiting: int
    running: int
    oldest_seconds: float | None
    cost_tokens: int


class QueueByTenant(msgspec.Struct, frozen=True):
    """The line: `length` is everybody's, `left_out` counts tenants for which there is no row."""

    length: int
    tenants: tuple[TenantLine, ...]
    left_out: int = 0


def by_tenant(
    line: Iterable[QueueView], live: Iterable[TenantId], only: TenantId | None
) -> QueueByTenant:
    """Show the line, longest first; `live` names the tenant of every request, waiting or not.

    `only` is the tenant who asks, None for an operator, who sees all of them.
    """
    waiting: dict[TenantId, list[QueueView]] = {}
    length = 0
    for one in line:
        waiting.setdefault(one.tenant, []).append(one)
        length += 1
    alive = Counter(live)
    names = [name for name in {**waiting, **alive} if only in (None, name)]
    rows = [_row(name, waiting.get(name, []), alive[name]) for name in names]
    rows.sort(key=lambda row: (-row.waiting, -row.running, row.tenant))
    return QueueByTenant(length, tuple(rows[:TENANTS_MAX]), max(0, len(rows) - TENANTS_MAX))


def _row(tenant: TenantId, waiting: list[QueueView], live: int) -> TenantLine:
    oldest_s = max((one.waited_s for one in waiting), default=None)
    return TenantLine(
        tenant,
        len(waiting),
        max(0, live - len(waiting)),
        None if oldest_s is None else round(oldest_s, 3),
        round(sum(one.cost_tokens for one in waiting)),
    )
