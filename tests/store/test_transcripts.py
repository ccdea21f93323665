"""Conversations on disk and in memory: order, removal, limits, other versions, damage."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roost.core.conversation import KeptConversation, SaidTurn, Summary
from roost.core.ids import ConversationKey, ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.errors import RoostError
from roost.store.conversations.transcripts import DAMAGED, STEPS, Shelf, open_disk, open_memory
from roost.store.home import Home
from roost.store.schema import prepare

TENANT = TenantId("key:1")
LARGE = 2**30


def key(name: str) -> ConversationKey:
    """A key as long as real ones."""
    return ConversationKey(name.encode().ljust(16, b"."))


def said(name: str, asked: str, answered: str, at_unix_s: float = 100.0) -> SaidTurn:
    """A complete turn on node n1."""
    pin = Pin(NodeId("n1"), ModelId("m"), len(asked))
    return SaidTurn(key(name), TENANT, name, pin, asked, answered, True, at_unix_s)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


@pytest.fixture(params=["disk", "memory"])
def shelf(request: pytest.FixtureRequest, home: Home) -> Iterator[Shelf]:
    """The same tables in both places."""
    made = Shelf(open_disk(home, LARGE) if request.param == "disk" else open_memory())
    yield made
    made.close()


def test_turns_come_back_in_order(shelf: Shelf) -> None:
    """What was said is what is recalled, with the newest pin and both times."""
    shelf.note(said("a", "one", "uno", 1.0))
    shelf.note(said("b", "other", "otro", 2.0))
    shelf.note(said("a", "two, longer", "dos", 3.0))
    kept = shelf.recall(key("a"))
    assert kept is not None
    texts = [(message.role, message.content) for message in kept.messages]
    assert texts == [
        ("user", "one"),
        ("assistant", "uno"),
        ("user", "two, longer"),
        ("assistant", "dos"),
    ]
    assert (kept.began_unix_s, kept.active_unix_s) == (1.0, 3.0)
    assert kept.pin == Pin(NodeId("n1"), ModelId("m"), 11)
    assert shelf.recall(key("nobody")) is None


@pytest.mark.parametrize(
    "damage",
    [
        "update turns set asked = cast(asked as blob)",
        "update turns set answered = cast(x'ff00fe' as text)",
        "update conversations set node = x'00'",
        "update conversations set model = cast(x'ff' as text)",
        "update conversations set tokens = 'many'",
        "update conversations set began_unix_s = x'00'",
        "update conversations set active_unix_s = 'long ago'",
    ],
)
def test_a_value_of_another_type_is_damage(home: Home, damage: str) -> None:
    """A changed byte can make a number of a text: that is no past, and the list can be read."""
    connection = open_disk(home, LARGE)
    shelf = Shelf(connection)
    shelf.note(said("a", "hello", "hi"))
    connection.execute(damage)
    with pytest.raises(RoostError) as caught:
        shelf.recall(key("a"))
    assert caught.value.failure == DAMAGED
    ((found, view),) = shelf.list(None)
    assert (found, view.name, view.turns) == (key("a"), "a", 1)
    kinds = (str, str, str, str, int, int, float, float)
    assert tuple(type(cell) for cell in msgspec.structs.astuple(view)) == kinds
    assert shelf.forget(key("a"))
    shelf.close()


def test_forgetting_removes_every_word(home: Home) -> None:
    """A removed conversation is gone from the table and from the bytes of the file."""
    shelf = Shelf(open_disk(home, LARGE))
    shelf.note(said("a", "SECRET-CANARY", "noted"))
    assert shelf.forget(key("a"))
    assert not shelf.forget(key("a"))
    assert shelf.recall(key("a")) is None
    assert list(shelf.turns()) == []
    shelf.close()
    assert b"SECRET-CANARY" not in (home.root / "conversations.db").read_bytes()


def test_old_ones_are_pruned_by_their_last_turn(shelf: Shelf) -> None:
    """Retention counts from the last turn, not from the first."""
    shelf.note(said("old", "x", "y", 10.0))
    shelf.note(said("lives", "x", "y", 10.0))
    shelf.note(said("lives", "x", "y", 30.0))
    assert shelf.prune(20.0) == 1
    assert shelf.recall(key("old")) is None
    assert shelf.recall(key("lives")) is not None


def test_the_longest_idle_go_first_when_memory_is_short(shelf: Shelf) -> None:
    """Shrinking stops as soon as the text fits, and says how many conversations it cost."""
    for number in range(5):
        shelf.note(said(f"c{number}", "x" * 100, "", float(number)))
    assert shelf.shrink(250) == 3
    assert [view.name for _, view in shelf.list(None)] == ["c4", "c3"]
    assert shelf.shrink(250) == 0


def test_a_tenant_lists_its_own(shelf: Shelf) -> None:
    """The list has counts and places, no text, the last active first, and nobody else's."""
    shelf.note(said("a", "one", "uno", 1.0))
    shelf.note(said("b", "one", "uno", 2.0))
    shelf.note(said("a", "two", "dos", 3.0))
    mine = [(view.name, view.turns) for _, view in shelf.list(TENANT)]
    assert mine == [("a", 2), ("b", 1)]
    assert shelf.list(TenantId("key:2")) == ()


def test_the_file_is_for_its_owner_alone(home: Home) -> None:
    """Prompts on disk have mode 0600, and so have the files of the log."""
    shelf = Shelf(open_disk(home, LARGE))
    shelf.begin()
    shelf.note(said("a", "x", "y"))
    shelf.commit()
    files = list(home.root.glob("conversations.db*"))
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    shelf.close()


def test_a_newer_schema_is_refused(home: Home) -> None:
    """A file of a newer roost is left as it is, and the message says what to do."""
    open_disk(home, LARGE).close()
    with sqlite3.connect(home.root / "conversations.db") as newer:
        newer.execute(f"pragma user_version = {len(STEPS) + 1}")
    newer.close()
    with pytest.raises(RoostError, match=r"newer roost .*Update roost") as caught:
        open_disk(home, LARGE)
    assert caught.value.failure.reason == "storage_error"


def test_a_damaged_file_is_refused(home: Home) -> None:
    """Damage is an error at the start, not an empty memory; the file stays for whoever mends it."""
    path = home.root / "conversations.db"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    before = path.read_bytes()
    with pytest.raises(RoostError) as caught:
        open_disk(home, LARGE)
    assert caught.value.failure.reason == "storage_error"
    assert str(home.root) not in caught.value.failure.message
    assert "conversations.db" in caught.value.failure.message
    assert path.read_bytes() == before


def test_a_limit_on_the_file_is_a_full_disk(home: Home) -> None:
    """SQLite says "full" at the limit, and what was there before stays readable."""
    shelf = Shelf(open_disk(home, 64 * 1024))
    shelf.note(said("a", "kept", "yes"))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        shelf.note(said("b", "x" * 100_000, ""))
    assert shelf.recall(key("a")) is not None
    shelf.close()


def test_what_was_removed_makes_no_others_give_way(shelf: Shelf) -> None:
    """Text that is gone does not count any more, however it went."""
    shelf.note(said("kept", "x" * 100, "y" * 100, 5.0))
    shelf.note(said("forgotten", "x" * 300, "y" * 300, 6.0))
    shelf.note(said("old", "x" * 300, "y" * 300, 1.0))
    assert shelf.forget(key("forgotten"))
    assert shelf.prune(2.0) == 1
    assert shelf.text_bytes == 200
    assert shelf.shrink(200) == 0
    assert shelf.recall(key("kept")) is not None


def test_what_is_undone_takes_no_room(shelf: Shelf) -> None:
    """The text of a turn that is rolled back is not counted; that of one that is committed is."""
    shelf.begin()
    shelf.note(said("a", "1234", "56"))
    shelf.commit()
    shelf.rollback()
    assert shelf.text_bytes == 6
    shelf.begin()
    shelf.forget(key("a"))
    shelf.note(said("b", "1", "2"))
    shelf.rollback()
    assert shelf.text_bytes == 6


def test_a_conversation_that_was_moved_is_where_it_is_now(shelf: Shelf) -> None:
    """Its place changes and nothing else, its age included; of what is not kept nothing is made."""
    shelf.note(said("a", "one", "uno", 1.0))
    before = shelf.recall(key("a"))
    moved = Pin(NodeId("n2"), ModelId("m"), 77)
    shelf.repin(key("a"), moved)
    shelf.repin(key("b"), moved)
    assert before is not None
    assert shelf.recall(key("a")) == msgspec.structs.replace(before, pin=moved)
    assert (shelf.owner(key("a")), shelf.owner(key("b"))) == (TENANT, None)


def recalled(shelf: Shelf, name: str, *, whole: bool = False) -> KeptConversation:
    """What is kept of a conversation of which something is kept."""
    kept = shelf.recall(key(name), whole=whole)
    assert kept is not None
    return kept


def test_a_summary_stands_for_turns_and_removes_none(shelf: Shelf) -> None:
    """A model goes on behind what is summarised; whoever reads it finds every word."""
    for number in range(5):
        shelf.note(said("a", f"q{number}", f"a{number}"))
    shelf.note(said("b", "other", "otro"))
    made = Summary("User: q0", 3, 5, "proactive", 900)
    assert shelf.summarise(key("a"), made, 120)
    kept = recalled(shelf, "a")
    assert [message.content for message in kept.messages] == ["q3", "a3", "q4", "a4"]
    assert (kept.summary, kept.skipped, kept.turns, kept.covered) == (made, 3, 5, 3)
    assert kept.pin.tokens == 120
    assert kept.compacted is not None
    whole = recalled(shelf, "a", whole=True)
    assert [message.content for message in whole.messages][:2] == ["q0", "a0"]
    assert (len(whole.messages), whole.summary, whole.skipped, whole.turns) == (10, made, 0, 5)
    assert recalled(shelf, "b").summary is None
    ((_, view), _) = shelf.list(TENANT)
    assert view.turns in {1, 5}
    shelf.note(said("a", "q5", "a5"))
    kept = recalled(shelf, "a")
    assert (kept.turns, kept.pin.tokens, kept.compacted) == (6, 2, None)


def test_the_newest_summary_counts_and_goes_with_its_conversation(shelf: Shelf) -> None:
    """One at a time; it counts as text, and nothing of it is left when the conversation is gone."""
    shelf.note(said("a", "question", "answer"))
    shelf.note(said("a", "question", "answer"))
    for text in ("a first one, which is long", "a second"):
        assert shelf.summarise(key("a"), Summary(text, 1, 2, "session_full", 5), 9)
    assert shelf.text_bytes == 2 * len("questionanswer") + len("a second")
    summary = recalled(shelf, "a").summary
    assert summary is not None
    assert summary.text == "a second"
    assert shelf.summarise(key("a"), None, 9)
    assert recalled(shelf, "a").summary is None
    assert recalled(shelf, "a").turns == 2
    assert shelf.text_bytes == 2 * len("questionanswer")
    assert not shelf.summarise(key("nobody"), Summary("x", 1, 2, "proactive", 5), 9)
    assert shelf.forget(key("a"))
    assert shelf.text_bytes == 0
    shelf.note(said("a", "q", "a"))
    assert recalled(shelf, "a").summary is None


def test_pruning_counts_summaries_too(shelf: Shelf) -> None:
    """What is removed for its age no longer counts, whatever it was."""
    shelf.note(said("old", "q", "a", 1.0))
    shelf.summarise(key("old"), Summary("text", 1, 1, "proactive", 5), 9)
    shelf.note(said("new", "q", "a", 9.0))
    assert shelf.prune(5.0) == 1
    assert shelf.text_bytes == 2


def test_a_damaged_summary_is_damage(shelf: Shelf) -> None:
    """A summary of a kind that nobody knows is never taken for one."""
    shelf.note(said("a", "q", "a"))
    made = Summary("text", 1, 1, "boredom", 5)  # type: ignore[arg-type]
    shelf.summarise(key("a"), made, 9)
    with pytest.raises(RoostError) as raised:
        shelf.recall(key("a"))
    assert raised.value.failure == DAMAGED


def test_a_file_of_the_first_schema_is_carried_over(home: Home) -> None:
    """Conversations from before there were summaries are there, and can have one."""
    old = sqlite3.connect(home.root / "conversations.db", isolation_level=None)
    prepare(old, STEPS[:1])
    shelf = Shelf(old)
    shelf.note(said("a", "q", "a"))
    shelf.close()
    shelf = Shelf(open_disk(home, LARGE))
    assert recalled(shelf, "a").turns == 1
    assert shelf.summarise(key("a"), Summary("text", 1, 1, "proactive", 5), 9)
    assert recalled(shelf, "a").covered == 1
    shelf.close()
