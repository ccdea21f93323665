"""Session tokens: only ours, only for their tenant, only in time, with keys that change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.fence import Epoch
from roost.core.ids import ConversationKey, ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.gateway.reading.session_token import TOKEN_MAX_CHARS, Session, SessionKey, Signer

OLD, NEW = SessionKey("k1", b"o" * 32), SessionKey("k2", b"n" * 32)
TENANT = TenantId("key:1")
SESSION = Session(
    ConversationKey(b"c" * 16), Pin(NodeId("n1"), ModelId("m"), 77), Epoch(3, 0, "gw"), 1000, True
)


def test_a_token_says_what_was_signed() -> None:
    """Everything is in it, so a gateway that has never seen the client understands it."""
    token = Signer([OLD]).sign(TENANT, SESSION)
    assert Signer([OLD]).read(TENANT, token, 999.0) == SESSION
    assert token.isascii()
    assert len(token) < TOKEN_MAX_CHARS
    assert "key:1" not in token


def test_it_counts_until_it_expires() -> None:
    """Late is late, to the second."""
    token = Signer([OLD]).sign(TENANT, SESSION)
    assert Signer([OLD]).read(TENANT, token, 1000.0) == "expired"


def test_nobody_else_can_use_it() -> None:
    """To another tenant a good token is a forged one."""
    token = Signer([OLD]).sign(TENANT, SESSION)
    assert Signer([OLD]).read(TenantId("key:2"), token, 0.0) == "forged"
    assert Signer([OLD]).read(TenantId("key:"), token, 0.0) == "forged"


def test_keys_are_changed_in_turn() -> None:
    """The first key signs; a token of an older one counts while that key is still listed."""
    token = Signer([OLD]).sign(TENANT, SESSION)
    both = Signer([NEW, OLD])
    assert both.read(TENANT, token, 0.0) == SESSION
    assert both.sign(TENANT, SESSION).split(".")[1] == "k2"
    assert Signer([NEW]).read(TENANT, token, 0.0) == "unknown_key"
    impostor = SessionKey("k1", b"x" * 32)
    assert Signer([impostor]).read(TENANT, token, 0.0) == "forged"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "rs1",
        "rs1...",
        "rs1.k1.!!.??",
        "rs2.k1.AA.AA",
        "rs1.k1.A.A",
        "." * 2000,
        "ü.k1.a.b",
    ],
)
def test_nonsense_is_malformed(token: str) -> None:
    """Whatever comes in a header is read without an error."""
    assert Signer([OLD]).read(TENANT, token, 0.0) in {"malformed", "unknown_key"}


def test_a_signature_over_something_else_is_no_session() -> None:
    """A payload of another version, although signed, says nothing."""
    other = Signer([OLD])
    token = other.sign(TENANT, ("something", 1))  # type: ignore[arg-type]
    assert other.read(TENANT, token, 0.0) == "malformed"


@given(st.data())
def test_no_changed_character_goes_unnoticed(data: st.DataObject) -> None:
    """A token has one spelling, and every character of it counts."""
    token = Signer([OLD]).sign(TENANT, SESSION)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("ABCabc019-_.=% "))
    changed = token[:place] + letter + token[place + 1 :]
    found = Signer([OLD]).read(TENANT, changed, 0.0)
    assert (found == SESSION) is (changed == token)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("", b"s" * 32), ("a.b", b"s" * 32), ("k" * 33, b"s" * 32), ("k", b"s")],
)
def test_weak_keys_and_odd_ids_are_refused(name: str, secret: bytes) -> None:
    """A mistake in the settings is found at the start."""
    with pytest.raises(ValueError, match="key"):
        SessionKey(name, secret)


def test_a_signer_needs_a_key() -> None:
    """There is no signing with nothing."""
    with pytest.raises(ValueError, match="key"):
        Signer([])
