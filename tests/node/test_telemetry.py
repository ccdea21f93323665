"""Telemetry: the node's memory and its runtimes', and never a failure for want of a figure."""

from __future__ import annotations

import os

from roost.backends.base import Telemetry
from roost.errors import fail
from roost.node.machine.telemetry import measure
from tests.node.kit import MODEL
from tests.node.tiny import TinyRuntime


class Silent(TinyRuntime):
    """A runtime that has just died."""

    async def telemetry(self) -> Telemetry:
        """There is nobody to ask."""
        raise fail("runtime_died", "it died")


async def test_memory_of_runtimes_is_added() -> None:
    """This process has some memory; each runtime adds what it knows, and nothing if it is gone."""
    alone, load_1m = await measure([])
    together, _ = await measure([TinyRuntime(MODEL), Silent(MODEL), TinyRuntime(MODEL)])
    assert alone is not None
    assert together is not None
    # The process itself may have grown between the two measurements, but not by this much.
    assert 2000 <= together - alone + 2000 < 64 * 1024 * 1024
    assert alone % os.sysconf("SC_PAGE_SIZE") == 0
    assert load_1m is not None
    assert load_1m >= 0
