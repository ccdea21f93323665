"""WIRING: nodes that put conversations aside wrongly, one defect each."""

from __future__ import annotations

from collections.abc import Sequence

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId
from roost.core.snapshots import ModelOffer
from roost.node.agent import Agent
from roost.node.effects import Effect, Forget, Park, Restore
from roost.node.floor.seating import Seating
from roost.node.settings import AgentSettings
from roost.node.slots import TOKEN_BYTES, Content
from roost.node.states.parked import NOBODY, Parked
from roost.node.states.sessions import Sessions
from roost.node.states.sources import Source, Whole
from roost.node.stream import Stream
from roost.sim.mutants.fittings import Case, agent


class _ForAnybody(Seating):
    def _better(self, stream: Stream, wanted: bytes, content: Content) -> tuple[Source, int] | None:
        for one in self._sessions:
            if one.runtime == self._runtime and one.place in ("ram", "disk"):
                held = one.content.held
                one.content = Content(one.content.slot, stream.tenant, wanted, held)
                return Whole(self._sessions, one), len(wanted) // TOKEN_BYTES
        return None


class _Twice(Sessions):
    def on_restored(self, session: SessionId, *, ok: bool) -> list[Effect]:
        one = self._parked.get(session)
        if one is None or one.place != "restoring":
            return []
        one.place = "ram" if one.ram_bytes else "disk"
        return []


class _Boundless(Sessions):
    def park(self, runtime: RuntimeId, content: Content, now: float) -> list[Effect]:
        self._born += 1
        session = SessionId(self._born)
        self._parked.add(Parked(session, runtime, content, now, 1))
        return [Park(runtime, content.slot, session)]

    def _make_room(self, need_bytes: int, files: int = 0) -> list[Effect]:
        return []


class _Miscounting(Sessions):
    def on_demoted(self, session: SessionId, *, ok: bool, now: float) -> list[Effect]:
        return [
            effect
            for effect in super().on_demoted(session, ok=ok, now=now)
            if not (isinstance(effect, Forget) and effect.tier == "ram")
        ]


class _Never(Seating):
    def _better(self, stream: Stream, wanted: bytes, content: Content) -> tuple[Source, int] | None:
        return None


class _Mortal(Sessions):
    def on_gone(self, runtime: RuntimeId) -> list[Effect]:
        effects = super().on_gone(runtime)
        for one in self:
            if one.runtime == NOBODY:
                self._parked.drop(one)
        return effects


class _Hasty(Seating):
    def step(self, now: float) -> list[Effect]:
        """Run at once, whatever is still being moved."""
        effects = super().step(now)
        for effect in effects:
            if isinstance(effect, Park | Restore):
                move = self._moves.get(effect.slot)
                if move is not None:
                    return [*effects, *self._finish(move)]
        return effects


class _Waiting(Seating):
    def on_parked(self, session: SessionId, saved: SavedState | None, now: float) -> list[Effect]:
        """Forget who waits for the slot."""
        return self._sessions.on_parked(session, saved, now)


class Odd(Agent):
    """An agent with other sessions, or other seating, than production has."""

    sessions: type[Sessions] = Sessions
    seating: type[Seating] = Seating

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        self._workshop.sessions = self.sessions(settings.sessions)
        self._workshop.seating = self.seating


class GivesToAnybody(Odd):
    """What was put aside is brought back for whoever asks next."""

    seating = _ForAnybody


class KeepsWhatIsBack(Odd):
    """A session that is in a slot again stays in its file as well."""

    sessions = _Twice


class KeepsWithoutLimit(Odd):
    """Nothing is ever forgotten for want of room."""

    sessions = _Boundless


class ForgetsFilesInMemory(Odd):
    """What is on disk is not removed from memory."""

    sessions = _Miscounting


class NeverBringsBack(Odd):
    """Conversations are put aside and stay there."""

    seating = _Never


class LosesWithTheRuntime(Odd):
    """What was put aside goes with its runtime, although it is to outlive that."""

    sessions = _Mortal


class RunsWhileItMoves(Odd):
    """A stream runs on its slot while that is still written or read."""

    seating = _Hasty


class LosesWhoWaits(Odd):
    """A stream whose slot has been written is never seated."""

    seating = _Waiting


CASES: tuple[Case, ...] = (
    ("put aside for anybody", agent(GivesToAnybody), "put_aside", "own_conversations_come_back"),
    ("put aside and back", agent(KeepsWhatIsBack), "put_aside", "one_place_each"),
    (
        "put aside without limit",
        agent(KeepsWithoutLimit),
        "put_aside_in_trouble",
        "kept_within_limits",
    ),
    ("put aside twice", agent(ForgetsFilesInMemory), "put_aside", "kept_as_told"),
    ("never brought back", agent(NeverBringsBack), "put_aside", "context_survives"),
    ("gone with its runtime", agent(LosesWithTheRuntime), "swapped", "context_survives"),
    ("run while it moves", agent(RunsWhileItMoves), "put_aside", "idle_slots_are_moved"),
    ("forgotten while it moves", agent(LosesWhoWaits), "put_aside", "one_ending"),
)
