"""A hosted library keeps every promise of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.testing.conformance import examine, failed, table
from tests.backends.subjects import toy
from tests.recorded import differing

UNCLAIMED = {
    *("states come back", "saving changes nothing", "states do not disturb", "states are shared"),
    *("bad states are refused", "a lost folder is made again"),
    *("answers are JSON", "schemas hold", "grammars hold", "bad formats are refused"),
    *("formats do not disturb", "biases are followed"),
    *("documents are scored", "bad documents are refused"),
}


@pytest.mark.slow
async def test_promises_are_kept(tmp_path: Path) -> None:
    """Every case is kept that is not about states, formats or scores, which it has not."""
    results = await examine(toy(tmp_path, prefill_ms=0.05, decode_ms=0.5, load_ms=20))
    assert failed(results) == [], table(results)
    assert differing("toy", results) == [], "python -m tests.record toy"
    assert {result.case.name for result in results if result.status != "kept"} == UNCLAIMED
