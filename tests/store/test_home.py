"""Tests of ROOST_HOME: folders, modes, node identities, secrets and records of what is running."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.files import locked, write_atomic
from roost.store.home import Home, Instance

CLAIM = """
import sys
from pathlib import Path
from roost.store.home import Home
home = Home.open(Path(sys.argv[1]))
node, held = home.claim_node()
record = home.record_instance("http://127.0.0.1:1")
sys.stdout.write(node + "\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def mode(path: Path) -> int:
    """Return the permission bits of a path."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new ROOST_HOME."""
    return Home.open(tmp_path / "home")


def test_folders_are_their_owners_alone(tmp_path: Path) -> None:
    """Everything is made with mode 0700, whatever is missing above it, and may exist already."""
    home = Home.open(tmp_path / "a" / "ünï")
    Home.open(home.root)
    folders = [home.root, *(path for path in home.root.iterdir() if path.is_dir())]
    assert len(folders) == 9
    assert {mode(folder) for folder in folders} == {0o700}


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way is a storage error that names no path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RoostError) as caught:
        Home.open(tmp_path / "file" / "home")
    assert caught.value.failure.reason == "storage_error"
    assert str(tmp_path) not in caught.value.failure.message


def test_two_holders_differ_and_a_restarted_one_is_itself_again(home: Home) -> None:
    """A node id is exclusive while held and comes back to the next who claims it."""
    first, held_first = home.claim_node()
    second, held_second = home.claim_node()
    assert first != second
    held_first.close()
    held_first.close()
    again, held_again = home.claim_node()
    assert again == first
    with held_again, held_second:
        assert home.claim_node()[0] not in {first, second}


def test_a_damaged_node_id_is_replaced(home: Home) -> None:
    """An id file with other content is no identity."""
    with home.claim_node()[1]:
        pass
    (home.nodes / "0" / "id").write_bytes(b"../../etc\xff")
    node, held = home.claim_node()
    held.close()
    assert node.startswith("node-")
    assert home.claim_node()[0] == node


@pytest.mark.slow
def test_a_killed_process_leaves_its_identity_and_no_record(home: Home) -> None:
    """A process that dies without a word frees its node id; its record is ignored and removed."""
    command = [sys.executable, "-c", CLAIM, str(home.root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        theirs = child.stdout.readline().strip()
        assert home.running_instance() == Instance("http://127.0.0.1:1", child.pid)
        mine, held = home.claim_node()
        assert theirs.startswith("node-")
        assert mine != theirs
        child.kill()
    assert home.running_instance() is None
    assert list(home.instances.iterdir()) == []
    with held:
        assert home.claim_node()[0] == theirs


def test_the_newest_instance_is_found(home: Home) -> None:
    """Client verbs meet the instance that began to listen last; closing takes its record away."""
    assert home.running_instance() is None
    with home.record_instance("http://127.0.0.1:7878", pid=41):
        newer = home.record_instance("http://127.0.0.1:7879", pid=42)
        os.utime(next(home.instances.glob("42-*")), ns=(2**62, 2**62))
        assert home.running_instance() == Instance("http://127.0.0.1:7879", 42)
        assert len(home.running_instances()) == 2
        newer.close()
        assert home.running_instance() == Instance("http://127.0.0.1:7878", 41)
    assert home.running_instance() is None


def test_records_that_nobody_holds_are_swept(home: Home) -> None:
    """A record without a living writer, whole or damaged, is removed when it is met."""
    for name, content in (("1.json", '{"url": "http://x", "pid": 1}'), ("2.json", "{")):
        (home.instances / name).write_text(content)
    assert home.running_instances() == []
    assert list(home.instances.iterdir()) == []


def test_secrets_are_random_kept_and_closed(home: Home) -> None:
    """A secret is made once, differs from others, and only its owner may read it."""
    first = home.secret("session-key")
    assert len(first) == 32
    assert Home.open(home.root).secret("session-key") == first != home.secret("other")
    assert {mode(path) for path in home.secrets.iterdir()} == {0o600}
    assert {path.name for path in home.secrets.iterdir()} == {"session-key", "other"}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "a" * 33, "x\0"])
def test_names_of_secrets_are_never_paths(home: Home, name: str) -> None:
    """Only short plain names are accepted."""
    with pytest.raises(ValueError, match="not a name"):
        home.secret(name)


def test_a_damaged_secret_is_refused(home: Home) -> None:
    """Half a key is not a key."""
    (home.secrets / "session-key").write_bytes(b"short")
    with pytest.raises(RoostError, match="damaged"):
        home.secret("session-key")


def test_atomic_writes_replace_and_leave_nothing_else(home: Home) -> None:
    """The new content is complete, its mode is as told, and no temporary file stays."""
    path = home.root / "file"
    write_atomic(path, b"one")
    write_atomic(path, b"two", mode=0o640)
    assert path.read_bytes() == b"two"
    assert mode(path) == 0o640
    with pytest.raises(RoostError):
        write_atomic(home.models, b"a folder is in the way")
    assert not list(home.root.glob(".*"))


def test_a_lock_can_be_taken_again(home: Home) -> None:
    """A lock is free after its block, also when the block failed."""
    path = home.locks / "x"
    with pytest.raises(KeyError), locked(path):
        raise KeyError
    with locked(path):
        pass


def test_every_start_of_a_gateway_is_one_higher(home: Home) -> None:
    """Also for processes that share the folder, and the id stays."""
    lives = [home.begin_life(), Home.open(home.root).begin_life(), home.begin_life()]
    assert [life.generation for life in lives] == [1, 2, 3]
    assert len({life.gateway for life in lives}) == 1


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"gateway":"../x","generation":3}', b'{"gateway":"","generation":-1}']
)
def test_a_damaged_count_begins_a_new_series(home: Home, damage: bytes) -> None:
    """Under a new id, so that no start is ever taken for another one."""
    before = home.begin_life()
    home.lives.write_bytes(damage)
    after = home.begin_life()
    assert after.generation == 1
    assert after.gateway != before.gateway
