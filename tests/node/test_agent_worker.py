"""What the worker API needs of the agent: budgets for prompts, and KV that is let go of."""

from __future__ import annotations

import msgspec

from roost.backends.base import SavedState
from roost.core.ids import TenantId
from roost.node.effects import Effect, Forget, Park, Restore
from roost.node.settings import AgentSettings
from roost.node.states.session_settings import SessionSettings
from tests.node.kit import ANSWER, FIRST, LINK, MODEL, Node, offer, open_message, reason_of


def test_a_prompt_over_its_budget_takes_no_slot() -> None:
    """Exactly as long is fine; one token more is refused before anything is computed."""
    node = Node()
    node.serve(1, 1, 2, 3)
    for stream, most in ((2, 3), (3, 2)):
        message = msgspec.structs.replace(open_message(stream), prompt_max=most)
        node.take(node.agent.on_message(LINK, message, node.now))
        node.prepared(stream, 1, 2, 3)
    refused, released = node.said(3)[-2:]
    assert reason_of(refused) == "context_length_exceeded"
    assert getattr(released, "phase", None) == "waiting"
    node.event(2, *ANSWER)
    node.closed(2)
    assert node.is_at_rest()


def test_what_is_forgotten_is_reused_by_nobody() -> None:
    """A tenant's slot counts as empty, others keep theirs; a busy one is left alone."""
    node = Node()
    node.serve(1, 1, 2, 3, tenant="a")
    node.serve(2, 7, 8, 9, tenant="b")
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    assert [slot.tokens for slot in node.agent.status().runtimes[0].slots] == [0, 5]
    assert not node.run(3, 1, 2, 3, tenant="a").reuse
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    node.event(3, *ANSWER)
    node.closed(3)
    assert node.run(4, 7, 8, 9, 10, tenant="b").reuse


def test_what_was_put_aside_is_forgotten_with_its_tenant() -> None:
    """Its file goes, and only its."""
    node = Node()
    node.run(1, *range(100), tenant="a")
    node.take(node.agent.on_states(FIRST, 10, node.now))
    node.event(1, *ANSWER)
    node.closed(1)
    node.serve(2, *range(200, 300), tenant="b")
    node.open(3, tenant="c")
    parks = [e for e in node.prepared(3, *range(400, 500)) if isinstance(e, Park)]
    assert len(parks) == 1
    park = parks[0]
    node.take(node.agent.on_parked(park.runtime, park.session, SavedState(100, 1000), node.now))
    node.fresh()
    node.take(node.agent.on_forget(TenantId("b"), node.now))
    assert not [e for e in node.fresh() if isinstance(e, Forget)]
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    assert [e for e in node.fresh() if isinstance(e, Forget)] == [Forget(FIRST, park.session)]


def _moving(*tenants: str) -> tuple[Node, list[Park | Restore]]:
    """Let tenants speak in turn in one slot, and the last of them wait for its content to move."""
    limits = SessionSettings(ram_bytes=100_000, disk_bytes=0, tokens_min=4)
    node = Node(AgentSettings("tiny", sessions=limits, max_in_flight=9), offer(MODEL, 1))
    node.take(node.agent.on_states(FIRST, 10, node.now))
    moves: list[Park | Restore] = []
    for stream, tenant in enumerate(tenants, 1):
        node.open(stream, tenant=tenant)
        if stream == 1:
            node.loaded()
        effects = node.prepared(stream, *(ord(tenant) + n for n in range(stream + 5)))
        moves = [one for one in effects if isinstance(one, Park | Restore)]
        if stream == len(tenants):
            break
        for move in moves:
            _saved(node, move)
        node.event(stream, *ANSWER)
        node.closed(stream)
        node.fresh()
    return node, moves


def _saved(node: Node, move: Park | Restore) -> list[Effect]:
    """A slot was written."""
    saved = SavedState(8, 80)
    node.take(node.agent.on_parked(move.runtime, move.session, saved, node.now))
    return node.fresh()


def test_what_is_being_written_is_forgotten_when_it_is() -> None:
    """A tenant that is told off while its slot is put aside leaves no file."""
    node, (park,) = _moving("a", "b")
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    assert node.fresh() == []
    assert Forget(FIRST, park.session) in _saved(node, park)
    assert node.agent.status().sessions.ram == 0


def test_a_slot_that_nobody_takes_after_its_move_is_empty() -> None:
    """Whoever it was written for has left too: nothing is kept of whom nobody asks for."""
    node, (park,) = _moving("a", "b")
    node.cancel(2)
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    _saved(node, park)
    assert node.agent.status().runtimes[0].slots[0].tokens == 0
    assert not node.run(3, *(ord("a") + n for n in range(6)), tenant="a").reuse


def test_what_is_being_brought_back_for_nobody_is_forgotten() -> None:
    """Its tenant has left and is forgotten while its file is read: slot and file are empty."""
    node, (park,) = _moving("a", "b", "a")
    (restore,) = (one for one in _saved(node, park) if isinstance(one, Restore))
    node.cancel(3)
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    node.take(node.agent.on_restored(restore, True, node.now))
    assert Forget(FIRST, restore.session) in node.fresh()
    assert node.agent.status().runtimes[0].slots[0].tokens == 0


def test_what_was_to_be_brought_back_is_forgotten_where_it_is() -> None:
    """It had to wait for another one to be written, and by then nobody wants it."""
    node, (park,) = _moving("a", "b", "a")
    node.cancel(3)
    node.take(node.agent.on_forget(TenantId("a"), node.now))
    kept = [one for one in _saved(node, park) if isinstance(one, Forget)]
    assert {one.session for one in kept} == {1, park.session}, "one unwanted, one still in its slot"
    assert node.agent.status().sessions.ram == 0
