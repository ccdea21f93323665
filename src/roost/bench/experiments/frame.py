"""WIRING: one experiment: what it is about, its plan, how it is run, and how that is judged.

What was seen is kept as it was, so that everything else (verdict, tables, pictures) is made from a
file and can be made again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from roost.bench.drills.stage import Stage, acted
from roost.bench.experiments.telling import About, Verdict

Plan = TypeVar("Plan", bound=msgspec.Struct)
Seen = TypeVar("Seen", bound=msgspec.Struct)
Found = TypeVar("Found")

BOUND_S = 600.0
"""How long one stage of an experiment may take at all; several times what it does take."""
THREADS = 1
"""Of a real model's runtime. Threads wait for each other in every step, so with as many as cores
any other job on the machine is what would be measured."""


class House:
    """Where experiments run: stages one after the other, and the real model's file.

    `held` says which gateway still held something when its stage was over.
    """

    def __init__(self, real: Path | None) -> None:
        self.real = real
        self.held: dict[str, str] = {}

    async def act(self, action: Callable[[Stage], Awaitable[Found]]) -> Found:
        """Let something happen on a stage with the scripted backend."""
        return await self._act(action, None)

    async def act_real(self, action: Callable[[Stage], Awaitable[Found]]) -> Found:
        """Let something happen on a stage with llama.cpp and the real model."""
        assert self.real is not None, "who calls this has said that a model is needed"
        return await self._act(action, self.real)

    async def _act(self, action: Callable[[Stage], Awaitable[Found]], real: Path | None) -> Found:
        found, held = await acted(action, BOUND_S, real, threads=THREADS)
        self.held |= held
        return found


class Playable(Protocol):
    """An experiment, whatever its plan and what it sees look like."""

    @property
    def about(self) -> About:
        """What it is about."""
        ...

    @property
    def planned(self) -> dict[str, object]:
        """Its plan, as data."""
        ...

    async def play(self, house: House) -> msgspec.Raw:
        """Run it, and return what was seen as JSON."""
        ...

    def judged(self, seen: msgspec.Raw) -> Verdict:
        """Judge what was seen; `msgspec.ValidationError` for what it has not written."""
        ...


class Experiment(Generic[Plan, Seen]):
    """A playable of four parts; `judge` is pure."""

    def __init__(
        self,
        about: About,
        plan: Plan,
        seen: type[Seen],
        run: Callable[[House, Plan], Awaitable[Seen]],
        judge: Callable[[Seen], Verdict],
    ) -> None:
        self.about = about
        self._plan = plan
        self._seen = seen
        self._run = run
        self._judge = judge

    @property
    def planned(self) -> dict[str, object]:
        """Its plan, as data."""
        told: dict[str, object] = msgspec.to_builtins(self._plan)
        return told

    async def play(self, house: House) -> msgspec.Raw:
        """Run it, and return what was seen as JSON."""
        return msgspec.Raw(msgspec.json.encode(await self._run(house, self._plan)))

    def judged(self, seen: msgspec.Raw) -> Verdict:
        """Judge what was seen; `msgspec.ValidationError` for what it has not written."""
        return self._judge(msgspec.json.decode(seen, type=self._seen))
