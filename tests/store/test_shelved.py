"""What a node finds of an earlier life: whole, old, spoilt or unfinished, and no guesses."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import NodeId, SessionId
from roost.errors import RoostError
from roost.store import shelved, states
from roost.store.home import Home
from roost.store.shelved import Found, reconcile
from tests.store.test_states import LABEL

NODE = NodeId("node-0123456789ab")
NOW = 1500


def put(folder: Path, number: int, saved_unix_s: int = 1000) -> None:
    """Write a state of this session."""
    source = folder.parent / "source"
    source.write_bytes(b"state %d" % number * 50)
    label = msgspec.structs.replace(LABEL, session=SessionId(number), saved_unix_s=saved_unix_s)
    states.write(source, folder, f"s{number}", label)


def sessions(found: Found) -> list[int]:
    """Which were found whole."""
    return [label.session for label in found.labels]


def names(folder: Path) -> list[str]:
    """Name what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_the_longest_unused_come_first_and_the_old_are_gone(tmp_path: Path) -> None:
    """In the order of their saving; what is older than the limit is removed."""
    folder = tmp_path / "kept"
    for number, at in ((1, 1300), (2, 1200), (3, 900), (10, 1100)):
        put(folder, number, at)
    found = reconcile(folder, NOW, ttl_s=600.0)
    assert (sessions(found), found.expired, found.quarantined) == ([10, 2, 1], 1, 0)
    assert not [name for name in names(folder) if name.startswith("s3.")]


def test_a_clock_that_went_back_costs_nothing(tmp_path: Path) -> None:
    """What was saved in the future is as good as new."""
    folder = tmp_path / "kept"
    put(folder, 1, NOW + 10_000)
    assert sessions(reconcile(folder, NOW, 600.0)) == [1]


@pytest.mark.parametrize("part", ["json", "state"])
def test_what_does_not_verify_is_put_aside(tmp_path: Path, part: str) -> None:
    """It is counted, not read again, and still there for a person to look at."""
    folder = tmp_path / "kept"
    put(folder, 1)
    put(folder, 2)
    path = folder / f"s1.{part}"
    path.write_bytes(path.read_bytes()[:-1])
    found = reconcile(folder, NOW, 600.0)
    assert (sessions(found), found.quarantined) == ([2], 1)
    assert names(folder / "quarantine") == ["s1.json", "s1.state"]
    assert reconcile(folder, NOW, 600.0) == Found(found.labels)


def test_a_label_under_another_name_is_put_aside(tmp_path: Path) -> None:
    """A copied file is not a second session."""
    folder = tmp_path / "kept"
    put(folder, 1)
    for part in ("json", "state"):
        (folder / f"s2.{part}").write_bytes((folder / f"s1.{part}").read_bytes())
    found = reconcile(folder, NOW, 600.0)
    assert (sessions(found), found.quarantined) == ([1], 1)


def test_there_is_a_limit_to_what_is_put_aside(tmp_path: Path) -> None:
    """Many that are spoilt do not fill a disk."""
    folder = tmp_path / "kept"
    for number in range(1, 13):
        put(folder, number)
        shelved.quarantine(folder, f"s{number}")
    assert len(names(folder / "quarantine")) == shelved.QUARANTINE_MAX
    assert names(folder) == ["quarantine"]


def test_the_folder_is_private_and_of_one_process(tmp_path: Path) -> None:
    """Others can neither look into it, nor use it as long as it is held."""
    home = Home.open(tmp_path)
    folder, held = shelved.hold(home, NODE)
    for path in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    with held, pytest.raises(RoostError, match="Another process"):
        shelved.hold(home, NODE)
    again, held = shelved.hold(home, NODE)
    held.close()
    assert again == folder


def test_folders_of_nodes_that_are_gone_age_as_well(tmp_path: Path) -> None:
    """What is too old there goes with the next start of any node; what somebody holds is his."""
    home = Home.open(tmp_path)
    gone, let_go = shelved.hold(home, NodeId("node-aaaaaaaaaaaa"))
    kept, held = shelved.hold(home, NodeId("node-bbbbbbbbbbbb"))
    for folder in (gone, kept):
        put(folder, 1, 1000)
        put(folder, 2, 1400)
        put(folder, 3, 1400)
        shelved.quarantine(folder, "s3")
    let_go.close()
    shelved.sweep(home, NOW, 300.0)
    assert sorted(path.name for path in gone.glob("s*")) == ["s2.json", "s2.state"]
    assert len(list(kept.glob("s*"))) == 4
    held.close()
    shelved.sweep(home, 2**40, 300.0)
    assert not list((tmp_path / "runtime-state").rglob("s*.*"))
    shelved.sweep(Home.open(tmp_path / "new"), NOW, 300.0)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_crash_at_any_byte_leaves_whole_states_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever a write had got to, what was there before is found, and nothing half is.

    A crash leaves a prefix of what a write does: of the payload under its working name, then the
    payload, then a prefix of the label under its working name, then the label.
    """
    folder = tmp_path_factory.mktemp("crash") / "kept"
    put(folder, 1)
    put(folder, 2)
    payload, label = ((folder / f"s2.{part}").read_bytes() for part in ("state", "json"))
    step = data.draw(st.integers(0, len(payload) + len(label) + 1))
    (folder / "s2.json").unlink()
    if step <= len(payload):
        (folder / "s2.state").unlink()
        (folder / "s2.part").write_bytes(payload[:step])
    elif step <= len(payload) + len(label):
        (folder / ".s2.json.0123.new").write_bytes(label[: step - len(payload)])
    else:
        (folder / "s2.json").write_bytes(label)
    found = reconcile(folder, NOW, 600.0)
    is_whole = step > len(payload) + len(label)
    assert sessions(found) == ([1, 2] if is_whole else [1])
    assert found.quarantined == 0
    assert names(folder) == [f"s{n}.{part}" for n in sessions(found) for part in ("json", "state")]


WRITER = """
import sys
from pathlib import Path
from roost.core.model import RuntimeOptions
from roost.store.states import Facts, Label, write
folder = Path(sys.argv[1])
facts = Facts("b", "m", "sha256:1", "build 7", "x86_64", RuntimeOptions())
source = folder.parent / "source"
source.write_bytes(b"state" * 50_000)
number = 0
while True:
    number += 1
    write(source, folder, f"s{number}", Label(number, facts, "t_1", b"12345678", 9, 1000))
    print(number, flush=True)
"""
KILLS = 3


def test_a_writer_killed_outright_leaves_a_store_that_loads(tmp_path: Path) -> None:
    """After kill -9 in mid-write all that it had said is whole, and the rest is cleared away."""
    folder = tmp_path / "kept"
    for kill in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            said = [int(writer.stdout.readline()) for _ in range(10 + kill)]
            os.kill(writer.pid, signal.SIGKILL)
        found = reconcile(folder, NOW, 600.0)
        assert found.quarantined == 0
        assert set(said) <= set(sessions(found))
        for label in found.labels:
            name, kin = f"s{label.session}", label.facts.kin
            states.checked(folder, name, kin, label.known, label.tokens)
            states.remove(folder, name)
