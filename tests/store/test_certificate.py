"""The certificate that a home makes for itself: once, for its owner alone, and replaceable."""

from __future__ import annotations

import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from roost.errors import RoostError
from roost.store.credentials.certificate import (
    Certificate,
    fingerprint_of,
    known_certificate,
    own_certificate,
    renewed_certificate,
)
from roost.store.home import Home

AT_ONCE = 6


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


def alternatives(own: Certificate) -> set[tuple[str, str]]:
    """Read the names of a certificate as a client of ours would see them."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(own.path)
    client.load_verify_locations(own.public)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (here, there, here):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = here.getpeercert()
    assert shown is not None
    return set(msgspec.convert(shown["subjectAltName"], tuple[tuple[str, str], ...]))


def test_of_many_who_ask_at_once_one_makes_it(home: Home) -> None:
    """All of them get the same, and one of them has made it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda _: own_certificate(home), range(AT_ONCE)))
    assert len({own.fingerprint for own in made}) == 1
    assert [own.is_new for own in made].count(True) == 1
    assert own_certificate(home).fingerprint == made[0].fingerprint
    assert [path.name for path in home.secrets.iterdir()] == ["tls.pem"]


def test_the_key_is_its_owners_and_the_rest_is_public(home: Home) -> None:
    """Mode 0600 for the file with the key; the other has the certificate and no key."""
    own = own_certificate(home)
    assert stat.S_IMODE(own.path.stat().st_mode) == 0o600
    assert "PRIVATE KEY" in own.path.read_text()
    assert "PRIVATE" not in own.public.read_text()
    der = ssl.PEM_cert_to_DER_cert(own.public.read_text())
    assert own.fingerprint == fingerprint_of(der)
    assert own.ends > datetime.now(UTC) + timedelta(days=3600)


def test_it_stands_for_names_and_addresses(home: Home) -> None:
    """Those that are given and those of this machine; what is neither cannot smuggle one in."""
    given = ["llm.example", "10.1.2.3", "x,DNS:bank.example", "a b", "", "*.own.example", "fd00::7"]
    found = alternatives(own_certificate(home, given))
    assert found >= {
        *(("DNS", "llm.example"), ("DNS", "*.own.example"), ("DNS", "localhost")),
        *(("IP Address", "10.1.2.3"), ("IP Address", "127.0.0.1")),
    }
    assert ("DNS", "bank.example") not in found


def test_another_one_takes_its_place(home: Home) -> None:
    """After that everybody is told the new one, and the public file is of it too."""
    assert known_certificate(home) is None
    first = own_certificate(home)
    second = renewed_certificate(home)
    assert first.fingerprint != second.fingerprint
    known = known_certificate(home)
    assert known is not None
    assert known.fingerprint == second.fingerprint
    der = ssl.PEM_cert_to_DER_cert(second.public.read_text())
    assert fingerprint_of(der) == second.fingerprint


def test_a_file_that_was_removed_is_made_again(home: Home) -> None:
    """Deleting `tls.pem` is a way to have another one; deleting the public file is none."""
    first = own_certificate(home)
    first.public.unlink()
    assert own_certificate(home).public.is_file()
    first.path.unlink()
    second = own_certificate(home)
    assert (second.is_new, second.fingerprint == first.fingerprint) == (True, False)


@pytest.mark.parametrize("damage", ["", "nonsense", "half", "swapped"])
def test_a_damaged_file_is_refused_and_not_replaced(home: Home, damage: str) -> None:
    """It may be all that nodes trust: whoever owns it decides."""
    own = own_certificate(home)
    text = own.path.read_text()
    other = renewed_certificate(home).path.read_text()
    key, mark, certificate = text.partition("-----BEGIN CERTIFICATE-----")
    contents = {
        "half": text[: len(text) // 2],
        "swapped": key + mark + other.partition(mark)[2],
    }
    own.path.write_text(contents.get(damage, damage))
    with pytest.raises(RoostError) as caught:
        own_certificate(home)
    assert caught.value.failure.reason == "storage_error"
    assert "Remove it" in caught.value.failure.message
    assert certificate


@pytest.mark.parametrize("openssl", ["no-such-openssl", "false"])
def test_without_openssl_there_is_a_way_out(home: Home, openssl: str) -> None:
    """The message names the other ways to have TLS, and nothing is left behind."""
    with pytest.raises(RoostError) as caught:
        own_certificate(home, openssl=openssl)
    assert "--tls-cert" in caught.value.failure.message
    assert list(home.secrets.iterdir()) == []
