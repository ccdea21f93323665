"""WIRING: `python -m roost.bench.sessions`: what a next turn waits for, wherever its KV has been.

One slot, and two conversations that take it from each other: the first token of a turn on a prompt
that nobody has seen (cold), on one that is in the slot (warm), and on one that was put aside in
memory and on disk. Figures are ratios to cold, within one run.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from functools import partial
from statistics import median

import msgspec

from roost.bench.claims import Check, Report, at_least, at_most, ms, none_of, table
from roost.bench.drills.asking import Chat, ask
from roost.bench.drills.stage import Running, Stage
from roost.bench.programs import parser, perform
from roost.core.snapshots import SessionsView

HISTORY_WORDS, TURN_WORDS = 1000, 12
WARM_BAR, RAM_BAR = 0.25, 0.35
DISK_ONLY_BYTES = 40_000_000
"""Room in memory for one conversation of this length and not for two: each goes on to disk."""
ROUNDS = 3
WAIT_S, LOOK_S = 30.0, 0.05
BOUND_S = 900.0
WORDS = (
    *("river", "stone", "cloud", "tree", "bird", "house", "light"),
    *("water", "field", "road", "night", "morning", "winter", "summer"),
)


class Setup(msgspec.Struct, frozen=True):
    """How much is said, how often, and what opens a conversation with the scripted backend."""

    words: int = HISTORY_WORDS
    rounds: int = ROUNDS
    disk_only_bytes: int = DISK_ONLY_BYTES
    opening: str = ""


class _Node(msgspec.Struct):
    sessions: SessionsView
    runtimes: tuple[_Runtime, ...] = ()


class _Slot(msgspec.Struct):
    tokens: int


class _Runtime(msgspec.Struct):
    slots: tuple[_Slot, ...] = ()


class _Fleet(msgspec.Struct):
    nodes: tuple[_Node, ...]


class Talks:
    """Conversations with one server, and how long their first tokens took, by where KV was."""

    def __init__(self, stage: Stage, server: Running, setup: Setup) -> None:
        self.took: dict[str, list[float]] = {}
        self.tokens = 0
        self._stage = stage
        self._server = server
        self._setup = setup
        self._dice = random.Random(4)

    def opening(self) -> str:
        """Give the history of a new conversation, that shares nothing with others."""
        said = [self._dice.choice(WORDS) for _ in range(self._setup.words)]
        return f"{self._setup.opening}{self._dice.random()} " + " ".join(said)

    async def turn(self, content: str, where: str) -> str:
        """Take a turn and note its time; return what the next one begins with."""
        chat = Chat(self._server.port, self._stage.model, content, max_tokens=1, timeout_s=120.0)
        answer = await ask(chat)
        assert answer.status == 200, f"the server answered with {answer.status}"
        self.took.setdefault(where, []).append(answer.latency_s)
        return " ".join([content, *(self._dice.choice(WORDS) for _ in range(TURN_WORDS))])

    async def rounds(self, where: str) -> SessionsView:
        """Let two conversations at a time take the slot from each other."""
        view = SessionsView()
        for number in range(self._setup.rounds):
            first = await self.turn(self.opening(), "cold")
            first = await self.turn(first, "warm")
            await self.turn(self.opening(), "cold")
            await self._settled(3 * number + 1, number, everything=where == "disk")
            await self.turn(first, where)
            view = await self._settled(3 * number + 2, number + 1, everything=where == "disk")
        return view

    async def _settled(self, parks: int, restores: int, *, everything: bool) -> SessionsView:
        """Wait for a report with so many moves, and for `everything` until it is on disk.

        What never comes is for the verdict to say.
        """
        view = SessionsView()
        for _ in range(int(WAIT_S / LOOK_S)):
            node = _node(await self._server.get("/roost/v1/fleet"))
            view, self.tokens = node.sessions, node.runtimes[0].slots[0].tokens
            told = view.parks >= parks and view.restores >= restores
            if told and not (everything and view.ram):
                break
            await asyncio.sleep(LOOK_S)
        return view


def _node(raw: bytes) -> _Node:
    return msgspec.json.decode(raw, type=_Fleet).nodes[0]


async def measure(stage: Stage, setup: Setup) -> Report:
    """Measure with room in memory, then with hardly any."""
    common = ("--slots", "1", "--sessions-disk-bytes", "4000000000")
    took: dict[str, list[float]] = {}
    views, tokens = {}, 0
    for where, flags in (
        ("memory", ()),
        ("disk", ("--sessions-ram-bytes", str(setup.disk_only_bytes))),
    ):
        server = stage.serve(where, *common, *flags)
        await server.serves()
        talks = Talks(stage, server, setup)
        await talks.turn("A first word.", "first")
        views[where] = await talks.rounds(where)
        tokens = talks.tokens
        for kind, times in talks.took.items():
            took.setdefault(kind, []).extend(times)
    return report(took, views, tokens)


def report(took: dict[str, list[float]], views: dict[str, SessionsView], tokens: int) -> Report:
    """Compare medians with cold."""
    cold = median(took["cold"])
    ratios = {kind: median(took[kind]) / cold for kind in ("warm", "memory", "disk")}
    rows = [["cold", ms(cold), "1", str(len(took["cold"]))]]
    rows += [
        [kind, ms(median(took[kind])), f"{ratio:.3f}", str(len(took[kind]))]
        for kind, ratio in ratios.items()
    ]
    restores = {where: view.restores for where, view in views.items()}
    failures = sum(view.failures for view in views.values())
    checks: list[Check] = [
        at_most("warm over cold", ratios["warm"], WARM_BAR),
        at_most("from memory over cold", ratios["memory"], RAM_BAR),
        at_least("brought back from memory", restores["memory"], len(took["memory"])),
        at_least("brought back from disk", restores["disk"], len(took["disk"])),
        none_of("moves that failed", failures),
    ]
    heads = ("KV was", "first token ms", "over cold", "times")
    tables = (f"{tokens} tokens of history; medians", table(heads, rows))
    figures = {f"{kind}_over_cold": ratio for kind, ratio in ratios.items()}
    return Report("sessions", tables, {**figures, "tokens": float(tokens)}, tuple(checks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if a bar was missed."""
    made = parser("sessions", __doc__)
    made.add_argument("--rounds", type=int, default=ROUNDS, help="of each kind")
    options = made.parse_args(arguments)
    return perform(partial(measure, setup=Setup(rounds=options.rounds)), BOUND_S, options)


if __name__ == "__main__":
    sys.exit(main())
