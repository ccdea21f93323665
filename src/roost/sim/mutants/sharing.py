"""WIRING: nodes that compute a beginning for several wrongly, one defect each."""

from __future__ import annotations

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId, TenantId
from roost.node.effects import Effect
from roost.node.floor.seating import Seating, _Move
from roost.node.slots import Content, common_tokens
from roost.node.states.parked import Parked
from roost.node.states.seeds import Seed, Seeds
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions
from roost.node.states.sharing import Lead, Sharing
from roost.node.stream import Stream
from roost.sim.mutants.aside import Odd
from roost.sim.mutants.fittings import Case, agent


class _Forgetful(Sharing):
    def let_go(self, stream: Stream, *, alone: bool = False) -> None:
        """Leave those who follow where they are."""

    def expire(self, now: float) -> None:
        """Wait on."""

    def next_tick(self) -> float | None:
        return None


class _Patient(Sharing):
    def hold(self, stream: Stream, lead: Lead, spared: int, patience_s: float, now: float) -> bool:
        self._until.pop(stream.key, None)
        return super().hold(stream, lead, spared, patience_s, now)

    def expire(self, now: float) -> None:
        """Wait for as many as there are."""

    def next_tick(self) -> float | None:
        return None


class _Blind(Sharing):
    def find(self, stream: Stream, wanted: bytes) -> tuple[Lead, int] | None:
        return None


class _Open(Seeds):
    def alike(self, runtime: RuntimeId, tenant: TenantId, wanted: bytes) -> list[tuple[Seed, int]]:
        for one in self._seeds.values():
            if one.runtime == runtime and one.is_whole:
                slot, known, held = one.content.slot, one.content.known, one.content.held
                one.content = Content(slot, tenant, known, held)
                return [(one, common_tokens(known, wanted))]
        return []


class _Hasty(Seeds):
    def take(self, one: Seed, now: float) -> None:
        """Do not count who reads it."""
        one.used_at = now

    def put_back(self, one: Seed, *, ok: bool = True) -> list[Effect]:
        """Remove it after the first."""
        return self._forget(one) if one.session in self._seeds else []


class _Boundless(Seeds):
    def in_the_way(self, need_bytes: int) -> list[Seed] | None:
        self.max_bytes = 10**9
        return []


class _Roomy(Sessions):
    def _room_bytes(self) -> int:
        return super()._room_bytes() + self.seeds.size_bytes

    def seed(self, runtime: RuntimeId, content: Content, now: float) -> list[Effect]:
        self.seeds = self.seeds if isinstance(self.seeds, _Boundless) else _Boundless(10**9)
        return super().seed(runtime, content, now)


class _Halting(Seating):
    def on_parked(self, session: SessionId, saved: SavedState | None, now: float) -> list[Effect]:
        """Leave the leader where it stepped back."""
        if session in self._sessions.seeds:
            return self._sessions.on_seeded(session, saved)
        return super().on_parked(session, saved, now)


class _Fresh(Seating):
    def _copy(self, move: _Move, wanted: bytes, now: float) -> list[Effect]:
        """Leave alone what idle slots hold."""
        return []

    def _waits_for(self, move: _Move, wanted: bytes) -> bool:
        return False


class _Careless(Sessions):
    def lend(self, one: Parked) -> None:
        """Do not count who reads it."""


def _sharing(kind: type[Sharing]) -> type[Seating]:
    class With(Seating):
        def __init__(self, runtime: RuntimeId, slots: int, sessions: Sessions) -> None:
            super().__init__(runtime, slots, sessions)
            self.sharing = kind(sessions)

    return With


def _seeds(kind: type[Seeds]) -> type[Sessions]:
    class With(Sessions):
        def __init__(self, settings: SessionSettings) -> None:
            super().__init__(settings)
            self.seeds = kind(self.seeds.max_bytes)

    return With


class ForgetsFollowers(Odd):
    """Who waits for a leader is not seated when that is through, nor ever."""

    seating = _sharing(_Forgetful)


class WaitsForOneAfterAnother(Odd):
    """The wait begins anew with each leader."""

    seating = _sharing(_Patient)


class ComputesForEach(Odd):
    """Nobody waits, and everybody computes."""

    seating = _sharing(_Blind)


class CopiesForAnybody(Odd):
    """A copy fills the slots of all tenants."""

    sessions = _seeds(_Open)


class RemovesWhatIsRead(Odd):
    """A copy goes with the first slot that was filled from it."""

    sessions = _seeds(_Hasty)


class CopiesWithoutLimit(Odd):
    """Copies are not counted among what is put aside."""

    sessions = _Roomy


class LeavesTheLeader(Odd):
    """Who stepped back does not run again."""

    seating = _Halting


class ComputesWhatIsKept(Odd):
    """What an idle slot begins with is computed again in another one."""

    seating = _Fresh


class LendsCarelessly(Odd):
    """A conversation may go while a copy of it is read."""

    sessions = _Careless


CASES: tuple[Case, ...] = (
    ("followers forgotten", agent(ForgetsFollowers), "shared", "one_ending"),
    (
        "held for one after another",
        agent(WaitsForOneAfterAnother),
        "shared_slots",
        "nobody_is_held_for_long",
    ),
    ("computed for each", agent(ComputesForEach), "shared", "beginnings_are_computed_once"),
    ("copied for anybody", agent(CopiesForAnybody), "shared", "own_conversations_come_back"),
    ("copies removed too soon", agent(RemovesWhatIsRead), "shared", "copies_are_read_whole"),
    (
        "copies without limit",
        agent(CopiesWithoutLimit),
        "shared_in_trouble",
        "kept_within_limits",
    ),
    (
        "computed although kept",
        agent(ComputesWhatIsKept),
        "shared",
        "what_is_kept_is_not_computed_again",
    ),
    ("lent and removed", agent(LendsCarelessly), "lent", "copies_are_read_whole"),
    ("leader left behind", agent(LeavesTheLeader), "shared", "one_ending"),
)
