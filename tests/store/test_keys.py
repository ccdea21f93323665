"""Tests of API keys: made once, kept as hashes, checked from memory, revoked everywhere at once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from roost.core.allowance import Allowance
from roost.core.ids import TenantId
from roost.errors import RoostError
from roost.store.credentials.keys import KeyStore
from roost.store.credentials.records import KeyRecord, Share
from roost.store.database import Database
from roost.store.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new ROOST_HOME."""
    return Home.open(tmp_path / "home")


@pytest.fixture
def keys(home: Home) -> Iterator[KeyStore]:
    """An empty store of keys whose clock stands still."""
    database = Database.open(home)
    yield KeyStore(database, lambda: 1000.9)
    database.close()


def test_a_new_key_is_valid(keys: KeyStore) -> None:
    """A key has the form of a key, its record names it, and presenting it finds the record."""
    made = keys.add("laptop")
    assert re.fullmatch(r"sk-roost-[0-9a-f]{64}", made.secret)
    assert re.fullmatch(r"key-[0-9a-f]{12}", made.record.id)
    tenant = TenantId(f"key:{made.record.id}")
    assert made.record == KeyRecord(made.record.id, "laptop", tenant, "user", 1000)
    assert keys.check(made.secret) == made.record
    assert keys.list() == (made.record,)


def test_roles_and_tenants(keys: KeyStore) -> None:
    """A key may be an admin's, and several keys may share a tenant."""
    first = keys.add("Ünï", role="admin", tenant="team")
    second = keys.add("other", tenant="team")
    assert keys.check(first.secret) == first.record
    assert first.record.role == "admin"
    assert first.record.tenant == second.record.tenant == "team"


@pytest.mark.parametrize(
    "presented", ["", "sk-roost-", "sk-roost-" + "0" * 64, "x" * 10_000, "\ud800", "' or 1=1 --"]
)
def test_other_texts_are_no_keys(keys: KeyStore, presented: str) -> None:
    """Whatever else is presented, nothing is found."""
    keys.add("laptop")
    assert keys.check(presented) is None


def test_a_changed_character_is_another_key(keys: KeyStore) -> None:
    """Upper case, spaces and prefixes of a key are not the key."""
    secret = keys.add("laptop").secret
    for other in (secret.upper(), f"{secret} ", secret[:-1], f"Bearer {secret}"):
        assert keys.check(other) is None


@pytest.mark.parametrize(
    ("param", "arguments"),
    [
        ("name", ("", "user", None)),
        ("name", ("x" * 101, "user", None)),
        ("name", ("a\nb", "user", None)),
        ("role", ("a", "root", None)),
        ("tenant", ("a", "user", "t" * 101)),
        ("tenant", ("a", "user", "\0")),
    ],
)
def test_bad_fields_are_named(
    keys: KeyStore, param: str, arguments: tuple[str, str, str | None]
) -> None:
    """A key with a bad name, role or tenant is not made; the error says which it is."""
    with pytest.raises(RoostError) as caught:
        keys.add(*arguments)
    assert caught.value.failure.param == param
    assert keys.list() == ()


def test_revoking_ends_a_key_and_no_other(keys: KeyStore) -> None:
    """A revoked key is unknown; revoking again, or an unknown id, changes nothing."""
    one, two = keys.add("one"), keys.add("two")
    assert keys.revoke(one.record.id)
    assert not keys.revoke(one.record.id)
    assert not keys.revoke("key-unknown")
    assert not keys.revoke("' or '1'='1")
    assert keys.check(one.secret) is None
    assert keys.check(two.secret) == two.record


def test_a_key_is_needed_once_there_was_one(keys: KeyStore) -> None:
    """Revoking the last key does not open the door; forgetting it does, on purpose."""
    assert not keys.any_keys()
    made = keys.add("only")
    assert keys.any_keys()
    keys.revoke(made.record.id)
    assert keys.list() == ()
    assert keys.any_keys()
    assert keys.forget_revoked() == 1
    assert not keys.any_keys()


def test_other_processes_changes_count_at_once(home: Home, keys: KeyStore) -> None:
    """A key made or revoked elsewhere is valid or invalid here with the next question."""
    other_database = Database.open(home)
    other = KeyStore(other_database)
    assert not keys.any_keys()
    for _ in range(20):
        made = other.add("theirs")
        assert keys.any_keys()
        assert keys.check(made.secret) == made.record
        other.revoke(made.record.id)
        assert keys.check(made.secret) is None
    other_database.close()


def test_keys_survive_and_are_not_in_the_file(home: Home, keys: KeyStore) -> None:
    """A new process knows the key; no file of ROOST_HOME holds it."""
    made = keys.add("laptop")
    again = Database.open(home)
    assert KeyStore(again).check(made.secret) == made.record
    again.close()
    kept = b"".join(path.read_bytes() for path in home.root.glob("roost.db*"))
    assert b"laptop" in kept
    assert made.secret.encode() not in kept
    assert bytes.fromhex(made.secret.removeprefix("sk-roost-")) not in kept


def test_weight_and_class_are_the_keys(keys: KeyStore) -> None:
    """How well a key is served is kept with it; nonsense is refused by name."""
    made = keys.add("nightly", share=Share(0.25, "bulk"))
    assert (made.record.weight, made.record.class_) == (0.25, "bulk")
    assert keys.check(made.secret) == made.record
    for share, param in (
        (Share(weight=0.0), "weight"),
        (Share(weight=float("nan")), "weight"),
        (Share(weight=1e9), "weight"),
        (Share(class_="urgent"), "class"),
    ):
        with pytest.raises(RoostError) as refused:
            keys.add("x", share=share)
        assert refused.value.failure.param == param


def test_what_a_key_may_use_is_kept_and_changed(keys: KeyStore) -> None:
    """Limits and salt come back as they were; a change counts with the next question."""
    limits = Allowance(5, 1000, 2, 10_000, 100_000, ("smol", "naïve/m:1"))
    made = keys.add("ci", share=Share(allowance=limits, cache_salt="team"))
    found = keys.check(made.secret)
    assert found == made.record
    assert found is not None
    assert (found.allowance, found.cache_salt) == (limits, "team")
    assert keys.change(made.record.id, Share(2.0, "bulk", Allowance(at_once=1)))
    changed = keys.check(made.secret)
    assert changed is not None
    assert (changed.weight, changed.class_) == (2.0, "bulk")
    assert (changed.allowance, changed.cache_salt) == (Allowance(at_once=1), "")
    keys.revoke(made.record.id)
    assert not keys.change(made.record.id, Share())


@pytest.mark.parametrize(
    ("share", "param"),
    [
        (Share(allowance=Allowance(at_once=-1)), "at_once"),
        (Share(allowance=Allowance(tokens_per_day=10**13)), "tokens_per_day"),
        (Share(allowance=Allowance(models=("a", ""))), "models"),
        (Share(allowance=Allowance(models=("a",) * 101)), "models"),
        (Share(cache_salt="a\nb"), "cache_salt"),
    ],
)
def test_limits_that_are_none_are_named(keys: KeyStore, share: Share, param: str) -> None:
    """A key is not made with them, nor changed to them."""
    made = keys.add("me")
    for attempt in (
        partial(keys.add, "x", share=share),
        partial(keys.change, made.record.id, share),
    ):
        with pytest.raises(RoostError) as refused:
            attempt()
        assert refused.value.failure.param == param
    assert keys.list() == (made.record,)


def test_keys_of_the_first_schema_are_carried_over(home: Home) -> None:
    """A file that an older roost has written gains what is new, and loses nothing."""
    database = Database.open(home)
    made = KeyStore(database).add("old")
    database.close()
    with closing(sqlite3.connect(home.database)) as raw:
        raw.executescript(
            "alter table keys drop column weight; alter table keys drop column class;"
            " alter table keys drop column allowance; alter table keys drop column cache_salt;"
            " pragma user_version = 1;"
        )
    database = Database.open(home)
    record = KeyStore(database).check(made.secret)
    database.close()
    assert record == made.record
    assert record is not None
    assert (record.weight, record.class_) == (1.0, "interactive")
