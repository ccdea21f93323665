"""Responses that are kept: whole, by tenant, along their chain, and gone when they are removed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from roost.core.ids import TenantId
from roost.core.request import Message, ToolCall
from roost.core.response import KeptResponse
from roost.errors import RoostError
from roost.store.conversations.journal import JournalSettings, Shelves
from roost.store.conversations.transcripts import Shelf, open_disk, open_memory
from roost.store.home import Home

US, THEM = TenantId("us"), TenantId("them")
ASKED = (Message("user", "q 歪"), Message("tool", "sun", call_id="c"))
ANSWERED = (Message("assistant", "a", reasoning="hm", calls=(ToolCall("c", "f", "{}"),)),)


def kept(name: str, previous: str = "", at_unix_s: float = 1.0) -> KeptResponse:
    """Make a response."""
    return KeptResponse(name, US, previous, ASKED, ANSWERED, b'{"id":1}', at_unix_s)


@pytest.fixture
def shelves(tmp_path: Path) -> Shelves:
    """Disk and memory as the journal has them."""
    disk = Shelf(open_disk(Home.open(tmp_path / "home"), 1 << 24))
    return Shelves(disk, Shelf(open_memory()), JournalSettings(memory_max_bytes=1 << 20))


def test_a_response_comes_back_as_it_was(shelves: Shelves) -> None:
    """To its tenant; to another one it does not exist, for reading and for removing."""
    shelves.keep_response(kept("r1"))
    assert shelves.response(US, "r1") == kept("r1")
    assert shelves.response(THEM, "r1") is None
    assert shelves.said_before(THEM, "r1") is None
    assert not shelves.forget_response(THEM, "r1")
    assert shelves.forget_response(US, "r1")
    assert shelves.response(US, "r1") is None


def test_what_was_said_is_read_along_the_chain(shelves: Shelves) -> None:
    """From the first to the last; where one is missing, nothing is said to be the whole."""
    for name, previous in (("r1", ""), ("r2", "r1"), ("r3", "r2")):
        shelves.keep_response(kept(name, previous))
    assert shelves.said_before(US, "r1") == (*ASKED, *ANSWERED)
    assert shelves.said_before(US, "r3") == (*ASKED, *ANSWERED) * 3
    assert shelves.forget_response(US, "r2")
    assert shelves.said_before(US, "r3") is None


def test_a_chain_in_a_circle_ends(shelves: Shelves) -> None:
    """As no writer makes one, it is damage, and is not followed for ever."""
    shelves.keep_response(kept("r1", "r2"))
    shelves.keep_response(kept("r2", "r1"))
    assert shelves.said_before(US, "r1") is None


def test_an_ill_disk_is_stood_in_for_by_memory(shelves: Shelves) -> None:
    """What came meanwhile goes on from what was there, and moves to the disk when that is well."""
    shelves.keep_response(kept("r1"))
    shelves.ill = True
    shelves.keep_response(kept("r2", "r1"))
    assert shelves.said_before(US, "r2") == (*ASKED, *ANSWERED) * 2
    assert shelves.heal()
    assert shelves.response(US, "r2") == kept("r2", "r1")
    assert not shelves.ill


def test_the_old_go_with_time_and_for_room() -> None:
    """By age, and in memory the oldest first where there is too much."""
    memory = Shelf(open_memory())
    for number in range(6):
        one = kept(f"r{number}", at_unix_s=float(number))
        memory.responses.keep(msgspec.structs.replace(one, body=b"x" * 1000))
    assert memory.prune(2.0) == 2
    assert memory.responses.find(US, "r1") is None
    assert memory.responses.shrink(1400) == 3
    assert memory.responses.find(US, "r5") is not None
    assert memory.responses.find(US, "r4") is None


def test_damage_is_told() -> None:
    """A value of another kind is no response, and no empty one either."""
    connection = open_memory()
    shelf = Shelf(connection)
    shelf.responses.keep(kept("r1"))
    connection.execute("update responses set asked = x'7b'")
    with pytest.raises(RoostError, match="damaged"):
        shelf.responses.find(US, "r1")
    connection.execute("update responses set asked = 3")
    with pytest.raises(RoostError, match="damaged"):
        shelf.responses.find(US, "r1")


def test_an_older_file_gets_the_table(tmp_path: Path) -> None:
    """A file of the schema before is brought to this one, with what it had."""
    home = Home.open(tmp_path / "home")
    open_disk(home, 1 << 24).close()
    path = home.root / "conversations.db"
    raw = sqlite3.connect(path)
    raw.executescript("drop table responses; pragma user_version = 2;")
    raw.close()
    shelf = Shelf(open_disk(home, 1 << 24))
    shelf.responses.keep(kept("r1"))
    assert shelf.responses.find(US, "r1") == kept("r1")
    shelf.close()
