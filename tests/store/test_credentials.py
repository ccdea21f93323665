"""Tests of the form, hash and comparison of secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.store.credentials.secrets import TOKEN_PREFIX, hashed, matching, pinned, spell, unpinned


def test_a_secret_is_its_prefix_and_64_digits() -> None:
    """All 32 random bytes are spelled out; fewer are refused."""
    assert spell("sk-roost-", bytes(range(32))) == "sk-roost-" + bytes(range(32)).hex()
    with pytest.raises(ValueError, match="32"):
        spell("sk-roost-", b"short")


@given(st.lists(st.text(), unique=True, max_size=5), st.text())
def test_only_the_very_secret_matches(known: list[str], presented: str) -> None:
    """Any text is compared by its hash and meets its own entry or none."""
    table = [(hashed(secret), secret) for secret in known]
    assert matching(presented, table) == (presented if presented in known else None)


def test_long_texts_are_not_even_hashed() -> None:
    """What is longer than any secret matches nothing."""
    long = "x" * 513
    assert matching(long, [(hashed(long), "found")]) is None


def test_text_that_is_no_unicode_is_compared_too() -> None:
    """A lone surrogate, as a broken header may hold, is no crash."""
    assert matching("\ud800", [(hashed("a"), 1)]) is None


def test_a_token_may_name_a_certificate() -> None:
    """It is taken apart into the secret and the fingerprint, in lower case; or has none."""
    secret, digest = spell(TOKEN_PREFIX, bytes(32)), "AB" * 32
    assert unpinned(pinned(secret, digest)) == (secret, digest.lower())
    assert unpinned(secret) == (secret, "")


@pytest.mark.parametrize("rest", ["", "ab", "ab" * 31, "ab" * 33, "xy" * 32, "ab" * 32 + ".x"])
def test_a_token_that_was_cut_is_damaged(rest: str) -> None:
    """Half a fingerprint must not count as none."""
    with pytest.raises(ValueError, match="fingerprint"):
        unpinned(f"rt-abc.{rest}")


def test_every_hash_is_looked_at_wherever_the_match_is() -> None:
    """How many are compared does not tell which one it was; each comparison is constant in time."""
    for at in range(5):
        looked: list[int] = []

        def known(at: int = at, looked: list[int] = looked) -> Iterator[tuple[bytes, int]]:
            for place in range(5):
                looked.append(place)
                yield hashed("the key" if place == at else f"other {place}"), place

        assert matching("the key", known()) == at
        assert looked == [0, 1, 2, 3, 4]
