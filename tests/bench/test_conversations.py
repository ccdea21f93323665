"""The figures of named conversations, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.bench.conversations import BAR_BYTES, measure

pytestmark = pytest.mark.drill


def test_an_idle_conversation_is_small_and_figures_make_sense(tmp_path: Path) -> None:
    """Memory for an idle one is within its bar; waits among others hold those alone."""
    found = measure(tmp_path, 500, 20, 10)
    assert 100 < found.registry_bytes < found.idle_bytes < BAR_BYTES
    assert found.few_us > 0
    assert found.many_us > 0
    assert found.slower == found.many_us / found.few_us
    assert 0 < found.alone_ms <= found.among_p99_ms * 50
    assert found.among_ms <= found.among_p99_ms
