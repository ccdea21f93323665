"""Slots: the warmest free one is taken, never twice, and never another tenant's content."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.backends.base import SlotUse
from roost.core.ids import TenantId
from roost.core.snapshots import SlotView
from roost.node.slots import Slots, pack

ANN, BOB = TenantId("ann"), TenantId("bob")


def _take(slots: Slots, tokens: tuple[int, ...], tenant: TenantId) -> SlotUse | None:
    """Take a slot for this prompt, or None when every slot is taken."""
    found = slots.pick(pack(tokens), tenant)
    return None if found is None else slots.seat(found.slot, pack(tokens), tenant)


def _used(slots: Slots, tokens: tuple[int, ...], tenant: TenantId = ANN) -> SlotUse:
    """Take a slot and give it back with all its tokens in it."""
    use = _take(slots, tokens, tenant)
    assert use is not None
    slots.free(use.slot, tokens)
    return use


def test_a_next_turn_finds_its_own_slot() -> None:
    """The slot whose content the prompt continues is taken, wherever it is, and may be reused."""
    slots = Slots(3)
    taken = [_take(slots, (n, n, n, n), ANN) for n in (1, 2, 3)]
    for use in taken:
        assert use is not None
        slots.free(use.slot, (use.slot + 1,) * 4)
    assert _take(slots, (2, 2, 2, 2, 9), ANN) == SlotUse(1, reuse=True)
    assert _take(slots, (3, 3, 3, 3, 9, 9), ANN) == SlotUse(2, reuse=True)


def test_an_empty_slot_comes_before_an_unrelated_one() -> None:
    """Content is kept as long as there is room that holds nothing."""
    slots = Slots(2)
    assert _used(slots, (1, 2, 3)) == SlotUse(0, reuse=False)
    assert _used(slots, (7, 8, 9)) == SlotUse(1, reuse=False)


def test_a_shared_preamble_does_not_overwrite_a_conversation() -> None:
    """Four common tokens of twenty are not worth the other sixteen while a slot is empty."""
    slots = Slots(2)
    _used(slots, tuple(range(20)))
    assert _used(slots, (*range(4), 50)) == SlotUse(1, reuse=False)
    assert _used(slots, (*range(4), 50, 51)) == SlotUse(1, reuse=True)


def test_a_prefix_worth_half_the_slot_is_reused() -> None:
    """At half of what the slot holds, recomputing would cost more than is lost."""
    slots = Slots(2)
    _used(slots, tuple(range(20)))
    assert _used(slots, (*range(10), 50)) == SlotUse(0, reuse=True)


def test_the_oldest_goes_when_nothing_fits() -> None:
    """Without a warm or an empty slot the least recently used is taken."""
    slots = Slots(2)
    _used(slots, (1,))
    _used(slots, (2,))
    assert _used(slots, (3,)) == SlotUse(0, reuse=True)
    assert _used(slots, (4,)) == SlotUse(1, reuse=True)


def test_content_never_crosses_tenants() -> None:
    """Bob's identical prompt finds nothing of Ann's, not even in the slot he gets."""
    slots = Slots(1)
    _used(slots, (1, 2, 3), ANN)
    assert _used(slots, (1, 2, 3), BOB) == SlotUse(0, reuse=False)
    assert _used(slots, (1, 2, 3), BOB) == SlotUse(0, reuse=True)


def test_a_slot_keeps_its_tenant_even_when_nothing_is_known_of_it() -> None:
    """After a failure no token is known to be there, but what lies there is still Ann's."""
    slots = Slots(1)
    use = _take(slots, (1, 2, 3), ANN)
    assert use is not None
    slots.free(0, ())
    assert _take(slots, (1, 2, 3), BOB) == SlotUse(0, reuse=False)


def test_what_is_taken_is_not_given_again() -> None:
    """Busy and cleaning slots are out of reach until they are freed."""
    slots = Slots(2)
    assert _take(slots, (1,), ANN) is not None
    assert _take(slots, (1,), ANN) is not None
    assert _take(slots, (1,), ANN) is None
    slots.stop(0)
    assert [view.busy for view in slots.views()] == [True, True]
    assert _take(slots, (1,), ANN) is None
    slots.free(0, ())
    assert _take(slots, (2,), ANN) == SlotUse(0, reuse=False)


def test_who_left_before_it_began_has_changed_nothing() -> None:
    """What the tenant before had may lie there still, and nobody else is told of it."""
    slots = Slots(1)
    _used(slots, (1, 2, 3))
    for _ in range(2):
        assert _take(slots, (1, 2, 3), BOB) == SlotUse(0, reuse=False)
        slots.stop(0)
        slots.free(0, (), held=0)
    assert _take(slots, (1, 2, 3), ANN) == SlotUse(0, reuse=False)


def test_views_tell_what_slots_hold() -> None:
    """A view is busy until the slot is free, and counts all tokens, known by id or not."""
    slots = Slots(2)
    _take(slots, (1, 2, 3), ANN)
    slots.note(0, 5)
    slots.stop(0)
    assert slots.views() == (SlotView(0, busy=True, tokens=5), SlotView(1, busy=False, tokens=0))
    slots.free(0, (1, 2, 3), held=7)
    assert slots.views()[0] == SlotView(0, busy=False, tokens=7)
    _take(slots, (1, 2, 3), ANN)
    slots.free(0, (1, 2))
    assert slots.views()[0] == SlotView(0, busy=False, tokens=2)


def test_mistakes_of_the_caller_are_asserted() -> None:
    """Freeing what is free, stopping what does not run, and no slots at all are defects."""
    with pytest.raises(AssertionError):
        Slots(0)
    with pytest.raises(AssertionError):
        Slots(1).free(0, ())
    with pytest.raises(AssertionError):
        Slots(1).stop(0)


TOKENS = st.lists(st.sampled_from([0, 1, -1, 2**31]), max_size=12).map(tuple)


@given(TOKENS, TOKENS)
def test_the_common_prefix_is_what_a_loop_would_find(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    """Reuse of the first slot happens exactly when the prefix is worth it; token by token."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    slots = Slots(2)
    _used(slots, one)
    expected = 0 if shared and 2 * shared >= len(one) else 1
    assert _take(slots, other, ANN) == SlotUse(expected, reuse=expected == 0)


class AgainstModel(RuleBasedStateMachine):
    """Slots against a model that knows only: who is on which slot, and whose content is where."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(3)
        self.busy: dict[int, tuple[int, ...]] = {}
        self.content: dict[int, tuple[TenantId, tuple[int, ...]]] = {}

    @rule(tokens=TOKENS, tenant=st.sampled_from([ANN, BOB]))
    def take(self, tokens: tuple[int, ...], tenant: TenantId) -> None:
        """A slot is given exactly when one is free; reuse means the tenant's own content."""
        use = _take(self.slots, tokens, tenant)
        assert (use is None) == (len(self.busy) == 3)
        if use is None:
            return
        assert use.slot not in self.busy
        owner, known = self.content.get(use.slot, (None, ()))
        assert use.reuse == (owner == tenant and known != ())
        empty = [n for n in range(3) if n not in self.busy and n not in self.content]
        assert use.reuse or not empty or use.slot in empty
        self.busy[use.slot] = tokens
        self.content[use.slot] = (tenant, ())

    @precondition(lambda self: bool(self.busy))
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """A stream leaves, perhaps having been stopped, with all, a part or nothing kept."""
        slot = data.draw(st.sampled_from(sorted(self.busy)))
        tokens = self.busy.pop(slot)
        if data.draw(st.booleans()):
            self.slots.stop(slot)
        kept = tokens[: data.draw(st.integers(0, len(tokens)))]
        self.slots.free(slot, kept)
        self.content[slot] = (self.content[slot][0], kept)

    @invariant()
    def views_agree(self) -> None:
        """What is reported is what the model knows."""
        for view in self.slots.views():
            assert view.busy == (view.slot in self.busy)


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=40, stateful_step_count=25)
