"""Named conversations: turns in order and alone, idle times, limits, pins."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.fleet.conversations.effects import Begin, Gone, Refuse
from roost.fleet.conversations.registry import (
    ConversationCounts,
    Conversations,
    ConversationSettings,
    conversation_key,
)

A, B, C = (ConversationKey(name) for name in (b"a", b"b", b"c"))
R1, R2, R3, R4 = (RequestId(f"r{number}") for number in range(1, 5))
PIN = Pin(NodeId("n1"), ModelId("m"), 40)


def test_one_turn_runs_and_the_others_follow_in_order() -> None:
    """Turns of a conversation wait for each other; another conversation does not wait."""
    talks = Conversations(ConversationSettings())
    assert talks.on_turn(A, R1, 0.0) == [Begin(A, R1)]
    assert talks.on_turn(A, R2, 0.1) == []
    assert talks.on_turn(A, R3, 0.2) == []
    assert talks.on_turn(B, R4, 0.3) == [Begin(B, R4)]
    assert talks.counts() == ConversationCounts(active=2, idle=0, waiting=2)
    assert talks.on_ended(R1, PIN, 1.0) == [Begin(A, R2)]
    assert talks.pin(A) == PIN
    assert talks.on_ended(R2, None, 2.0) == [Begin(A, R3)]
    assert talks.pin(A) == PIN
    assert talks.on_ended(R3, None, 3.0) == []
    assert talks.state(A) == "idle"


def test_who_leaves_while_it_waits_is_passed_over() -> None:
    """A turn that waits and is given up begins never, and holds up nobody."""
    talks = Conversations(ConversationSettings())
    for number, request in enumerate((R1, R2, R3)):
        talks.on_turn(A, request, float(number))
    assert talks.on_ended(R2, None, 3.0) == []
    assert talks.on_ended(R2, None, 3.0) == []
    assert talks.on_ended(R1, None, 4.0) == [Begin(A, R3)]


def test_a_line_behind_one_conversation_is_bounded_in_number_and_time() -> None:
    """One too many is refused at once, and whoever has waited too long by the clock."""
    talks = Conversations(ConversationSettings(waiting=1, wait_s=10.0))
    talks.on_turn(A, R1, 0.0)
    talks.on_turn(A, R2, 1.0)
    (refused,) = talks.on_turn(A, R3, 2.0)
    assert isinstance(refused, Refuse)
    assert (refused.request, refused.failure.reason) == (R3, "conversation_busy")
    assert refused.failure.retry_after_s is not None
    assert talks.next_tick() == 11.0
    assert talks.on_tick(10.9) == []
    (late,) = talks.on_tick(11.0)
    assert isinstance(late, Refuse)
    assert (late.request, late.failure.reason) == (R2, "conversation_busy")
    assert talks.on_ended(R1, None, 12.0) == []


def test_idle_time_begins_when_the_answer_ends() -> None:
    """A stream that takes longer than the TTL is not swept away; idleness counts from its end."""
    talks = Conversations(ConversationSettings(idle_ttl_s=300.0))
    talks.on_turn(A, R1, 0.0)
    assert talks.on_tick(100_000.0) == []
    assert talks.state(A) == "active"
    talks.on_ended(R1, PIN, 100_000.0)
    assert talks.next_tick() == 100_300.0
    assert talks.on_tick(100_299.9) == []
    assert talks.on_tick(100_300.0) == [Gone(A, "idle")]
    assert talks.state(A) == "none"
    assert talks.pin(A) is None


def test_an_expired_one_begins_anew_even_before_the_tick() -> None:
    """A late clock does not bring back a pin that is over."""
    talks = Conversations(ConversationSettings(idle_ttl_s=300.0))
    talks.on_turn(A, R1, 0.0)
    talks.on_ended(R1, PIN, 1.0)
    assert talks.on_turn(A, R2, 400.0) == [Gone(A, "idle"), Begin(A, R2)]
    assert talks.pin(A) is None


def test_the_longest_idle_makes_room_and_active_ones_never() -> None:
    """At the limit idle ones go; where all are active, a newcomer is refused and told when."""
    talks = Conversations(ConversationSettings(most=2))
    talks.on_turn(A, R1, 0.0)
    talks.on_ended(R1, None, 1.0)
    talks.on_turn(B, R2, 2.0)
    assert talks.on_turn(C, R3, 3.0) == [Gone(A, "crowded"), Begin(C, R3)]
    (refused,) = talks.on_turn(A, R4, 4.0)
    assert isinstance(refused, Refuse)
    assert refused.failure.reason == "conversations_full"
    assert refused.failure.retry_after_s is not None
    assert talks.counts() == ConversationCounts(active=2, idle=0, waiting=0)


def test_a_lifetime_ends_the_pin_at_the_end_of_a_turn() -> None:
    """A stream may outlive the cap, its pin does not; the next life counts from there."""
    talks = Conversations(ConversationSettings(lifetime_s=1000.0, idle_ttl_s=300.0))
    talks.on_turn(A, R1, 0.0)
    talks.on_ended(R1, PIN, 999.0)
    assert talks.pin(A) == PIN
    talks.on_turn(A, R2, 1000.0)
    talks.on_ended(R2, PIN, 1100.0)
    assert talks.pin(A) is None
    talks.on_turn(A, R3, 1200.0)
    talks.on_ended(R3, PIN, 1300.0)
    assert talks.pin(A) == PIN


def test_a_pin_from_the_store_counts_only_while_it_is_fresh_and_nothing_is_newer() -> None:
    """After a restart the store knows; what this gateway has seen itself is newer."""
    talks = Conversations(ConversationSettings(idle_ttl_s=300.0))
    other = Pin(NodeId("n2"), ModelId("m"), 7)
    talks.on_turn(A, R1, 0.0)
    talks.on_recalled(A, PIN, 299.0)
    assert talks.pin(A) == PIN
    talks.on_ended(R1, None, 1.0)
    talks.on_turn(A, R2, 2.0)
    talks.on_recalled(A, other, 1.0)
    assert talks.pin(A) == PIN
    talks.on_turn(B, R3, 3.0)
    talks.on_recalled(B, other, 300.0)
    assert talks.pin(B) is None


def test_only_what_is_at_rest_can_be_forgotten() -> None:
    """Removing a conversation in mid-turn would let the turn bring half of it back."""
    talks = Conversations(ConversationSettings())
    talks.on_turn(A, R1, 0.0)
    assert not talks.on_forgotten(A)
    talks.on_ended(R1, PIN, 1.0)
    assert talks.on_forgotten(A)
    assert talks.state(A) == "none"
    assert talks.on_forgotten(B)


def test_work_takes_a_conversation_like_a_turn_and_only_an_idle_one() -> None:
    """Nobody talks meanwhile: a turn that comes waits, and begins when the work has ended."""
    talks = Conversations(ConversationSettings())
    smaller = Pin(PIN.node, PIN.model, 7)
    assert not talks.on_work(A, R4)
    talks.on_turn(A, R1, 0.0)
    assert not talks.on_work(A, R4)
    talks.on_ended(R1, PIN, 1.0)
    assert talks.on_work(A, R4)
    assert talks.state(A) == "active"
    assert not talks.on_work(A, R3)
    assert not talks.on_forgotten(A)
    assert talks.on_turn(A, R2, 2.0) == []
    assert talks.on_ended(R4, smaller, 3.0) == [Begin(A, R2)]
    assert talks.pin(A) == smaller


def test_the_largest_are_found_and_all_are_counted() -> None:
    """KV is counted by model as pins change and end; only idle conversations are offered."""
    talks = Conversations(ConversationSettings(idle_ttl_s=300.0))
    other = ModelId("m2")
    pins = {A: Pin(PIN.node, PIN.model, 40), B: Pin(PIN.node, PIN.model, 60)}
    for number, key in enumerate((A, B, C)):
        talks.on_turn(key, RequestId(f"x{number}"), 0.0)
        pin = pins.get(key, Pin(PIN.node, other, 50))
        talks.on_ended(RequestId(f"x{number}"), pin, float(number))
    assert talks.held() == {PIN.model: 100, other: 50}
    assert talks.largest(2) == [B, C]
    assert talks.largest(9) == [B, C, A]
    talks.on_turn(B, R1, 5.0)
    assert talks.largest(9) == [C, A]
    talks.on_ended(R1, Pin(PIN.node, PIN.model, 10), 6.0)
    assert talks.held() == {PIN.model: 50, other: 50}
    talks.on_tick(302.5)
    assert talks.held() == {PIN.model: 10, other: 0}


def test_names_of_two_tenants_are_two_conversations() -> None:
    """Keys are bound to the tenant, and parts cannot be shifted between tenant and name."""
    keys = {
        conversation_key(TenantId(tenant), name)
        for tenant, name in (("key:1", "x"), ("key:2", "x"), ("key:1x", ""), ("key:", "1x"))
    }
    assert len(keys) == 4
    assert {len(key) for key in keys} == {16}


IDLE_TTL_S, WAIT_S, MOST, WAITING = 50.0, 20.0, 3, 2


class ConversationMachine(RuleBasedStateMachine):
    """Any order of turns, endings, departures and ticks against naive books."""

    def __init__(self) -> None:
        super().__init__()
        self.talks = Conversations(
            ConversationSettings(
                most=MOST, waiting=WAITING, wait_s=WAIT_S, idle_ttl_s=IDLE_TTL_S, lifetime_s=1e9
            )
        )
        self.now = 0.0
        self.count = 0
        self.lines: dict[ConversationKey, list[tuple[RequestId, float]]] = {}
        self.idle: OrderedDict[ConversationKey, float] = OrderedDict()
        self.pins: dict[ConversationKey, Pin] = {}

    @rule(key=st.sampled_from([A, B, C, ConversationKey(b"d"), ConversationKey(b"e")]))
    def turn(self, key: ConversationKey) -> None:
        """A turn comes: it begins exactly if nobody else is in its conversation."""
        self.count += 1
        request = RequestId(f"r{self.count}")
        self.sweep()
        out = [e for e in self.talks.on_turn(key, request, self.now) if not isinstance(e, Gone)]
        line = self.lines.get(key, [])
        if not line:
            known = len(self.lines) + len(self.idle)
            if key not in self.idle and known >= MOST:
                if not self.idle:
                    assert [type(e) for e in out] == [Refuse]
                    return
                gone, _ = self.idle.popitem(last=False)
                self.pins.pop(gone, None)
            assert out == [Begin(key, request)]
            self.idle.pop(key, None)
            self.lines[key] = [(request, self.now)]
        elif len(line) > WAITING:
            assert [type(e) for e in out] == [Refuse]
        else:
            assert out == []
            line.append((request, self.now))

    @rule(key=st.sampled_from([A, B, C, ConversationKey(b"d"), ConversationKey(b"e")]))
    def work(self, key: ConversationKey) -> None:
        """Somebody works on a conversation: exactly if it is idle, and as if it were a turn."""
        self.count += 1
        job = RequestId(f"r{self.count}")
        assert self.talks.on_work(key, job) == (key in self.idle)
        if self.idle.pop(key, None) is not None:
            self.lines[key] = [(job, self.now)]

    @precondition(lambda self: self.lines)
    @rule(data=st.data(), pinned=st.booleans())
    def end(self, data: st.DataObject, pinned: bool) -> None:
        """Some turn ends or gives up; only the end of the first lets the next begin."""
        key = data.draw(st.sampled_from(sorted(self.lines)))
        line = self.lines[key]
        at = data.draw(st.integers(0, len(line) - 1))
        request, _ = line.pop(at)
        pin = Pin(NodeId("n"), ModelId("m"), self.count) if pinned else None
        out = self.talks.on_ended(request, pin, self.now)
        if at == 0 and pin is not None:
            self.pins[key] = pin
        assert out == ([Begin(key, line[0][0])] if at == 0 and line else [])
        if not line:
            del self.lines[key]
            self.idle[key] = self.now

    @rule(seconds=st.floats(0.0, 70.0))
    def tick(self, seconds: float) -> None:
        """Time passes: who waited too long is refused, who idled too long is gone."""
        self.now += seconds
        late = {
            request
            for line in self.lines.values()
            for request, since in line[1:]
            if since + WAIT_S <= self.now
        }
        out = self.talks.on_tick(self.now)
        assert {e.request for e in out if isinstance(e, Refuse)} == late
        assert [e.key for e in out if isinstance(e, Gone)] == self.sweep()
        for line in self.lines.values():
            line[:] = [entry for entry in line if entry[0] not in late]

    def sweep(self) -> list[ConversationKey]:
        """Who is gone by the clock."""
        gone = [key for key, since in self.idle.items() if since + IDLE_TTL_S <= self.now]
        for key in gone:
            del self.idle[key]
            self.pins.pop(key, None)
        return gone

    @invariant()
    def agrees(self) -> None:
        """Counts, states and pins are those of the books."""
        waiting = sum(len(line) - 1 for line in self.lines.values())
        counts = ConversationCounts(len(self.lines), len(self.idle), waiting)
        assert self.talks.counts() == counts
        for key in self.lines:
            assert self.talks.state(key) == "active"
        for key in (*self.lines, *self.idle):
            assert self.talks.pin(key) == self.pins.get(key)
        known = (self.pins.get(key) for key in (*self.lines, *self.idle))
        held = sum(pin.tokens for pin in known if pin is not None)
        assert sum(self.talks.held().values()) == held
        idle = [key for key in self.idle if key in self.pins]
        assert set(self.talks.largest(MOST)) == set(idle)
        due = self.talks.next_tick()
        assert due is None or due <= self.now + IDLE_TTL_S


TestConversationMachine = ConversationMachine.TestCase
TestConversationMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
