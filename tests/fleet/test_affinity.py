"""Hash chains of conversations and the table of their homes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, RuntimeId, TenantId
from roost.core.request import Message, Tool, ToolCall
from roost.fleet.choice.affinity import HASH_BYTES, Affinity, Home, chain, extend, spoken

T, M = TenantId("key:1"), ModelId("m")
HOME = Home(NodeId("a"), RuntimeId("m#1"))
MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "assistant"]),
        st.text(max_size=6),
        st.none() | st.text(max_size=2),
    ),
    max_size=5,
)


def talk(*contents: str) -> tuple[Message, ...]:
    """A conversation: a system prompt, then user and assistant by turns."""
    roles = ("system", *("user", "assistant") * len(contents))
    return tuple(
        Message(role, content)  # type: ignore[arg-type]
        for role, content in zip(roles, contents, strict=False)
    )


@given(messages=MESSAGES)
def test_chain_is_a_running_hash(messages: list[Message]) -> None:
    """Entry i depends on the first i + 1 messages alone, and every entry is 16 bytes."""
    whole = chain(T, M, messages)
    assert [len(key) for key in whole] == [HASH_BYTES] * len(messages)
    assert len(set(whole)) == len(whole)
    for end in range(len(messages)):
        assert chain(T, M, messages[: end + 1]) == whole[: end + 1]


def test_extend_continues_a_chain() -> None:
    """Hash of history + answer equals the entry the next turn's chain will have."""
    messages = talk("Be kind.", "Hello", "Hi!")
    assert extend(chain(T, M, messages[:2])[-1], "assistant", "Hi!") == chain(T, M, messages)[-1]


def test_outer_white_space_does_not_matter() -> None:
    """Clients trim answers before they send them back."""
    assert chain(T, M, talk("s", " Hello\n")) == chain(T, M, talk("s", "Hello"))
    assert chain(T, M, talk("s", "Hel lo")) != chain(T, M, talk("s", "Hello"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((T, M, talk("s", "u")), (TenantId("key:2"), M, talk("s", "u"))),
        ((T, M, talk("s", "u")), (T, ModelId("n"), talk("s", "u"))),
        ((T, M, (Message("user", "x"),)), (T, M, (Message("system", "x"),))),
        ((T, M, (Message("user", "x", "bo"),)), (T, M, (Message("user", "xbo"),))),
        ((TenantId("ab"), ModelId("c"), talk("s")), (TenantId("a"), ModelId("bc"), talk("s"))),
        ((T, M, talk("s", "u")), (T, M, talk("su", ""))),
    ],
)
def test_what_differs_hashes_differently(
    one: tuple[TenantId, ModelId, tuple[Message, ...]],
    other: tuple[TenantId, ModelId, tuple[Message, ...]],
) -> None:
    """Tenant, model, role, name and the borders between them all count."""
    assert not set(chain(*one)) & set(chain(*other))


def test_lone_surrogates_do_not_break_the_hash() -> None:
    """Text that JSON escapes can smuggle in is hashed like any other."""
    assert len(chain(T, M, (Message("user", "\ud800"),))) == 1


def test_longest_known_prefix_wins() -> None:
    """A later turn's home is better than an earlier one's."""
    table = Affinity(10, 100.0)
    hashes = chain(T, M, talk("s", "u1", "a1", "u2"))
    early = Home(NodeId("b"), None)
    table.remember(hashes[1], early, 0.0)
    assert table.lookup(hashes, 1.0) == early
    table.remember(hashes[2], HOME, 1.0)
    assert table.lookup(hashes, 2.0) == HOME
    assert table.lookup(hashes[:2], 2.0) == early
    assert table.lookup((), 2.0) is None


def test_a_shared_system_prompt_alone_never_matches() -> None:
    """Only whole histories are entered, so strangers with one preamble stay strangers."""
    table = Affinity(10, 100.0)
    mine = chain(T, M, talk("You are a helpful bot.", "my question"))
    table.remember(mine[-1], HOME, 0.0)
    table.remember(extend(mine[-1], "assistant", "my answer"), HOME, 0.0)
    yours = chain(T, M, talk("You are a helpful bot.", "your question"))
    assert yours[0] == mine[0]
    assert table.lookup(yours, 1.0) is None


def test_entries_expire() -> None:
    """KV does not last for ever, so neither does the memory of it."""
    table = Affinity(10, 100.0)
    table.remember(b"x", HOME, 0.0)
    assert table.lookup((b"x",), 99.9) == HOME
    assert table.lookup((b"x",), 100.0) is None
    assert len(table) == 0


def test_table_is_bounded_and_drops_the_least_recently_used() -> None:
    """A million conversations cost no more memory than the setting allows."""
    table = Affinity(2, 100.0)
    table.remember(b"1", HOME, 0.0)
    table.remember(b"2", HOME, 0.0)
    assert table.lookup((b"1",), 1.0) == HOME
    table.remember(b"3", HOME, 1.0)
    assert len(table) == 2
    assert table.lookup((b"2",), 1.0) is None
    assert table.lookup((b"1",), 1.0) == HOME


def test_calls_and_tools_are_part_of_a_history() -> None:
    """A turn is known again by its calls, however their JSON is spaced, and not by ids."""
    made = Message("assistant", "So:", calls=(ToolCall("a", "look", '{"at": 1}'),))
    back = Message("assistant", " So: ", calls=(ToolCall("b", "look", '{"at":1}'),))
    other = Message("assistant", "So:", calls=(ToolCall("a", "look", '{"at": 2}'),))
    tools = (Tool("look", "Looks.", "{}"),)
    begun = chain(T, M, (*talk("Be brief."), made), tools)
    assert begun == chain(T, M, (*talk("Be brief."), back), tools)
    assert begun[0] == chain(T, M, (*talk("Be brief."), other), tools)[0]
    assert begun[1] != chain(T, M, (*talk("Be brief."), other), tools)[1]
    assert begun[0] != chain(T, M, talk("Be brief."))[0]
    assert extend(begun[0], "assistant", spoken(made)) == begun[1]
