"""What the worker API needs of the agent: budgets for prompts, and KV that is let go of."""

from __future__ import annotations

import msgspec

from roost.backends.base import SavedState
from roost.core.ids import TenantId
from roost.node.effects import Forget, Park
from tests.node.kit import ANSWER, FIRST, LINK, Node, open_message, reason_of


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
