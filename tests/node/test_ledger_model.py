"""The ledger against a naive list: who may go, who has to, and that bytes are never lent."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from roost.core.ids import RuntimeId
from roost.node.models.ledger import Ledger, Room, RoomSettings

MIN_RESIDENT_S = 5.0
DEVICES = ("host", "cuda")
BACKENDS = ("", "one", "many")


@dataclass
class Plain:
    """A runtime as anybody would write it down."""

    name: RuntimeId
    need: int
    device: str
    backend: str
    entered_s: float
    used_s: float
    ready_s: float | None = None
    may_go_s: float = 0.0
    leaving: bool = False
    pinned: bool = False
    busy: bool = False
    seen: bool = False


class Books(RuleBasedStateMachine):
    """Whatever happens to runtimes in whatever order; sizes are small numbers."""

    @initialize(
        most=st.sampled_from([0, 0, 3, 5]),
        max_bytes=st.sampled_from([0, 0, 40, 90]),
        kept=st.dictionaries(st.sampled_from(BACKENDS[1:]), st.integers(0, 8)),
    )
    def begin(self, most: int, max_bytes: int, kept: dict[str, int]) -> None:
        """An empty node."""
        self.most, self.max_bytes, self.kept = most, max_bytes, kept
        self.ledger = Ledger(RoomSettings(most, max_bytes, MIN_RESIDENT_S, kept=kept))
        self.plain: list[Plain] = []
        self.budgets: dict[str, int] = {}
        self.now, self.born = 0.0, 0

    @rule(need=st.integers(0, 40), device=st.sampled_from(DEVICES), of=st.sampled_from(BACKENDS))
    def load(self, need: int, device: str, of: str) -> None:
        """One more is wanted: it begins if there is room, and otherwise somebody may go."""
        pinned = {one.name for one in self.plain if one.busy}
        room = self.ledger.room(need, pinned, self.now, device, of)
        self.is_right(room, (need, device, of))
        if room == Room():
            self.born += 1
            name = RuntimeId(f"r{self.born}")
            self.ledger.enter(name, need, self.now, device, of)
            self.plain.append(Plain(name, need, device, of, self.now, self.now))
        elif room.why == "":
            for name in room.evict:
                self.ledger.leaving(name)
                self.named(name).leaving = True

    @rule(
        need=st.integers(1, 15),
        device=st.sampled_from(DEVICES),
        of=st.sampled_from(BACKENDS),
        later_s=st.floats(0, 20),
    )
    def arrive(self, need: int, device: str, of: str, later_s: float) -> None:
        """One is loaded, and soon old enough to go."""
        before = len(self.plain)
        self.load(need, device, of)
        for one in self.plain[before:]:
            one.ready_s = one.used_s = self.now
            one.may_go_s = self.now + (0.0 if self.is_brief(one) else MIN_RESIDENT_S)
            self.ledger.settled(one.name, self.now)
        self.now += later_s

    @rule(over=st.integers(0, 60), device=st.sampled_from(DEVICES))
    def relieve(self, over: int, device: str) -> None:
        """A pass would take the longest unused of those that may go, and no more than needed."""
        busy = {one.name for one in self.plain if one.busy}
        going = self.ledger.idle(device, over, busy, self.now)
        able = [one for one in self.plain if one.ready_s is not None and not one.pinned]
        able = [one for one in able if not one.busy and not one.leaving]
        able = [one for one in able if one.device == device and one.may_go_s <= self.now]
        able.sort(key=lambda one: one.used_s)
        expected, left = [], over
        while able and left > 0:
            first = able.pop(0)
            expected.append(first.name)
            left -= first.need
        assert list(going) == expected

    def is_brief(self, one: Plain) -> bool:
        """Whether it goes as soon as nobody uses it; the ledger says the same."""
        brief = one.backend in self.kept and self.kept[one.backend] == 0
        assert self.ledger.is_brief(one.name) == brief
        return brief

    def is_right(self, room: Room, need: tuple[int, str, str]) -> None:
        """Hold what the ledger says against every set that could go."""
        staying = [one for one in self.plain if not one.leaving]
        free = [one for one in staying if one.ready_s is not None and not one.busy]
        free = [one for one in free if not one.pinned]
        if self.fits(self.plain, need):
            assert room == Room()
        elif not self.fits([], need):
            assert room.why == "too_large"
        elif self.fits(staying, need):
            assert room.why == "leaving"
        elif not self.fits([one for one in staying if one not in free], need):
            assert room == Room("busy")
        else:
            gone = [self.named(name) for name in room.evict]
            assert all(one in free for one in gone)
            left = [one for one in staying if one not in gone]
            assert self.fits(left, need), "not enough would go"
            for one in gone:
                assert not self.fits([*left, one], need), "one would go in vain"
            latest = max(one.may_go_s for one in gone)
            assert room.why == ("" if latest <= self.now else "young")
            # Nobody who was used before the last to go could have gone in its place alone.
            newest = max(gone, key=lambda one: one.used_s)
            older = [one for one in free if one.used_s < newest.used_s and one.may_go_s <= latest]
            kept = [one for one in staying if one not in older]
            assert not self.fits(kept, need), "one that was used later goes"

    def fits(self, there: list[Plain], wanted: tuple[int, str, str]) -> bool:
        """Count, add up, compare."""
        need, device, of = wanted
        alike = [one for one in there if one.backend == of]
        if of in self.kept and len(alike) + 1 > max(1, self.kept[of]):
            return False
        total = need + sum(one.need for one in there)
        here = need + sum(one.need for one in there if one.device == device)
        few = not self.most or len(there) < self.most
        small = not self.max_bytes or total <= self.max_bytes
        return few and small and (device not in self.budgets or here <= self.budgets[device])

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """A load ends, well or not."""
        loading = [one for one in self.plain if one.ready_s is None]
        if not loading:
            return
        one = data.draw(st.sampled_from(loading))
        if data.draw(st.booleans()):
            one.ready_s = one.used_s = self.now
            stays_s = max(MIN_RESIDENT_S, self.now - one.entered_s)
            one.may_go_s = self.now + (0.0 if self.is_brief(one) else stays_s)
            self.ledger.settled(one.name, self.now)
        else:
            self.plain.remove(one)
            self.ledger.leave(one.name)

    @rule(data=st.data(), what=st.sampled_from(["use", "rest", "pin", "leave", "measure"]))
    def happen(self, data: st.DataObject, what: str) -> None:
        """Something happens to a runtime that is ready."""
        ready = [one for one in self.plain if one.ready_s is not None]
        if not ready:
            return
        one = data.draw(st.sampled_from(ready))
        match what:
            case "use" | "rest":
                one.busy, one.used_s = what == "use", self.now
                self.ledger.used(one.name, self.now)
            case "pin":
                one.pinned = not one.pinned
                self.ledger.pin(one.name, pinned=one.pinned)
            case "leave" if one.leaving:
                self.plain.remove(one)
                self.ledger.leave(one.name)
            case "measure":
                size = data.draw(st.integers(1, 40))
                assert self.ledger.measured(one.name, size)
                one.need, one.seen = max(size, one.need if one.seen else 0), True

    @rule(device=st.sampled_from(DEVICES), room=st.none() | st.integers(-20, 60))
    def weigh(self, device: str, room: int | None) -> None:
        """A memory is measured: all that are ready have taken theirs, loads have not."""
        seen = {one.name for one in self.plain if one.ready_s is not None}
        self.ledger.allow(device, room, seen)
        here = [one for one in self.plain if one.device == device and one.name in seen]
        if room is None:
            self.budgets.pop(device, None)
        else:
            self.budgets[device] = room + sum(one.need for one in here)

    @invariant()
    def no_backend_has_more_than_it_keeps(self) -> None:
        """Loads and those that are on their way out included."""
        for of, most in self.kept.items() if hasattr(self, "ledger") else ():
            assert sum(one.backend == of for one in self.plain) <= max(1, most)

    @invariant()
    def nothing_is_lent_twice(self) -> None:
        """What is missing for one more byte is what is there, less what may be."""
        for device in DEVICES if hasattr(self, "ledger") else ():
            here = sum(one.need for one in self.plain if one.device == device)
            budget = self.budgets.get(device)
            missing = 0 if budget is None else max(0, here + 1 - budget)
            assert self.ledger.short_bytes(1, device) == missing
            needs = [o.need for o in self.plain if o.device == device and o.ready_s is not None]
            assert self.ledger.sums(device)[0] == (None if 0 in needs else sum(needs))

    def named(self, name: RuntimeId) -> Plain:
        """One of them."""
        return next(one for one in self.plain if one.name == name)


def test_the_ledger_agrees_with_a_naive_list() -> None:
    """Room, who goes, in what order, and what is missing."""
    limits = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Books, settings=limits)
