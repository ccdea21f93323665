"""What keys have used, on disk: added up over processes, whole or not at all, for two months."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.core.allowance import Spent
from roost.errors import RoostError
from roost.store.credentials.usage import DAYS_KEPT, UsageStore
from roost.store.home import Home

TODAY = 20_787


def test_what_two_gateways_use_is_added_up(tmp_path: Path) -> None:
    """Each learns what the other has saved; a later process finds all of it."""
    home = Home.open(tmp_path / "home")
    one, two = UsageStore.open(home), UsageStore.open(home)
    assert one.add([Spent("a", TODAY, 5), Spent("b", TODAY - 1, 7)], TODAY - 9) == (
        Spent("a", TODAY, 5),
        Spent("b", TODAY - 1, 7),
    )
    assert two.add([Spent("a", TODAY, 2**40)], TODAY) == (Spent("a", TODAY, 5 + 2**40),)
    one.close()
    two.close()
    again = UsageStore.open(home)
    assert again.since(TODAY - 1) == (Spent("a", TODAY, 5 + 2**40), Spent("b", TODAY - 1, 7))
    again.close()
    assert (home.root / "usage.db").stat().st_mode & 0o777 == 0o600


def test_a_save_that_fails_has_saved_nothing(tmp_path: Path) -> None:
    """Whoever tries again with all of it counts nothing twice."""
    home = Home.open(tmp_path / "home")
    store = UsageStore.open(home)
    with pytest.raises(RoostError) as failed:
        # SQLite has no number of this size.
        store.add([Spent("a", TODAY, 1), Spent("a", TODAY, -1)], TODAY)
    assert failed.value.failure.reason == "storage_error"
    assert store.since(0) == ()
    store.close()


def test_old_days_are_forgotten(tmp_path: Path) -> None:
    """The file does not grow for ever."""
    store = UsageStore.open(Home.open(tmp_path / "home"))
    old = Spent("a", TODAY - DAYS_KEPT - 1, 1)
    store.add([old], old.day)
    assert store.since(0) == (old,)
    store.add([Spent("a", TODAY, 1)], TODAY)
    assert store.since(0) == (Spent("a", TODAY, 1),)
    store.close()
