"""MACHINE: what a simulated node's slots held, as files: written, moved and read in its own time.

It does for the agent what the node's shell does with `Park`, `Restore`, `Demote` and `Forget`, and
keeps the facts: what was moved when, and how much there was at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId
from roost.node.agent import Agent
from roost.node.effects import Demote, Effect, Forget, Mark, Park, Promote, Restore
from roost.node.states.session_settings import SessionSettings
from roost.sim.compute import Engine
from roost.sim.history import History
from roost.sim.node_facts import Kept, Move
from roost.sim.world import Action, Process, World

if TYPE_CHECKING:
    from random import Random

TOKEN_BYTES = 8
MOVED_TOKENS_PER_S = 20_000.0
MOVE_LEAST_S = 0.004
MOVE_WITHIN_S = 10.0
DISK_SLOWER = 20.0

Filed: TypeAlias = Park | Restore | Demote | Promote | Mark | Forget
Perform: TypeAlias = Callable[[list[Effect]], None]


class Files:
    """The files of one life of one node."""

    def __init__(
        self,
        process: Process,
        limits: SessionSettings,
        agent: Agent,
        history: History,
        dice: Random,
    ) -> None:
        self.perform: Perform = _nobody
        self.spoilt = 0.0
        # Files that are being copied between memory and disk.
        self._under_way = 0
        self.engines: dict[RuntimeId, Engine] = {}
        self._process = process
        self._world: World = process.world
        self._agent = agent
        self._history = history
        self._dice = dice
        self._ram: dict[SessionId, tuple[int, ...]] = {}
        self._disk: dict[SessionId, tuple[int, ...]] = {}
        self.kept = Kept(
            process.name,
            ram_bytes_max=limits.ram_bytes,
            disk_bytes_max=limits.disk_bytes,
            files_max=limits.parked_max,
            tokens_min=limits.tokens_min,
            shared_tokens_min=limits.shared_tokens_min,
            shared_wait_s=limits.shared_wait_s,
        )
        history.aside.append(self.kept)

    def do(self, effect: Filed) -> None:
        """Begin what is asked for."""
        match effect:
            case Park():
                self._park(effect)
            case Restore():
                self._restore(effect)
            case Demote():
                self._demote(effect)
            case Promote():
                self._promote(effect)
            case Forget():
                self._forget(effect)

    def on_loaded(self, runtime: RuntimeId) -> None:
        """A runtime has shown that what its slots hold comes back from files."""
        kin = runtime.partition("#")[0]
        self.perform(self._agent.on_states(runtime, TOKEN_BYTES, self._world.now, kin))

    def weigh(self) -> None:
        """At rest: hold what the node says of its files against what there is.

        A file on its way to another place has room there already.
        """
        if self._process.alive and not self._under_way:
            view = self._agent.status().sessions
            self.kept.told = view.ram_bytes, view.disk_bytes
            self.kept.at_rest = self._bytes_now()

    def _bytes_now(self) -> tuple[int, int]:
        return _size_bytes(self._ram), _size_bytes(self._disk)

    def _park(self, effect: Park) -> None:
        move = self._move("copy" if effect.shared else "park", effect)
        engine = self.engines.get(effect.runtime)
        tokens = engine.content(effect.slot) if engine is not None else ()

        def done(ok: bool) -> None:  # noqa: FBT001 - the outcome of a move
            if ok:
                self._ram[effect.session] = tokens
                self._note()
            saved = SavedState(len(tokens), TOKEN_BYTES * len(tokens)) if ok else None
            now = self._world.now
            self.perform(self._agent.on_parked(effect.runtime, effect.session, saved, now))

        self._after(engine, len(tokens), move, done)

    def _restore(self, effect: Restore) -> None:
        move = self._move("lend" if effect.copies else "restore", effect)
        engine = self.engines.get(effect.runtime)
        files = self._ram if effect.tier == "ram" else self._disk
        tokens = files.get(effect.session, ())

        def done(ok: bool) -> None:  # noqa: FBT001
            good = ok and effect.session in files and effect.saved.tokens == len(tokens)
            move.ok = good
            if engine is not None and engine.alive:
                engine.fill(effect.slot, tokens if good else ())
            now = self._world.now
            self.perform(self._agent.on_restored(effect, good, now))

        self._after(engine, len(tokens), move, done)

    def _demote(self, effect: Demote) -> None:
        file = self._ram.get(effect.session)
        ok = file is not None and self._dice.random() >= self.spoilt

        def done() -> None:
            if file is not None and ok:
                self._disk[effect.session] = file
                self._note()
            self._under_way -= 1
            self.perform(self._agent.on_demoted(effect.session, ok, self._world.now))

        self._under_way += 1
        tokens = len(file) if file is not None else 0
        self._process.after(_takes_s(tokens) * DISK_SLOWER, done)

    def _promote(self, effect: Promote) -> None:
        file = self._disk.get(effect.session)
        ok = file is not None and self._dice.random() >= self.spoilt

        def done() -> None:
            if file is not None and ok:
                self._ram[effect.session] = file
                self._note()
            self._under_way -= 1
            self.perform(self._agent.on_promoted(effect.session, ok, self._world.now))

        self._under_way += 1
        tokens = len(file) if file is not None else 0
        self._process.after(_takes_s(tokens) * DISK_SLOWER, done)

    def _forget(self, effect: Forget) -> None:
        if effect.tier != "disk":
            self._ram.pop(effect.session, None)
        if effect.tier != "ram":
            self._disk.pop(effect.session, None)
        if effect.tier == "both":
            self._history.moves.append(
                Move("forget", self.kept.life, effect.runtime, -1, effect.session, self._world.now)
            )

    def _move(self, kind: str, effect: Park | Restore) -> Move:
        made = Move(
            kind, self.kept.life, effect.runtime, effect.slot, effect.session, self._world.now
        )
        self._history.moves.append(made)
        return made

    def _after(
        self, engine: Engine | None, tokens: int, move: Move, done: Callable[[bool], None]
    ) -> None:
        """Let the engine do it, and answer in time whatever becomes of that."""
        answered: list[bool] = []

        def answer(*, ok: bool) -> None:
            if not answered:
                answered.append(ok)
                move.ended_s, move.ok = self._world.now, ok
                done(ok)

        ok = self._dice.random() >= self.spoilt
        late: Action = partial(answer, ok=False)
        if engine is not None:
            in_time: Action = partial(answer, ok=ok)
            engine.after(_takes_s(tokens), lambda: self._process.do(in_time))
            self._process.after(MOVE_WITHIN_S, late)
        else:
            self._process.after(0.0, late)

    def _note(self) -> None:
        ram, disk = self._bytes_now()
        self.kept.ram_bytes = max(self.kept.ram_bytes, ram)
        self.kept.disk_bytes = max(self.kept.disk_bytes, disk)
        self.kept.files = max(self.kept.files, len(self._ram.keys() | self._disk.keys()))


def _takes_s(tokens: int) -> float:
    return MOVE_LEAST_S + tokens / MOVED_TOKENS_PER_S


def _size_bytes(files: dict[SessionId, tuple[int, ...]]) -> int:
    return sum(TOKEN_BYTES * len(tokens) for tokens in files.values())


def _nobody(_effects: list[Effect]) -> None:
    """Stands in until the node has attached itself."""
