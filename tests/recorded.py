"""DECIDER: whether a run of the suite is what was recorded of one."""

from __future__ import annotations

from collections.abc import Iterable

from roost.testing.conformance import Result
from tests.record import recorded


def differing(backend: str, results: Iterable[Result]) -> list[str]:
    """List the cases of a run that came out otherwise than the record says; see `tests.record`."""
    known = {case.name: case.status for case in recorded()[backend].cases}
    found = {one.case.name: one.status for one in results}
    return [name for name, status in known.items() if found.get(name, status) != status]
