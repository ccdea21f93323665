"""The scripted backend keeps every promise of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.testing.conformance import CASES, Case, check
from tests.backends.subjects import scripted


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_promise_is_kept(case: Case, tmp_path: Path) -> None:
    """The case passes, or is about something the backend does not claim."""
    result = await check(case, scripted(tmp_path))
    assert result.status != "broken", result.detail
    unclaimed = {
        *("log probabilities add up", "log probabilities survive the seam"),
        *("control tokens stay text", "one BOS", "biases are followed"),
    }
    assert (result.status == "kept") == (case.name not in unclaimed), result
