"""The verbs that only look into ROOST_HOME: models, pull, keys, token, config."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from roost.cli import main
from roost.core.allowance import Spent
from roost.store.credentials.keys import KeyStore
from roost.store.credentials.tokens import TokenStore
from roost.store.credentials.usage import UsageStore
from roost.store.database import Database
from roost.store.home import Home
from tests.store.gguf_writer import tiny
from tests.store.hub import Page, running_hub

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path) -> str:
    """An empty ROOST_HOME as a flag's value."""
    return str(tmp_path / "home")


def said(capsys: Capture) -> object:
    """Decode what was printed as JSON."""
    return msgspec.json.decode(capsys.readouterr().out)


def exit_code(arguments: list[str]) -> object:
    """Run a verb and give its exit code, also where the parser of flags ends it."""
    try:
        return main.run(arguments)
    except SystemExit as ended:
        return ended.code


def test_a_file_is_pulled_listed_shown_and_removed(
    home: str, tmp_path: Path, capsys: Capture
) -> None:
    """The whole life of a model on the command line."""
    source = tmp_path / "Tïny-Q4_1.gguf"
    source.write_bytes(tiny())
    assert main.run(["pull", "--home", home, f"file:{source}", "--json"]) == 0
    manifest = said(capsys)
    assert isinstance(manifest, dict)
    name = manifest["id"]
    assert main.run(["models", "--home", home, "--json"]) == 0
    assert [model["id"] for model in msgspec.convert(said(capsys), list[dict[str, object]])] == [
        name
    ]
    assert main.run(["models", "show", name, "--home", home]) == 0
    assert said(capsys) == manifest
    assert main.run(["models", "rm", name, "--home", home]) == 0
    capsys.readouterr()
    assert main.run(["models", "show", name, "--home", home]) == 2
    assert source.exists()


@pytest.mark.parametrize("source", ["nonsense", "file:/does/not/exist.gguf", "hf:one", ""])
def test_a_source_that_is_none_is_a_clear_mistake(home: str, source: str, capsys: Capture) -> None:
    """Exit code 2 and one line, no traceback."""
    assert main.run(["pull", "--home", home, source]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("roost pull: ")
    assert "Traceback" not in shown


def test_a_key_is_shown_once_and_revoked(home: str, capsys: Capture) -> None:
    """The key works until it is revoked; lists never show it."""
    assert main.run(["keys", "add", "me", "--home", home, "--json"]) == 0
    made = said(capsys)
    assert isinstance(made, dict)
    store = KeyStore(Database.open(Home.open(Path(home))))
    assert store.check(made["key"]) is not None
    assert main.run(["keys", "list", "--home", home]) == 0
    listed = capsys.readouterr().out
    assert made["id"] in listed
    assert made["key"] not in listed
    created = store.list()[0].created_unix_s
    assert datetime.fromtimestamp(created).astimezone().strftime("%Y-%m-%d %H:%M") in listed
    assert str(created) not in listed
    assert main.run(["keys", "revoke", made["id"], "--home", home]) == 0
    assert store.check(made["key"]) is None
    assert main.run(["keys", "revoke", made["id"], "--home", home]) == 1
    assert main.run(["keys", "add", "other", "--home", home]) == 0
    assert main.run(["keys", "revoke", "other", "--home", home]) == 0
    assert store.list() == ()
    assert store.any_keys()
    assert main.run(["keys", "forget", "--home", home]) == 0
    assert not store.any_keys()


def test_what_a_key_may_use_is_set_and_listed(home: str, capsys: Capture) -> None:
    """Limits are given with the key and changed later; the list has them, and what is used."""
    limits = ["--at-once", "2", "--tokens-per-day", "500", "--models", "a, b/c:1"]
    assert main.run(["keys", "add", "ci", "--home", home, "--json", *limits]) == 0
    key = msgspec.convert(said(capsys), dict[str, str])["id"]
    usage = UsageStore.open(Home.open(Path(home)))
    usage.add([Spent(key, int(time.time() // 86_400), 41)], 0)
    usage.close()
    assert main.run(["keys", "list", "--home", home]) == 0
    listed = capsys.readouterr().out
    for part in ("at_once=2", "tokens_per_day=500", "models=a,b/c:1", "tokens_this_month=41"):
        assert part in listed
    change = ["--at-once", "0", "--cache-salt", "us", "--weight", "2.5"]
    assert main.run(["keys", "set", "ci", "--home", home, *change]) == 0
    capsys.readouterr()
    assert main.run(["keys", "list", "--home", home, "--json"]) == 0
    (row,) = msgspec.convert(said(capsys), list[dict[str, object]])
    assert (row["at_once"], row["tokens_per_day"], row["models"]) == (0, 500, ["a", "b/c:1"])
    assert (row["cache_salt"], row["weight"], row["class_"]) == ("us", 2.5, "interactive")
    assert main.run(["keys", "set", "ci", "--home", home, "--models", ""]) == 0
    assert KeyStore(Database.open(Home.open(Path(home)))).list()[0].allowance.models == ()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["set", "ci"], 1),
        (["set"], 2),
        (["set", "file-x", "--at-once", "1"], 2),
        (["set", "ci", "--tenant", "x"], 2),
        (["add", "x", "--at-once", "-1"], 2),
        (["add", "x", "--at-once", "many"], 2),
        (["add", "x", "--tokens-per-day", "9999999999999"], 2),
    ],
)
def test_limits_that_cannot_be(home: str, arguments: list[str], code: int, capsys: Capture) -> None:
    """Nothing is made or changed, and the mistake is told."""
    assert exit_code(["keys", *arguments, "--home", home]) == code
    assert capsys.readouterr().err
    assert KeyStore(Database.open(Home.open(Path(home)))).list() == ()


def test_a_token_is_json_for_scripts(home: str, capsys: Capture) -> None:
    """`roost token --json` prints the token under its name; it is valid without a gateway."""
    assert main.run(["token", "--home", home, "--json"]) == 0
    made = said(capsys)
    assert isinstance(made, dict)
    store = TokenStore(Database.open(Home.open(Path(home))))
    assert store.check(made["token"]) is not None
    assert main.run(["token", "--home", home, "--revoke", made["id"]]) == 0
    assert store.check(made["token"]) is None


def test_config_says_where_a_setting_comes_from(home: str, capsys: Capture) -> None:
    """A flag is named as the source of its value; a wrong one is refused by name."""
    assert main.run(["config", "show", "--home", home, "--queue-length", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if line.startswith("queue.length"))
    assert line.split()[1:] == ["7", "requests", "--queue-length"]
    assert main.run(["config", "check", "--home", home, "--queue-length", "-1"]) == 2
    assert "--queue-length" in capsys.readouterr().err


def test_a_hub_of_ones_own_is_asked_with_its_token(
    home: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--hub-endpoint` and ROOST_HUB_TOKEN reach the hub, and the file is installed."""
    with running_hub() as hub:
        hub.pages["/org/repo/resolve/main/tiny.gguf"] = Page(tiny())
        monkeypatch.setenv("ROOST_HUB_TOKEN", "hf_secret")
        arguments = ["pull", "--home", home, "--hub-endpoint", hub.url, "hf:org/repo/tiny.gguf"]
        assert main.run(arguments) == 0
    assert "tiny installed" in capsys.readouterr().out
    assert {headers.get("Authorization") for _, headers in hub.seen} == {"Bearer hf_secret"}
