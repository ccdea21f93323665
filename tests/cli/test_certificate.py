"""`roost token` and `roost certificate`: whose fingerprint is told, and when none is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.cli.main import run
from roost.cli.parts.own_tls import Secured, names, secured
from roost.config import Machine, load
from roost.store.credentials.certificate import known_certificate
from roost.store.credentials.tokens import TokenStore
from roost.store.database import Database
from roost.store.home import Home

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


def told(home: Home, capsys: Capture, *arguments: str) -> dict[str, str | None]:
    """Run a verb over the home and decode what it prints."""
    assert run([*arguments, "--home", str(home.root), "--json"]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=dict[str, str | None])


def test_a_token_makes_the_certificate_that_it_names(home: Home, capsys: Capture) -> None:
    """It needs no gateway; a second token names the same one."""
    first, second = told(home, capsys, "token"), told(home, capsys, "token")
    own = known_certificate(home)
    assert own is not None
    assert first["fingerprint"] == second["fingerprint"] == own.fingerprint
    assert told(home, capsys, "certificate")["fingerprint"] == own.fingerprint


@pytest.mark.parametrize(
    "flag", [("--no-pin",), ("--insecure-http",), ("--tls-cert=c", "--tls-key=k")]
)
def test_a_token_names_none_that_will_not_be_used(
    home: Home, capsys: Capture, flag: tuple[str, ...]
) -> None:
    """Where something else does TLS, or nothing, there is nothing to know the gateway by."""
    made = told(home, capsys, "token", *flag)
    assert made["fingerprint"] is None
    assert "." not in str(made["token"])
    assert known_certificate(home) is None


def test_a_running_gateway_says_how_it_is_known(home: Home, capsys: Capture) -> None:
    """One that was started with files of its own, or in the clear, is no case for a pin."""
    with home.record_instance("http://127.0.0.1:7878"):
        assert told(home, capsys, "token")["fingerprint"] is None
    with home.record_instance("https://10.0.0.1:7878", fingerprint="ab"):
        assert told(home, capsys, "token")["fingerprint"]


def test_it_names_every_host_that_is_answered_to(home: Home) -> None:
    """Without what else an operator may write of a host: its port, brackets, capitals."""
    hosts = "App.example.org:8443,[2001:db8::1]:8443"
    given = {"host": "10.0.0.2", "allowed_hosts": hosts}
    found = names(load({}, given, "", Machine(4, str(home.root))).settings)
    assert {"app.example.org", "2001:db8::1", "10.0.0.2"} <= set(found)


def test_another_certificate_is_a_word_away(home: Home, capsys: Capture) -> None:
    """Before there is one, showing it fails; renewing makes one, and says what to do next."""
    assert run(["certificate", "--home", str(home.root)]) == 2
    assert "roost token" in capsys.readouterr().err
    first = told(home, capsys, "certificate", "renew")
    assert run(["certificate", "renew", "--home", str(home.root)]) == 0
    shown = capsys.readouterr().out
    assert "roost token" in shown
    assert str(first["fingerprint"]) not in shown


def test_a_listener_takes_it_and_says_what_that_means(home: Home, capsys: Capture) -> None:
    """Where the old one was removed, nodes need new tokens, and the next start says so once."""
    database = Database.open(home)
    tokens = TokenStore(database)
    machine = Machine(4, str(home.root))
    beyond = load({}, {"host": "0.0.0.0"}, "", machine).settings
    first = secured(beyond, home, tokens)
    assert first.settings.tls_cert == first.settings.tls_key == str(home.secrets / "tls.pem")
    assert "it is new" not in capsys.readouterr().err
    tokens.issue()
    assert secured(beyond, home, tokens) == first
    assert "it is new" not in capsys.readouterr().err
    (home.secrets / "tls.pem").unlink()
    assert secured(beyond, home, tokens).fingerprint != first.fingerprint
    assert "make new ones with `roost token`" in capsys.readouterr().err
    for flags in ({}, {"insecure_http": "true"}, {"tls_cert": "c", "tls_key": "k"}):
        given = {"host": "0.0.0.0", **flags} if flags else {}
        others = load({}, given, "", machine).settings
        assert secured(others, home, tokens) == Secured(others)
    database.close()
