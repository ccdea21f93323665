"""Who is let in: by key, by the key a coordinator was told, by join token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.cli.access import COORDINATOR, OPERATOR, by_keys, or_key
from roost.errors import Failure
from roost.gateway.front.access import Principal
from roost.store.database import Database
from roost.store.home import Home
from roost.store.keys import KeyStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    """A store without keys."""
    database = Database.open(Home.open(tmp_path / "home"))
    yield KeyStore(database)
    database.close()


def test_a_coordinator_gets_in_with_the_key_it_was_told(store: KeyStore) -> None:
    """It opens the door where keys are asked for, and makes nobody else welcome."""
    store.add("somebody")
    authorise = or_key("told", by_keys(store, "127.0.0.1"))
    assert authorise({b"authorization": b"Bearer told"}) == Principal(COORDINATOR)
    assert isinstance(authorise({}), Failure)
    assert isinstance(authorise({b"authorization": b"Bearer tol"}), Failure)
    assert isinstance(authorise({b"x-api-key": b"told too"}), Failure)


def test_where_nobody_needs_a_key_the_coordinator_has_its_name_still(store: KeyStore) -> None:
    """So that its sessions are its own, whatever address it comes from."""
    authorise = or_key("told", by_keys(store, "127.0.0.1"))
    assert authorise({b"x-api-key": b"told"}) == Principal(COORDINATOR)
    assert authorise({}) == OPERATOR
