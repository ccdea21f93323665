"""Seating and sessions against a world that answers in any order, and a model that keeps files.

The model knows what every slot and every file holds. It checks each effect as it is asked for:
nothing is moved in a slot that runs, no file is read that is not there, removed while it is in use
or given to another tenant, limits hold at every moment, and the least recently used goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from roost.backends.base import Prepared, SavedState
from roost.core.ids import RuntimeId, SessionId, TenantId
from roost.node.effects import Demote, Effect, Forget, Park, Restore, Run
from roost.node.floor.seating import Seating
from roost.node.slots import pack
from roost.node.states.parked import TAKEABLE, Parked
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions
from roost.node.stream import Stream
from tests.node.kit import key, open_message, request

RUNTIME = RuntimeId("m#1")
TOKEN_BYTES = 10
LIMITS = SessionSettings(
    ram_bytes=250,
    disk_bytes=180,
    parked_max=6,
    tokens_min=3,
    idle_s=40.0,
    disk_rest_s=5.0,
    shared_tokens_min=4,
)
Tokens = tuple[int, ...]


@dataclass
class File:
    """What is kept of a session: where, whose, and what is being done with it."""

    tenant: str
    tokens: Tokens
    used_at: float
    saving: bool = True
    in_ram: bool = True
    on_disk: bool = False
    demoting: bool = False
    restoring: bool = False
    # A copy for others, which a slot goes on with; and slots that are being filled from a copy.
    is_seed: bool = False
    readers: int = 0
    # It goes for another reason than want of room: it failed, or is in a slot again.
    excused: bool = False

    @property
    def size_bytes(self) -> int:
        return TOKEN_BYTES * len(self.tokens)


@dataclass
class Slot:
    """What a slot holds, who runs on it, and whether it is being moved."""

    tenant: str = ""
    tokens: Tokens = ()
    stream: Stream | None = None
    moving: bool = False


@dataclass
class Files:
    """All files, and what the effects of one step may still explain."""

    all: dict[SessionId, File] = field(default_factory=dict)
    expired: bool = False


class World(RuleBasedStateMachine):
    """Three slots, two tenants, an operator, conversations that go on and fork."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = Sessions(LIMITS)
        self.sessions.on_states(RUNTIME, TOKEN_BYTES)
        self.seating = Seating(RUNTIME, 3, self.sessions)
        self.now = 0.0
        self.streams = 0
        self.waiting: list[Stream] = []
        self.slots = [Slot(), Slot(), Slot()]
        self.files = Files()
        self.parking: dict[SessionId, int] = {}
        self.restoring: dict[int, Restore] = {}
        self.talks: dict[str, list[Tokens]] = {"a": [], "b": []}

    # What is asked for.

    def perform(self, effects: list[Effect]) -> None:
        """Do what is asked and look for what may not be."""
        for effect in effects:
            match effect:
                case Park():
                    self.park(effect)
                case Restore():
                    self.restore(effect)
                case Demote():
                    self.demote(effect)
                case Forget():
                    self.forget(effect)
                case Run():
                    self.run(effect)

    def park(self, effect: Park) -> None:
        slot = self.slots[effect.slot]
        assert slot.stream is None
        assert not slot.moving
        assert len(slot.tokens) >= LIMITS.tokens_min
        assert effect.session not in self.files.all
        slot.moving = True
        self.files.all[effect.session] = File(
            slot.tenant, slot.tokens, self.now, is_seed=effect.shared
        )
        self.parking[effect.session] = effect.slot

    def restore(self, effect: Restore) -> None:
        slot, file = self.slots[effect.slot], self.files.all[effect.session]
        assert slot.stream is None
        assert not slot.moving
        assert not file.saving
        assert effect.copies or not file.restoring
        assert effect.copies or not file.is_seed
        assert file.in_ram if effect.tier == "ram" else file.on_disk
        assert pack(file.tokens).startswith(effect.known)
        assert effect.saved == SavedState(len(file.tokens), file.size_bytes)
        slot.moving = True
        file.readers += effect.copies
        file.restoring = file.restoring or not effect.copies
        self.restoring[effect.slot] = effect

    def demote(self, effect: Demote) -> None:
        file = self.files.all[effect.session]
        assert file.in_ram
        assert not any((file.saving, file.restoring, file.demoting, file.on_disk, file.is_seed))
        file.demoting = True
        assert sum(one.demoting for one in self.files.all.values()) == 1

    def forget(self, effect: Forget) -> None:
        file = self.files.all[effect.session]
        assert not file.saving
        assert not file.demoting
        assert not file.readers or effect.tier == "disk"
        if effect.tier == "both":
            assert not file.restoring
            del self.files.all[effect.session]
            self.check_lru(file)
        elif effect.tier == "ram":
            assert file.on_disk
            assert not file.restoring
            file.in_ram = False
        else:
            assert file.in_ram
            file.on_disk = False

    def check_lru(self, gone: File) -> None:
        """Nobody of the same kind who is older was spared."""
        if gone.excused or gone.is_seed or self.files.expired:
            return
        # One that is about to be restored is spared by whoever makes room for that.
        chosen = {
            one.session
            for one in self.sessions
            if one.place == "restoring" or one.readers or one.pinned
        }
        for session, other in self.files.all.items():
            moves = other.saving or other.demoting or other.restoring or other.readers
            rests = not moves and not other.is_seed and session not in chosen
            if rests and other.in_ram == gone.in_ram:
                assert other.used_at >= gone.used_at

    def run(self, effect: Run) -> None:
        slot = self.slots[effect.use.slot]
        assert slot.stream is None
        assert not slot.moving
        stream = next(one for one in self.waiting if one.key == effect.key)
        self.waiting.remove(stream)
        if effect.use.reuse:
            assert slot.tenant == stream.tenant
        else:
            assert slot.tenant != stream.tenant or not slot.tokens
        slot.stream, slot.tenant = stream, str(stream.tenant)
        assert stream.prepared is not None
        slot.tokens = stream.prepared.tokens

    def go_on(self) -> None:
        """Seat whoever can be."""
        while effects := self.seating.step(self.now):
            self.perform(effects)

    # What happens.

    @rule(
        data=st.data(), tenant=st.sampled_from("ab"), fresh=st.lists(st.integers(0, 3), min_size=4)
    )
    def ask(self, data: st.DataObject, tenant: str, fresh: list[int]) -> None:
        """A turn comes: of a new conversation, or on top of an older one, or of what began it."""
        if len(self.waiting) > 3:
            return
        old = data.draw(st.sampled_from([(), *self.talks[tenant][-6:]]))
        shared = old[: data.draw(st.sampled_from([12, 12, 5]))]
        tokens = (*shared, *fresh)[:12]
        self.talks[tenant].append(tokens)
        self.streams += 1
        stream = Stream(key(self.streams), open_message(self.streams, tenant=tenant), 9, self.now)
        stream.move("loaded")
        stream.move("prepared")
        stream.prepared = Prepared(request(), tokens, limit=9)
        self.waiting.append(stream)
        self.seating.enqueue(stream)
        self.go_on()

    @precondition(lambda self: any(slot.stream for slot in self.slots))
    @rule(data=st.data(), said=st.integers(0, 3), kept=st.booleans())
    def finish(self, data: st.DataObject, said: int, kept: bool) -> None:
        """A stream ends and leaves its prompt and an answer, or nothing after a failure."""
        busy = [number for number, slot in enumerate(self.slots) if slot.stream is not None]
        number = data.draw(st.sampled_from(busy))
        slot = self.slots[number]
        prompt = slot.tokens if kept else ()
        assert slot.stream is not None
        self.seating.on_closed(slot.stream)
        slot.stream, slot.tokens = None, (*prompt, *range(900, 900 + said)) if kept else ()
        self.seating.slots.free(number, prompt, len(slot.tokens))
        self.go_on()

    @precondition(lambda self: any(slot.stream for slot in self.slots))
    @rule(data=st.data())
    def computed(self, data: st.DataObject) -> None:
        """A prompt is in its slot: the stream steps back and runs again if that is to be copied."""
        busy = [number for number, slot in enumerate(self.slots) if slot.stream is not None]
        number = data.draw(st.sampled_from(busy))
        slot = self.slots[number]
        stream = slot.stream
        assert stream is not None
        if self.seating.on_computed(stream):
            self.seating.slots.stop(number)
            stream.step_back()
            stream.move("closed")
            slot.stream = None
            self.waiting.append(stream)
            self.seating.slots.free(number, slot.tokens, len(slot.tokens))
            self.perform(self.seating.on_yielded(stream, self.now))
        self.go_on()

    @precondition(lambda self: bool(self.waiting))
    @rule(data=st.data())
    def quit(self, data: st.DataObject) -> None:
        """A client leaves while its stream waits for its slot."""
        stream = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(stream)
        assert stream in self.seating
        self.seating.quit(stream)
        stream.move("quit")
        self.go_on()

    @precondition(lambda self: bool(self.parking))
    @rule(data=st.data(), ok=st.sampled_from([True] * 4 + [False]))
    def parked(self, data: st.DataObject, ok: bool) -> None:
        """A slot has been written, or could not be."""
        self.wrote(data.draw(st.sampled_from(sorted(self.parking))), ok=ok)

    @precondition(lambda self: bool(self.restoring))
    @rule(data=st.data(), ok=st.sampled_from([True] * 4 + [False]))
    def restored(self, data: st.DataObject, ok: bool) -> None:
        """A slot has been filled, or is empty now."""
        self.filled(data.draw(st.sampled_from(sorted(self.restoring))), ok=ok)

    def wrote(self, session: SessionId, *, ok: bool) -> None:
        """Let the writing of a slot end."""
        file = self.files.all[session]
        self.slots[self.parking.pop(session)].moving = file.saving = False
        saved = SavedState(len(file.tokens), file.size_bytes) if ok else None
        file.excused = not ok
        self.files.expired = True
        self.perform(self.seating.on_parked(session, saved, self.now))
        self.files.expired = False
        self.go_on()

    def filled(self, number: int, *, ok: bool) -> None:
        """Let the filling of a slot end."""
        effect, slot = self.restoring.pop(number), self.slots[number]
        file = self.files.all[effect.session]
        slot.moving = False
        file.readers -= effect.copies
        file.restoring = file.restoring and effect.copies
        slot.tenant, slot.tokens = (file.tenant, file.tokens) if ok else ("", ())
        # What was brought back goes, if not at once then with its last reader.
        file.excused = file.excused or not effect.copies
        effects = self.seating.on_restored(number, effect.session, ok=ok, now=self.now)
        if self.seating.slots.content(number).tenant is None:
            # Nobody waits for it any more, and its tenant is gone: it counts as empty.
            slot.tenant, slot.tokens = "", ()
        self.perform(effects)
        self.go_on()

    def somebody(self, data: st.DataObject) -> Parked:
        """One of those that nothing but readers or a disk is busy with."""
        return data.draw(st.sampled_from([one for one in self.sessions if one.place in TAKEABLE]))

    @precondition(lambda self: any(one.place in TAKEABLE for one in self.sessions))
    @rule(data=st.data(), pinned=st.booleans())
    def pin(self, data: st.DataObject, pinned: bool) -> None:
        """An operator wants one to stay, or not any more."""
        self.sessions.pin(self.somebody(data), pinned=pinned)

    @precondition(lambda self: any(one.place in TAKEABLE for one in self.sessions))
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """An operator wants one to be gone."""
        self.gone(lambda: self.sessions.erase(self.somebody(data)))

    @precondition(lambda self: self.is_busy())
    @rule(tenant=st.sampled_from("ab"))
    def forget_tenant(self, tenant: str) -> None:
        """Nobody asks for a tenant any more."""
        self.seating.slots.forget(TenantId(tenant))
        for slot in self.slots:
            if slot.stream is None and slot.tenant == tenant:
                slot.tenant, slot.tokens = "", ()
        self.gone(lambda: self.sessions.forget(TenantId(tenant)))

    @rule(over_bytes=st.integers(1, 100))
    def squeeze(self, over_bytes: int) -> None:
        """Memory is short."""
        self.gone(lambda: self.sessions.squeeze(over_bytes))

    def is_busy(self) -> bool:
        """Whether a file is read for others or copied to disk: else too much goes too early."""
        return any(one.readers or one.demoting for one in self.files.all.values())

    def gone(self, ask: Callable[[], list[Effect]]) -> None:
        """Have some go for another reason than want of room, at once or when they are at rest."""
        self.files.expired = True
        self.perform(ask())
        self.files.expired = False
        for one in self.sessions:
            if one.place == "leaving":
                self.files.all[one.session].excused = True
        self.go_on()

    @precondition(lambda self: any(file.demoting for file in self.files.all.values()))
    @rule(ok=st.sampled_from([True] * 3 + [False]))
    def demoted(self, ok: bool) -> None:
        """A copy on disk is finished, or the disk is full."""
        session, file = next(pair for pair in self.files.all.items() if pair[1].demoting)
        file.demoting, file.on_disk = False, True
        if not any(one.session == session and one.place == "moving" for one in self.sessions):
            # Restored or forgotten meanwhile: whatever goes now goes for that.
            self.files.expired = True
        self.perform(self.sessions.on_demoted(session, ok=ok, now=self.now))
        self.files.expired = False

    @rule(seconds=st.floats(0.1, 15.0))
    def pass_time(self, seconds: float) -> None:
        """Time passes, and what nobody has used for long is forgotten."""
        self.now += seconds
        due = self.sessions.next_tick()
        self.files.expired = due is not None and due <= self.now
        self.perform(self.sessions.tidy(self.now))
        self.files.expired = False
        self.go_on()
        after = self.sessions.next_tick()
        assert after is None or after > self.now

    # What holds at any time.

    @invariant()
    def limits_hold(self) -> None:
        """Files never take more than the settings say, and are as many as is said."""
        files = self.files.all.values()
        ram_bytes = sum(file.size_bytes for file in files if file.in_ram)
        disk_bytes = sum(file.size_bytes for file in files if file.on_disk or file.demoting)
        assert ram_bytes <= LIMITS.ram_bytes
        assert disk_bytes <= LIMITS.disk_bytes
        assert sum(not file.is_seed for file in files) <= LIMITS.parked_max
        view = self.sessions.view()
        assert view.ram + view.disk == sum(not file.is_seed for file in files)
        assert view.disk_bytes == disk_bytes
        assert view.ram_bytes >= ram_bytes

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        """The line is empty, or every slot is in use or being moved.

        Or who is in it waits for another one's prompt, or for a slot to be written.
        """
        busy = [view.busy for view in self.seating.slots.views()]
        assert busy == [slot.moving or slot.stream is not None for slot in self.slots]
        free = [one for one in self.waiting if one not in self.seating.sharing]
        assert all(busy) or self.parking or len(free) <= len(self.restoring)

    def teardown(self) -> None:
        """When everything is answered and everybody has gone, nothing is in use."""
        while self.parking or self.restoring:
            for session in list(self.parking):
                self.wrote(session, ok=True)
            for number in list(self.restoring):
                self.filled(number, ok=False)
        busy = [view.busy for view in self.seating.slots.views()]
        assert busy == [slot.stream is not None for slot in self.slots]


@pytest.mark.slow
def test_moves_agree_with_a_naive_model() -> None:
    """Whatever happens in whatever order: one place each, limits kept, nothing moved that runs."""
    limits = settings(max_examples=60, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(World, settings=limits)
