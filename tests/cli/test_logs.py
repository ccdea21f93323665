"""`roost logs`: whose, how many lines, and what is no name."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from roost.cli.main import run
from roost.store.home import Home
from roost.store.runtime_logs import log_name

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A ROOST_HOME in which runtimes of two models have spoken."""
    made = Home.open(tmp_path / "home")
    for node, model, text in (
        ("node-a", "org/m", "one\ntwo\n\x1b[2Jthree\n"),
        ("node-b", "n", "n\n"),
    ):
        (made.logs / node).mkdir()
        (made.logs / node / log_name(model)).write_text(text)
    return made


def told(home: Home, capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Run the verb; return its exit code and what it said."""
    try:
        code = run(["logs", *arguments, "--home", str(home.root)])
    except SystemExit as end:
        code = int(str(end.code))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_last_lines_of_a_models_log(home: Home, capsys: Capture) -> None:
    """By the model's own name, whatever its file is called; a terminal is not told what to do."""
    assert told(home, capsys, "org/m", "-n", "2") == (0, "two\n\ufffd[2Jthree\n", "")
    assert told(home, capsys, "org/m", "--node", "node-a", "-n", "1")[1] == "\ufffd[2Jthree\n"


def test_what_counts_prompts_is_another_log(home: Home, capsys: Capture) -> None:
    """A model's name shows what its runtime said, however new the other one is."""
    other = home.logs / "node-a" / log_name("org/m", counts=True)
    other.write_text("counted\n")
    os.utime(other, (2**31, 2**31))
    assert told(home, capsys, "org/m", "-n", "1")[1] == "\ufffd[2Jthree\n"
    assert told(home, capsys, "org/m", "--vocabulary")[1] == "counted\n"
    assert "org/m --vocabulary" in told(home, capsys)[1]
    listed = msgspec.json.decode(told(home, capsys, "--json")[1])
    assert (listed[0]["model"], listed[0]["vocabulary"]) == ("org/m", True)
    assert told(home, capsys, "n", "--vocabulary")[0] == 2


def test_without_a_name_they_are_listed(home: Home, capsys: Capture) -> None:
    """For people, and for scripts."""
    code, shown, _ = told(home, capsys)
    assert (code, "org/m" in shown, "node-b" in shown) == (0, True, True)
    listed = msgspec.json.decode(told(home, capsys, "--json")[1])
    assert {one["model"] for one in listed} == {"org/m", "n"}
    assert {
        one["model"]
        for one in msgspec.json.decode(told(home, capsys, "--json", "--node", "node-b")[1])
    } == {"n"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody",), "There are: "),
        (("n", "--node", "node-a"), "There are: org/m"),
        (("n", "-n", "-1"), "from 0 to"),
        (("n", "-n", "many"), "invalid int value"),
        (("-f",), "-f needs the name"),
        (("--vocabulary",), "--vocabulary needs the name"),
    ],
)
def test_what_cannot_be_shown(
    home: Home, capsys: Capture, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, and what there is."""
    code, shown, said = told(home, capsys, *arguments)
    assert (code, shown) == (2, "")
    assert words in said
