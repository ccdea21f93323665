"""What lives as long as the process is not searched for garbage."""

from __future__ import annotations

import gc

from roost.cli.lifetime import settle


def test_what_was_started_is_left_alone() -> None:
    """Everything that exists by then is set aside, and what comes later is not."""
    try:
        settle()
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        later: list[object] = []
        later.append(later)
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
