"""Who is let in: by key, by the key a coordinator was told, by join token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.cli.parts.access import COORDINATOR, OPERATOR, by_keys, by_tokens, or_key, sharer
from roost.core.allowance import Account, Allowance
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.front.access import Principal
from roost.store.credentials.keys import KeyStore
from roost.store.credentials.records import Share
from roost.store.credentials.tokens import TokenStore
from roost.store.database import Database
from roost.store.home import Home


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


def test_a_key_and_a_join_token_open_one_door_each(store: KeyStore, tmp_path: Path) -> None:
    """No token asks for a model, no key joins as a node, also an operator's; each has a name."""
    database = Database.open(Home.open(tmp_path / "home"))
    tokens = TokenStore(database)
    key, token = store.add("boss", "admin"), tokens.issue()
    asks, joins = by_keys(store, "127.0.0.1"), by_tokens(tokens)
    with_key = {b"authorization": f"Bearer {key.secret}".encode()}
    with_token = {b"authorization": f"Bearer {token.secret}".encode()}
    asked = asks(with_key)
    assert isinstance(asked, Principal)
    assert (asked.tenant, asked.role) == (key.record.tenant, "admin")
    assert joins(with_token) == Principal(TenantId(token.record.id), "node")
    for refused in (asks(with_token), joins(with_key), asks({}), joins({})):
        assert isinstance(refused, Failure)
        assert refused.reason == "unauthorized"
    tokens.revoke(token.record.id)
    assert isinstance(joins(with_token), Failure)
    database.close()


def test_a_key_brings_its_limits_and_its_salt(store: KeyStore) -> None:
    """All with one salt are one to nodes, by a name that no tenant has and that hides the salt."""
    limits = Allowance(at_once=3)
    one, two, other = (
        store.add(name, tenant=name, share=Share(allowance=limits, cache_salt=salt))
        for name, salt in (("a", "us"), ("b", "us"), ("c", ""))
    )
    asks = by_keys(store, "127.0.0.1")
    found = [asks({b"x-api-key": made.secret.encode()}) for made in (one, two, other)]
    first, second, third = [who for who in found if isinstance(who, Principal)]
    assert first.account == Account(one.record.id, "a", limits)
    assert first.shares_as == second.shares_as == sharer("us") != sharer("them")
    assert not first.shares_as.isprintable()
    assert "us" not in first.shares_as
    assert third.shares_as == ""
    door = or_key("told", asks)
    refused = door({b"x-api-key": one.secret.encode()})
    assert isinstance(refused, Failure), "a worker counts nothing"
