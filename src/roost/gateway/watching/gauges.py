"""SHELL: gauges that come and go: what has a value has a series, and nothing else has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roost.observe.metrics import Metrics

Series: TypeAlias = tuple[str, ...]
"""A metric's name and the values of its labels."""

Values: TypeAlias = "dict[Series, float | None]"
"""What each series is; None where nobody knows, which is never 0."""


class Gauges:
    """Keeps the series as they were told last; what was told no more is gone."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: set[Series] = set()

    def refresh(self, values: Mapping[Series, float | None]) -> None:
        """Make these the series that there are."""
        known = {series: value for series, value in values.items() if value is not None}
        # Before anything is added: a name has room for so many series only.
        for gone in self._told - known.keys():
            self._metrics.forget(*gone)
        for series, value in known.items():
            self._metrics(*series).set(value)
        self._told = set(known)
