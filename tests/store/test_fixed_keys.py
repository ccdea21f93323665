"""Keys and join tokens that settings name."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.allowance import Allowance
from roost.core.ids import TenantId
from roost.errors import RoostError
from roost.store.credentials.fixed_keys import read_keys, read_tokens
from roost.store.credentials.keys import KeyStore
from roost.store.credentials.records import KeyRecord
from roost.store.credentials.secrets import hashed, pinned
from roost.store.credentials.tokens import TokenStore
from roost.store.database import Database
from roost.store.home import Home

SECRET = "sk-very-secret-key-0001"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()


def table(**fields: object) -> str:
    """Write a `[[keys]]` table as the settings have it."""
    return json.dumps(fields)


def test_a_key_is_written_in_a_line_or_a_table() -> None:
    """In the clear or as its SHA-256: the same key, of a tenant of its own."""
    plain = (hashed(SECRET), KeyRecord("file-me", "me", TenantId("key:file-me"), "user", 0))
    for text in (
        f"me:{SECRET}",
        f"me:sha256:{DIGEST}",
        f"me:sha256:{DIGEST.upper()}",
        table(name="me", key=SECRET),
        table(name="me", sha256=DIGEST),
    ):
        assert read_keys([text]) == (plain,)


def test_a_table_says_what_the_verb_says() -> None:
    """Role, tenant, weight and class."""
    text = table(name="b", key=SECRET, role="admin", tenant="t", weight=2, **{"class": "bulk"})
    ((_, record),) = read_keys([text])
    assert record == KeyRecord("file-b", "b", TenantId("t"), "admin", 0, 2.0, "bulk")


def test_a_table_says_what_a_key_may_use() -> None:
    """Limits and a salt by the names that the verb has; what is none is refused."""
    limits = {"requests_per_minute": 9, "tokens_per_minute": 8, "at_once": 7}
    limits |= {"tokens_per_day": 6, "tokens_per_month": 5}
    text = table(name="b", key=SECRET, models=["x", "y"], cache_salt="us", **limits)
    ((_, record),) = read_keys([text])
    assert record.allowance == Allowance(9, 8, 7, 6, 5, ("x", "y"))
    assert record.cache_salt == "us"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["me"], "number 1 needs a key"),
        (["me:short"], "number 1 needs a key"),
        (["me:has a space in its middle"], "number 1 needs a key"),
        (["me:sha256:abc"], "number 1 needs a key"),
        ([f":{SECRET}"], "plain name"),
        ([f"a b:{SECRET}"], "plain name"),
        ([f"me:{SECRET}", f"me:{SECRET}2"], "one name"),
        ([f"me:{SECRET}", f"you:{SECRET}"], "the same key"),
        ([table(name="me", key=SECRET, sha256=DIGEST)], "needs a key"),
        ([table(name="me", key=SECRET, rôle="admin")], "there are name, key"),
        ([table(name="me", key=SECRET, role="king")], "a role is user or admin"),
        ([table(name="me", key=SECRET, weight=-1)], "weight"),
        ([table(name="me", key=SECRET, weight="heavy")], "wrong at"),
        ([table(name="me", key=SECRET, at_once=-1)], "at_once is a whole number"),
        ([table(name="me", key=SECRET, at_once=0.5)], "wrong at `$.at_once`"),
        ([table(name="me", key=SECRET, models="smol")], "wrong at `$.models`"),
        ([table(key=SECRET)], "there are name, key"),
        (["{"], "there are name, key"),
    ],
)
def test_what_is_no_key_is_refused_without_a_word_of_it(texts: list[str], words: str) -> None:
    """The message says which of them it is and what is missing, and never the secret."""
    with pytest.raises(RoostError) as caught:
        read_keys(texts)
    failure = caught.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "keys")
    assert words in failure.message
    assert SECRET not in failure.message


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_texts_are_keys_or_refused(texts: list[str]) -> None:
    """Nothing else can come of them."""
    with suppress(RoostError):
        assert len(read_keys(texts)) == len(texts)


def test_tokens_count_with_and_without_their_pin() -> None:
    """A token as it was printed, or its SHA-256; anything else is refused."""
    token = "rt-" + "ab" * 32
    expected = hashed(token)
    digest = hashlib.sha256(token.encode()).hexdigest()
    read = read_tokens([token, pinned(token, "cd" * 32), f"sha256:{digest}"])
    assert {kept for kept, _ in read} == {expected}
    for text in ("", "short", "sha256:xyz", "rt with spaces and more"):
        with pytest.raises(RoostError) as caught:
            read_tokens([token, text])
        assert "number 2" in caught.value.failure.message


def test_stores_count_both_and_a_door_once_closed_stays_closed(tmp_path: Path) -> None:
    """Keys of the settings come and go; without any key left nobody is let in unasked."""
    database = Database.open(Home.open(tmp_path / "home"))
    keys, tokens = KeyStore(database), TokenStore(database)
    assert not keys.any_keys()
    made = keys.add("stored")
    keys.use(read_keys([f"me:{SECRET}"]))
    found = keys.check(SECRET)
    assert found is not None
    assert (found.name, keys.check(made.secret)) == ("me", made.record)
    assert [record.name for record in keys.list()] == ["me", "stored"]
    assert keys.revoke(made.record.id)
    keys.forget_revoked()
    keys.use(())
    assert keys.check(SECRET) is None
    assert keys.any_keys()
    tokens.use(read_tokens(["rt-token-of-the-settings"]))
    assert tokens.check("rt-token-of-the-settings") is not None
    tokens.use(())
    assert tokens.check("rt-token-of-the-settings") is None
    database.close()
