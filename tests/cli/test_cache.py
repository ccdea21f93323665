"""`roost cache`, as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.cli import main
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ROOST_HOME with an unfinished pull, a lost model and a history."""
    made = Home.open(tmp_path / "home")
    (made.downloads / "abc-0.part").write_bytes(b"12345")
    (made.models / "lost").mkdir()
    open_disk(made, 2**30).close()
    return made.root


def run(home: Path, *words: str) -> int:
    """Run `roost cache` over this ROOST_HOME."""
    return main.run(["cache", *words, "--home", str(home)])


def test_a_purge_is_a_preview_until_it_is_meant(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing goes without --execute, and what was said not even then without being named."""
    part = home / "downloads" / "abc-0.part"
    assert run(home, "list", "--kind", "downloads", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"id": "downloads/abc", "kind": "downloads", "size_bytes": 5, "in_use": ""}
    ]
    assert run(home, "purge", "--kind", "downloads") == 0
    shown = capsys.readouterr()
    assert "downloads/abc" in shown.out
    assert "--execute" in shown.err
    assert part.exists()
    assert run(home, "purge", "--kind", "downloads", "--execute") == 0
    assert not part.exists()
    assert run(home, "purge", "--kind", "chat-history", "--execute") == 0
    assert "chat-history" not in capsys.readouterr().out.replace("downloads", "")
    assert run(home, "purge", "chat-history/conversations") == 0
    assert "conversations" in capsys.readouterr().out
    assert run(home, "purge", "chat-history/conversations", "--execute") == 0
    assert "removed" in capsys.readouterr().out


def test_what_stays_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In bulk what is in use is passed over and told; by its id it is a mistake."""
    with Home.open(home).record_instance("http://127.0.0.1:1"):
        words = ("--kind", "chat-history", "--include-history", "--execute")
        assert run(home, "purge", *words) == 0
        assert "stays: in use by a running gateway" in capsys.readouterr().err
        assert run(home, "purge", "chat-history/conversations", "--execute") == 2
    assert run(home, "purge", "downloads/none") == 2
    assert "roost cache list" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("purge",), ("purge", "x", "--all"), ("list", "--kind", "x")])
def test_command_lines_that_are_none(home: Path, words: tuple[str, ...]) -> None:
    """A purge of nothing, or of one thing and everything, ends with 2."""
    with pytest.raises(SystemExit) as ended:
        run(home, *words)
    assert ended.value.code == 2
