"""Tests of the cache: what is listed, what is in use and stays, what a purge removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roost.core.conversation import SaidTurn
from roost.core.ids import ConversationKey, ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.errors import RoostError
from roost.store.cache import KINDS, Disk, Entry, entries, purge
from roost.store.conversations.transcripts import Shelf, open_disk
from roost.store.files import lock_now
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.store.scratch import scratch_folder
from tests.store.gguf_writer import tiny

WORDS = b"nobody should find this"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """An empty ROOST_HOME, and temporary space of its own."""
    temp = tmp_path / "temp"
    temp.mkdir()
    return Disk(Home.open(tmp_path / "home"), temp)


def left_behind(root: Path, name: str) -> Path:
    """Make the private folder of a process that was killed long ago."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "slot.bin").write_bytes(b"x" * 1000)
    (folder / "lock").touch()
    os.utime(folder / "lock", (1, 1))
    return folder


def said(home: Home) -> Path:
    """Keep one turn of a conversation."""
    shelf = Shelf(open_disk(home, 2**30))
    pin = Pin(NodeId("n"), ModelId("m"), 7)
    shelf.begin()
    shelf.note(
        SaidTurn(ConversationKey(b"k"), TenantId("t"), "c", pin, WORDS.decode(), "a", True, 1)
    )
    shelf.commit()
    shelf.close()
    return home.root / "conversations.db"


def found(disk: Disk) -> dict[str, str]:
    """Every entry's id, and why it has to stay."""
    return {one.id: one.in_use for one in entries(disk)}


def refusal(disk: Disk, entry: str) -> str:
    """Return the reason for which an entry is not removed."""
    with pytest.raises(RoostError) as caught:
        purge(disk, entry)
    return caught.value.failure.reason


def test_an_empty_home_has_nothing(disk: Disk) -> None:
    """Nothing is listed, and what is no id is found nowhere."""
    assert entries(disk) == ()
    for text in ("", "chat-kv/", "chat-kv/x", "downloads/../models", "models/m", *KINDS):
        assert refusal(disk, text) == "not_found"


@pytest.mark.parametrize("kind", ["chat-kv", "temp"])
def test_folders_of_killed_processes(disk: Disk, kind: str) -> None:
    """They are listed with their size and removed whole; nothing behind a link is."""
    root = disk.temp if kind == "temp" else disk.home.root / "sessions"
    folder = left_behind(root, "roost-dead")
    outside = disk.temp.parent / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (folder / "link").symlink_to(outside)
    (root / "roost-link").symlink_to(outside)
    (root / "roost-nobodys").mkdir()
    (one,) = entries(disk)
    assert (one.id, one.kind, one.in_use) == (f"{kind}/roost-dead", kind, "")
    assert one.size_bytes >= 1000
    purge(disk, one.id)
    assert not folder.exists()
    assert (outside / "precious").exists()
    assert (root / "roost-nobodys").exists()


def test_a_folder_in_use_stays(disk: Disk) -> None:
    """Whoever lives keeps its folder, also while it is too young to hold a lock."""
    root = disk.home.root / "sessions"
    with_lock = left_behind(root, "roost-alive")
    descriptor = lock_now(with_lock / "lock")
    assert descriptor is not None
    try:
        os.utime(with_lock / "lock", (1, 1))
        assert found(disk) == {"chat-kv/roost-alive": "in use"}
        assert refusal(disk, "chat-kv/roost-alive") == "bad_request"
    finally:
        os.close(descriptor)
    with scratch_folder(disk.temp) as young:
        name = f"temp/{Path(young).name}"
        assert found(disk)[name] == "just made"
        assert refusal(disk, name) == "bad_request"
        assert Path(young).is_dir()
    assert found(disk) == {"chat-kv/roost-alive": ""}


def test_unfinished_pulls(disk: Disk) -> None:
    """The parts of one source go together, and not while somebody pulls or imports."""
    folder = disk.home.downloads
    for name in ("abc-0.part", "abc-0.part.json", "abc-1.part", "import-1-0.gguf"):
        (folder / name).write_bytes(b"12345")
    assert {one.id: one.size_bytes for one in entries(disk)} == {
        "downloads/abc": 15,
        "downloads/import-1-0": 5,
    }
    assert not any(disk.home.locks.iterdir())
    held = [lock_now(disk.home.locks / name) for name in ("pull-abc", "importing")]
    for entry in ("downloads/abc", "downloads/import-1-0"):
        assert found(disk)[entry] == "in use"
        assert refusal(disk, entry) == "bad_request"
    for descriptor in held:
        assert descriptor is not None
        os.close(descriptor)
    for entry in ("downloads/abc", "downloads/import-1-0"):
        purge(disk, entry)
    assert list(folder.iterdir()) == []


def test_installed_models_are_no_cache(disk: Disk, tmp_path: Path) -> None:
    """Only files that no manifest names are listed; one that gets a manifest stays."""
    (tmp_path / "m.gguf").write_bytes(tiny())
    ModelStore(disk.home).add_file(tmp_path / "m.gguf", link=False)
    lost = disk.home.models / "lost"
    lost.mkdir()
    (lost / "model.gguf").write_bytes(tiny())
    assert found(disk) == {"orphans/lost": ""}
    assert refusal(disk, "orphans/m") == "not_found"
    (disk.home.manifests / "m.json").write_bytes(b"damaged")
    assert found(disk) == {"orphans/lost": ""}
    purge(disk, "orphans/lost")
    assert found(disk) == {}
    assert (disk.home.models / "m" / "model.gguf").exists()


def test_logs_go_when_they_are_old(disk: Disk) -> None:
    """What was written within a day stays."""
    for name in ("node-old", "node-new"):
        (disk.home.logs / name).mkdir()
        (disk.home.logs / name / "m.log").write_text("x")
    for path in (disk.home.logs / "node-old" / "m.log", disk.home.logs / "node-old"):
        os.utime(path, (1, 1))
    assert found(disk) == {"logs/node-new": "written within a day", "logs/node-old": ""}
    assert refusal(disk, "logs/node-new") == "bad_request"
    purge(disk, "logs/node-old")
    assert [path.name for path in disk.home.logs.iterdir()] == ["node-new"]


def test_what_was_said_is_gone_for_good(disk: Disk) -> None:
    """Not while a gateway runs; afterwards no byte of it is in any of its files."""
    path = said(disk.home)
    with disk.home.record_instance("http://127.0.0.1:1"):
        assert "running gateway" in found(disk)["chat-history/conversations"]
        assert refusal(disk, "chat-history/conversations") == "bad_request"
    assert any(WORDS in one.read_bytes() for one in disk.home.root.glob(f"{path.name}*"))
    purge(disk, "chat-history/conversations")
    assert not any(WORDS in one.read_bytes() for one in disk.home.root.glob(f"{path.name}*"))
    shelf = Shelf(open_disk(disk.home, 2**30))
    assert shelf.list(None) == ()
    shelf.close()


def test_an_entry_is_plain(disk: Disk) -> None:
    """What is listed can be written as JSON and asked for by its id."""
    left_behind(disk.temp, "roost-dead")
    (one,) = entries(disk)
    assert one == Entry("temp/roost-dead", "temp", one.size_bytes, "")
