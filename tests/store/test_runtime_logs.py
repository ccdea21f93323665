"""Reading what runtimes have said: the last lines, and what is added."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.store.home import Home
from roost.store.runtime_logs import (
    Follower,
    file_name,
    last_lines,
    log_name,
    runtime_logs,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


@pytest.fixture
def log(home: Home) -> Path:
    """Where the log of a model of one node is; the folder is there, the file is not."""
    folder = home.logs / "node-0"
    folder.mkdir()
    return folder / "m.log"


def test_logs_are_listed_newest_first_with_all_their_bytes(home: Home, log: Path) -> None:
    """Full ones count for their model; other files are none."""
    assert runtime_logs(home) == []
    for name, size, at in (("m.log", 3, 100), ("m.log.1", 5, 50), ("n.log", 7, 200), ("x", 9, 1)):
        (log.parent / name).write_bytes(b"x" * size)
        os.utime(log.parent / name, (at, at))
    found = runtime_logs(home)
    assert [(one.model, one.node, one.size_bytes) for one in found] == [
        ("n", "node-0", 7),
        ("m", "node-0", 8),
    ]


@given(st.text(max_size=30))
def test_names_of_files_stay_in_their_folder(name: str) -> None:
    """Whatever a model is called."""
    made = file_name(name)
    assert "/" not in made
    assert not made.startswith(".")


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=2, unique=True))
def test_no_two_logs_have_one_name(names: list[str]) -> None:
    """Whatever models are called, and whether it is the runtime's or what counts prompts."""
    made = {log_name(name, counts=counts) for name in names for counts in (False, True)}
    assert len(made) == 4
    for name in made:
        assert "/" not in name
        assert not name.startswith(".")
        assert len(name) <= 140


@pytest.mark.parametrize("model", ["org/m:1", "..", "%2E", "a+vocabulary", "Ä ö"])
def test_a_log_tells_whose_it_is(home: Home, model: str) -> None:
    """The name of its file is read back."""
    (home.logs / "node-0").mkdir()
    for counts in (False, True):
        (home.logs / "node-0" / log_name(model, counts=counts)).write_text("x")
    found = runtime_logs(home)
    assert {(one.model, one.counts) for one in found} == {(model, False), (model, True)}


def test_last_lines_go_back_into_full_logs(log: Path) -> None:
    """As many as asked for, in order, and fewer where there are fewer."""
    log.write_bytes(b"5\n6")
    (log.parent / "m.log.1").write_bytes(b"3\n4\n")
    (log.parent / "m.log.2").write_bytes(b"1\n2\n")
    (log.parent / "m.log.10").write_bytes(b"0\n")
    assert list(last_lines(log, 1)) == [b"6"]
    assert list(last_lines(log, 3)) == [b"4", b"5", b"6"]
    assert list(last_lines(log, 100)) == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert list(last_lines(log, 0)) == []


def test_what_is_added_is_read_across_a_change_of_files(log: Path) -> None:
    """The rest of the full one comes before the beginning of the next; nothing comes twice."""
    log.write_bytes(b"old\n")
    follower = Follower(log)
    assert follower.more() == b""
    with log.open("ab") as file:
        file.write(b"new\nlast of it\n")
    log.replace(log.parent / "m.log.1")
    log.write_bytes(b"another\n")
    assert follower.more() == b"new\nlast of it\n"
    assert follower.more() == b"another\n"
    assert follower.more() == b""
    follower.close()


def test_a_log_that_is_not_there_yet_is_waited_for(log: Path) -> None:
    """From its first byte; and one that was removed is followed when it is written anew."""
    follower = Follower(log)
    assert follower.more() == b""
    log.write_bytes(b"first\n")
    assert follower.more() == b"first\n"
    log.unlink()
    assert follower.more() == b""
    log.write_bytes(b"again\n")
    assert follower.more() == b"again\n"
    follower.close()
