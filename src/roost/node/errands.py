"""MACHINE: what operators want done with states of conversations; and what came of it.

    list            answered at once, with everything there is
    save, demote    a slot's content is put aside once nothing runs there; a file leaves memory
    promote         a file on disk is in memory again
    erase           nobody reads it any more
    pin, unpin      it stays for want of room, or not; age beats a pin

An order waits for what is in use, for as long as it says, and for nothing else: others come to the
slot meanwhile as if nobody had asked, and what is moved is only ever an idle slot, so no stream
waits longer than for any other move. Then it is answered, whatever was done by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from roost.core.ids import RuntimeId, SessionId
from roost.core.state_views import StateResult, StateStatus, StateView, StateWish
from roost.errors import Failure
from roost.node.desk import Outgoing
from roost.node.effects import Effect
from roost.node.floor.floor import Floor
from roost.node.states.parked import NOBODY, TAKEABLE, Parked
from roost.node.workshop import Workshop
from roost.wire.messages import StateOrder, StatesTold

OPEN_MAX = 16
FULL = Failure("node_busy", "too many orders about states are under way here", retry_after_s=1)
UNKNOWN = Failure("not_found", "there is no such state here, or not any more")
BUSY = Failure("state_busy", "the state was in use for as long as the order would wait")
CANNOT = Failure("unsupported", "what the slots of this runtime hold cannot be put aside")
NO_DISK = Failure("unsupported", "this node keeps nothing on disk: see sessions.disk_bytes")
NO_ROOM = Failure("node_busy", "there is no room: see sessions.ram_bytes and sessions.disk_bytes")
LOST = Failure("storage_error", "the state could not be moved; the node's log says why")
IN_A_SLOT = Failure("bad_request", "only what is put aside can be pinned: save it first")

Outcome: TypeAlias = Failure | bool
"""Why it cannot be done, True once it is, False while it takes."""


@dataclass(slots=True)
class _Open:
    """An order under way: `left` is what is still to be done, `begun` what was begun, by state."""

    link: int
    order: StateOrder
    until_s: float
    left: list[str]
    results: list[StateResult] = field(default_factory=list)
    begun: dict[str, SessionId] = field(default_factory=dict)


class Errands:
    """Carries out orders by way of the workshop's sessions and slots."""

    def __init__(self, workshop: Workshop, outgoing: Outgoing) -> None:
        self._workshop = workshop
        self._sessions = workshop.sessions
        self._outgoing = outgoing
        self._open: list[_Open] = []

    def take(self, link: int, order: StateOrder, now: float) -> None:
        """Begin with this."""
        if order.what == "list":
            told = StatesTold(order.job, states=tuple(self.views(now)))
            self._outgoing.say(link, told)
        elif len(self._open) >= OPEN_MAX:
            failed = tuple(StateResult(one, FULL) for one in order.states)
            self._outgoing.say(link, StatesTold(order.job, results=failed))
        else:
            left = list(dict.fromkeys(order.states))
            self._open.append(_Open(link, order, now + order.wait_s, left))
            self.look(now)

    def on_link_down(self, link: int) -> None:
        """Who gave these orders hears of nothing any more: what was begun ends by itself."""
        self._open = [one for one in self._open if one.link != link]

    def look(self, now: float) -> None:
        """See what can be done by now; to be asked after every event."""
        for one in list(self._open):
            is_late = now >= one.until_s
            for state in list(one.left):
                outcome = self._try(one, state, now)
                if outcome is False and is_late and state not in one.begun:
                    outcome = BUSY
                if outcome is not False:
                    one.left.remove(state)
                    failure = outcome if isinstance(outcome, Failure) else None
                    one.results.append(StateResult(state, failure))
            if not one.left:
                self._open.remove(one)
                told = StatesTold(one.order.job, results=tuple(one.results))
                self._outgoing.say(one.link, told)

    def next_tick(self) -> float | None:
        """When somebody has waited for long enough."""
        waiting = (one for one in self._open if any(s not in one.begun for s in one.left))
        return min((one.until_s for one in waiting), default=None)

    def views(self, now: float) -> Iterator[StateView]:
        """Everything that is kept here: what slots hold, then what is put aside."""
        for floor in self._workshop.floors:
            for slot in floor.slots.views():
                content = floor.slots.content(slot.slot)
                if content.tenant is not None:
                    status: StateStatus = "busy" if slot.busy else "ready"
                    name = slot_name(floor.runtime, slot.slot)
                    yield StateView(name, floor.model, "slot", status, content.tenant, content.held)
        for one in self._sessions:
            yield self._view(one, now)

    def _view(self, one: Parked, now: float) -> StateView:
        assert one.tenant is not None, "what nobody left is not put aside"
        idle_s = max(0.0, now - one.used_at)
        return StateView(
            id=f"st_{one.session}",
            model=one.model,
            tier="ram" if one.ram_bytes and one.place != "disk" else "disk",
            status="ready" if _is_at_rest(one) else "moving",
            tenant=one.tenant,
            tokens=one.content.held,
            size_bytes=one.saved.size_bytes or None,
            idle_s=idle_s,
            expires_in_s=max(0.0, self._sessions.settings.idle_s - idle_s),
            pinned=one.pinned,
            reusable=one.runtime != NOBODY,
        )

    def _try(self, order: _Open, state: str, now: float) -> Outcome:
        """Do what can be done about one state now."""
        begun = order.begun.get(state)
        if begun is not None:
            is_slot = state.startswith("sl_")
            return self._how_is("save" if is_slot else order.order.what, begun)
        for floor in self._workshop.floors:
            for slot in floor.slots.views():
                if slot_name(floor.runtime, slot.slot) == state:
                    return self._slot(order, state, floor, slot.slot, now)
        parked = next((one for one in self._sessions if f"st_{one.session}" == state), None)
        return self._parked(order, state, parked) if parked is not None else UNKNOWN

    def _how_is(self, what: StateWish, session: SessionId) -> Outcome:
        """See whether what was begun with this session is over, and how."""
        one = next((one for one in self._sessions if one.session == session), None)
        if one is None:
            return LOST
        if what == "save":
            return one.place != "saving"
        if not _is_at_rest(one):
            return False
        if what == "demote" and one.is_shadowed:
            self._do(self._sessions.lower(one))
        return True if one.place == ("disk" if what == "demote" else "ram") else LOST

    def _slot(self, order: _Open, state: str, floor: Floor, slot: int, now: float) -> Outcome:
        what = order.order.what
        content = floor.slots.content(slot)
        if content.tenant is None:
            return UNKNOWN
        if what in ("pin", "unpin", "promote"):
            return True if what == "promote" else IN_A_SLOT
        if what != "erase" and not self._sessions.can_park(floor.runtime):
            return CANNOT
        if floor.slots.is_in_use(slot):
            return False
        if what == "erase":
            floor.slots.forget_one(slot)
            self._do(self._sessions.seeds.erase(content))
            return True
        self._do(floor.seating.pack_one(content, now))
        return self._began(order, state, floor.seating.packed(slot))

    def _parked(self, order: _Open, state: str, one: Parked) -> Outcome:
        what, sessions = order.order.what, self._sessions
        if what == "erase" and one.place in TAKEABLE:
            self._do(sessions.erase(one))
            return True
        if not _is_at_rest(one):
            return False
        match what:
            case "pin" | "unpin":
                self._do(sessions.pin(one, pinned=what == "pin"))
            case "promote" if one.place == "disk":
                self._do(sessions.promote(one))
                return self._began(order, state, None if one.place == "disk" else one.session)
            case "demote" if one.place == "ram":
                return self._lower(order, state, one)
        return True

    def _lower(self, order: _Open, state: str, one: Parked) -> Outcome:
        sessions = self._sessions
        if one.is_shadowed:
            self._do(sessions.lower(one))
            return True
        if not sessions.settings.disk_bytes:
            return NO_DISK
        if any(other.is_demoting for other in sessions):
            return False
        self._do(sessions.demote(one))
        return self._began(order, state, one.session if one.is_demoting else None)

    def _began(self, order: _Open, state: str, session: SessionId | None) -> Outcome:
        """Wait for what was begun with this session; None where there was no room for it."""
        if session is None:
            return NO_ROOM
        order.begun[state] = session
        return False

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._outgoing.add(effect)


def slot_name(runtime: RuntimeId, slot: int) -> str:
    """Name what is in a slot; another runtime's slot never has the same name."""
    return f"sl_{sha256(f'{runtime}/{slot}'.encode()).hexdigest()[:16]}"


def _is_at_rest(one: Parked) -> bool:
    return one.is_at_rest and not one.is_demoting
