"""MACHINE: under which names tenants appear in metrics: a bounded number of them."""

from __future__ import annotations

OTHERS = "others"


class TenantLabels:
    """Gives the first `most` tenants their own name, and one name to all who come later.

    A name that was given stays: a series whose tenant changes would say nothing.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, tenant: str) -> str:
        """Return the label of a tenant."""
        if tenant not in self._known:
            if len(self._known) >= self._most:
                return OTHERS
            self._known.add(tenant)
        return tenant
