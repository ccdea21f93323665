"""Tests of join tokens: many nodes may use one until it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.credentials.records import TokenRecord
from roost.store.credentials.secrets import pinned
from roost.store.credentials.tokens import TokenStore
from roost.store.database import Database
from roost.store.home import Home
from tests.conftest import Clock


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """The database of a new ROOST_HOME."""
    opened = Database.open(Home.open(tmp_path / "home"))
    yield opened
    opened.close()


@pytest.fixture
def tokens(database: Database, clock: Clock) -> TokenStore:
    """An empty store of tokens whose clock is cranked by hand."""
    return TokenStore(database, clock)


def test_a_token_admits_many(database: Database, tokens: TokenStore) -> None:
    """A token has the form of one and is valid as often as it is presented, also to others."""
    made = tokens.issue()
    assert re.fullmatch(r"rt-[0-9a-f]{64}", made.secret)
    assert made.record == TokenRecord(made.record.id, 1000, None)
    assert [tokens.check(made.secret) for _ in range(3)] == [made.record] * 3
    assert TokenStore(database).check(made.secret) == made.record
    assert tokens.list() == (made.record,)


def test_a_token_ends_on_time(tokens: TokenStore, clock: Clock) -> None:
    """It is valid to the end of its life and not a moment longer."""
    made = tokens.issue(60)
    clock.advance(59.9)
    assert tokens.check(made.secret) == made.record
    clock.advance(0.2)
    assert tokens.check(made.secret) is None
    assert tokens.list() == ()
    assert not tokens.revoke(made.record.id)


def test_revoking_ends_a_token_and_no_other(tokens: TokenStore) -> None:
    """A revoked token is unknown; others stay."""
    one, two = tokens.issue(), tokens.issue(60)
    assert tokens.revoke(one.record.id)
    assert not tokens.revoke(one.record.id)
    assert not tokens.revoke("token-unknown")
    assert tokens.check(one.secret) is None
    assert tokens.check(two.secret) == two.record


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf"), 1e12])
def test_lives_that_are_none(tokens: TokenStore, ttl_s: float) -> None:
    """A life has to be a positive number of seconds of at most ten years."""
    with pytest.raises(RoostError):
        tokens.issue(ttl_s)
    assert tokens.list() == ()


@pytest.mark.parametrize("presented", ["", "rt-", "rt-" + "0" * 64, "x" * 10_000])
def test_other_texts_are_no_tokens(tokens: TokenStore, presented: str) -> None:
    """Whatever else is presented, nothing is found."""
    tokens.issue()
    assert tokens.check(presented) is None


def test_a_token_is_good_with_what_it_says_of_the_gateway(tokens: TokenStore) -> None:
    """Who shows the fingerprint too, as older nodes and workers of system 1 do, is let in."""
    made = tokens.issue()
    assert tokens.check(pinned(made.secret, "ab" * 32)) == made.record
    assert tokens.check(pinned(made.secret[:-1], "ab" * 32)) is None
