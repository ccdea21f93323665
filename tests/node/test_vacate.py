"""A node to which nobody comes back: it keeps nothing idle, once all its gateways have said so."""

from __future__ import annotations

from roost.backends.base import SavedState
from roost.node.effects import Park
from tests.node.kit import ANSWER, FIRST, LINK, Node

OTHER = 2


def held(node: Node) -> list[int]:
    """Tokens in each slot."""
    return [slot.tokens for slot in node.agent.status().runtimes[0].slots]


def vacate(node: Node, link: int = LINK, *, vacant: bool = True) -> None:
    """A gateway says whether anybody comes back through it."""
    node.take(node.agent.on_vacate(link, vacant, node.now))


def test_a_vacant_node_keeps_nothing_idle() -> None:
    """Idle slots are empty at once, and what runs leaves nothing behind."""
    node = Node()
    node.serve(1, 1, 2, 3, tenant="a")
    node.run(2, 7, 8, 9, tenant="b")
    assert node.agent.status().vacant is False
    vacate(node)
    assert node.agent.status().vacant is True
    assert held(node) == [0, 0], "the other one has said nothing yet"
    node.event(2, *ANSWER)
    node.closed(2)
    assert held(node) == [0, 0]
    assert node.is_at_rest()


def test_what_was_put_aside_goes_too() -> None:
    """Files are sessions like slots."""
    node = Node()
    node.run(1, *range(100), tenant="a")
    node.take(node.agent.on_states(FIRST, 10, node.now))
    node.event(1, *ANSWER)
    node.closed(1)
    node.serve(2, *range(200, 300), tenant="b")
    node.open(3, tenant="c")
    (park,) = (e for e in node.prepared(3, *range(400, 500)) if isinstance(e, Park))
    node.take(node.agent.on_parked(park.runtime, park.session, SavedState(100, 1000), node.now))
    node.event(3, *ANSWER)
    node.closed(3)
    assert node.agent.status().sessions.ram == 1
    vacate(node)
    assert node.agent.status().sessions.ram == 0
    assert held(node) == [0, 0]


def test_one_gateway_does_not_speak_for_another() -> None:
    """What others may come back to stays, until they say so too, or are gone."""
    for leaves in (False, True):
        node = Node()
        node.take(node.agent.on_link_up(OTHER, node.now))
        node.serve(1, 1, 2, 3)
        vacate(node)
        assert (node.agent.status().vacant, held(node)[0]) == (False, 5)
        if leaves:
            node.take(node.agent.on_link_down(OTHER, node.now))
        else:
            vacate(node, OTHER)
        assert (node.agent.status().vacant, held(node)[0]) == (True, 0)


def test_whoever_comes_back_finds_a_node_that_keeps_things() -> None:
    """Undone by the same gateway, by a new link, and by the end of the one that had asked."""
    node = Node()
    vacate(node)
    vacate(node, vacant=False)
    node.serve(1, 1, 2, 3)
    assert held(node)[0] == 5
    vacate(node)
    node.take(node.agent.on_link_up(OTHER, node.now))
    assert node.agent.status().vacant is False
    node.take(node.agent.on_link_down(LINK, node.now))
    vacate(node, LINK)
    assert node.agent.status().vacant is False, "a link that is down says nothing"
    node.take(node.agent.on_link_down(OTHER, node.now))
    assert node.agent.status().vacant is False, "nobody there has asked for anything"
