"""`roost node` and its token: from a file, from the environment, or from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.cli.main import run
from roost.cli.parts.join_tokens import join_token
from roost.cli.parts.node import kept_alive
from roost.cli.verbs.node import gateway_address
from roost.config import Machine, Settings, load
from roost.errors import RoostError

TOKEN = "rt-abc"


def settings(environ: dict[str, str], **flags: str) -> Settings:
    """Settings from these sources."""
    return load(environ, flags, "", Machine(4, "/srv/roost")).settings


def test_a_token_comes_from_one_of_three_places(tmp_path: Path) -> None:
    """A file may end in a line feed, as editors and `roost token > FILE` leave it."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert join_token(settings({"ROOST_TOKEN": TOKEN})) == TOKEN
    assert join_token(settings({"ROOST_TOKEN_FILE": str(file)})) == TOKEN
    assert join_token(settings({}, token_file=str(file))) == TOKEN
    assert join_token(settings({"ROOST_TOKEN": "another"}, token=TOKEN)) == TOKEN


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "none is given"),
        (("--token", TOKEN, "--token-file", "x"), "two are given"),
        (("--token-file", "nothing-here"), "cannot be read (FileNotFoundError)"),
        (("--token-file", "empty"), "the file is empty"),
        (("--token-file", "binary"), "cannot be read (UnicodeDecodeError)"),
    ],
)
def test_a_node_without_one_token_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    """Exit code 2, and a line that names the ways there are."""
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    there = [str(tmp_path / flag) if flag in {"empty", "binary"} else flag for flag in flags]
    arguments = ("node", "--join", "http://127.0.0.1:1", "--home", str(tmp_path))
    assert run([*arguments, *there]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert TOKEN not in told


@pytest.mark.parametrize(
    ("token", "url", "words"),
    [
        (f"{TOKEN}.{'ab' * 32}", "http://llm.example:7878", "write https://HOST:PORT"),
        (TOKEN, "http://llm.example:7878", "--insecure-http"),
        (TOKEN, "http://[2001:db8::1]:7878", "--insecure-http"),
        (f"{TOKEN}.abcd", "https://llm.example:7878", "perhaps cut short"),
    ],
)
def test_a_token_is_not_sent_where_it_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], token: str, url: str, words: str
) -> None:
    """Beyond this machine it takes TLS, or being told; and half a token is none."""
    arguments = ("node", "--join", url, "--token", token, "--home", str(tmp_path))
    assert run([*arguments]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert token not in told


def test_what_a_token_says_of_the_gateway_goes_to_the_dialler() -> None:
    """The secret is shown, the fingerprint is kept; on loopback plain HTTP is as good as ever."""
    given = settings({}, token=f"{TOKEN}.{'AB' * 32}", ca_file="/ca")
    address = gateway_address(given, "https://llm.example")
    assert (address.token, address.pin, address.ca_file) == (TOKEN, "ab" * 32, "/ca")
    assert gateway_address(given, "http://127.0.0.1:7878").token == TOKEN
    waived = settings({}, token=TOKEN, insecure_http="true")
    assert gateway_address(waived, "http://llm.example").token == TOKEN


def test_how_long_models_are_kept_is_named_in_seconds() -> None:
    """The last = counts, -1 is for ever; what makes no sense is refused by name."""
    said = kept_alive(("a=1.5", "org/b:q4=x=0", "c=-1"))
    assert said == {"a": 1.5, "org/b:q4=x": 0.0, "c": -1.0}
    for text in ("a", "a=", "=2", "a=-2", "a=nan", "a=inf", "a=1d", "a=86401"):
        with pytest.raises(RoostError) as caught:
            kept_alive((text,))
        assert caught.value.failure.param == "runtime.keep_alive"


@pytest.mark.parametrize(
    "verb", [("serve",), ("node", "--join", "http://127.0.0.1:9", "--token", TOKEN)]
)
def test_a_time_that_makes_no_sense_ends_it_before_it_listens(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is answered by a node that could not be made."""
    assert run([*verb, "--runtime-keep-alive", "m=zz", "--home", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "--runtime-keep-alive m=zz" in told.err
    assert "listen" not in told.out + told.err
