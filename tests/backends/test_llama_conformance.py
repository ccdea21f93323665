"""The adapter of llama.cpp keeps every promise of the contract, with a binary that is a fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.testing.conformance import examine, failed, table
from tests.backends.subjects import fake_server


@pytest.mark.slow
async def test_promises_are_kept(tmp_path: Path) -> None:
    """Every case is kept: the backend claims all that the suite checks."""
    results = await examine(fake_server(tmp_path, prefill_ms=0.05, decode_ms=0.5, load_s=0.05))
    assert failed(results) == [], table(results)
    assert {result.status for result in results} == {"kept"}, table(results)
