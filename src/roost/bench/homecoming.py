"""WIRING: `python -m roost.bench.homecoming`: how much of what could be cached is, on two nodes.

Conversations of several turns, more of them than there are slots: half have a name and send each
turn alone, half are plain and send their whole history. What could be cached of a turn's prompt is
the prompt and the answer of the turn before; what was, is the runtime's own word.

With fewer turns at a time than slots, as when people read and type, every turn may go home, and the
bar counts. With all conversations at work all the time homes are busy, and going elsewhere may be
quicker than waiting: that figure is told and not judged.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import msgspec

from roost.bench.claims import Check, Report, at_least, table
from roost.bench.drills.fleets import Fleet, nodes
from roost.bench.drills.stage import Stage
from roost.bench.programs import parser, perform

BAR = 0.95
BOUND_S = 900.0
REPLY_S = 180.0
WORDS = (
    *("river", "stone", "cloud", "tree", "bird", "house", "light"),
    *("water", "field", "road", "night", "morning", "winter", "summer"),
)


class Setup(msgspec.Struct, frozen=True):
    """How many conversations, of how many turns, and how long turns and answers are.

    At most `at_once` turns run at a time, and `pause_s` pass before the next of a conversation: an
    answer has to be read. `opening` begins each turn, for the scripted backend.
    """

    conversations: int = 6
    at_once: int = 2
    pause_s: float = 1.0
    opening: str = ""
    turns: int = 6
    first_words: int = 80
    turn_words: int = 12
    max_tokens: int = 12
    nodes: int = 2
    slots: int = 2


class Served(msgspec.Struct, frozen=True):
    """One turn in its runtime's own counts, and how the gateway placed it."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    placement: str


class _Details(msgspec.Struct):
    cached_tokens: int


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _Details


class _Message(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Message


class _Whole(msgspec.Struct):
    choices: tuple[_Choice, ...]
    usage: _Usage


class _Last(msgspec.Struct):
    roost: Served


Told: TypeAlias = Mapping[str, Sequence[Sequence[Served]]]
"""The turns of each conversation, by how its past is known."""


class Talk:
    """One conversation with a gateway, by its name or by its history."""

    def __init__(self, fleet: Fleet, setup: Setup, name: str, number: int) -> None:
        self.named = number % 2 == 0
        self.served: list[Served] = []
        self._fleet = fleet
        self._setup = setup
        self._name = f"{name} {number}"
        self._dice = random.Random(self._name)
        self._history: list[dict[str, str]] = []

    async def whole(self, places: asyncio.Semaphore) -> None:
        """Take every turn, one after the other, each with one of the places."""
        for turn in range(self._setup.turns):
            words = self._setup.turn_words if turn else self._setup.first_words
            said = " ".join(self._dice.choice(WORDS) for _ in range(words))
            take = self._by_name if self.named else self._by_history
            async with places:
                said = f"{self._setup.opening}{self._name}: {said}"
                self.served.append(await asyncio.to_thread(take, said))
            await asyncio.sleep(self._setup.pause_s)

    def _by_name(self, said: str) -> Served:
        body = {"conversation_id": self._name, "prompt": said}
        raw, _ = self._post("/coordinator/infer", body)
        events = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
        return msgspec.json.decode(events[-1], type=_Last).roost

    def _by_history(self, said: str) -> Served:
        self._history.append({"role": "user", "content": said})
        raw, placement = self._post("/v1/chat/completions", {"messages": self._history})
        whole = msgspec.json.decode(raw, type=_Whole)
        text, usage = whole.choices[0].message.content, whole.usage
        self._history.append({"role": "assistant", "content": text})
        cached = usage.prompt_tokens_details.cached_tokens
        return Served(usage.prompt_tokens, cached, usage.completion_tokens, placement)

    def _post(self, path: str, body: Mapping[str, object]) -> tuple[bytes, str]:
        asked = {"model": self._fleet.stage.model, "max_tokens": self._setup.max_tokens}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._fleet.port}{path}",
            json.dumps({**asked, "temperature": 0, **body}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=REPLY_S) as reply:  # noqa: S310 - loopback
            return bytes(reply.read()), reply.headers["x-roost-placement"]


async def measure(stage: Stage, setup: Setup) -> Report:
    """Take so many turns at a time as the setup says, then as many as there are conversations."""
    # A step that is slow on a busy machine is no hang, and a node that is busy is not gone.
    flags = ("--slots", str(setup.slots), "--runtime-stall-floor-s", "120")
    patient = ("--link-suspect-s", "10", "--link-stale-s", "20", "--link-dead-s", "30")
    fleet = await nodes(stage, setup.nodes, (*flags, *patient), patient)
    quiet = await _talks(fleet, setup, "quiet", setup.at_once)
    return report(setup, quiet, await _talks(fleet, setup, "crowded", setup.conversations))


async def _talks(fleet: Fleet, setup: Setup, name: str, at_once: int) -> Told:
    places = asyncio.Semaphore(at_once)
    talks = [Talk(fleet, setup, name, number) for number in range(setup.conversations)]
    async with asyncio.TaskGroup() as group:
        for talk in talks:
            group.create_task(talk.whole(places))
    return {
        "by name": [talk.served for talk in talks if talk.named],
        "by history": [talk.served for talk in talks if not talk.named],
    }


def report(setup: Setup, quiet: Told, crowded: Told) -> Report:
    """Add up what was cached and what could have been."""
    rows: list[list[str]] = []
    figures: dict[str, float] = {}
    checks: list[Check] = []
    for at_once, told in ((setup.at_once, quiet), (setup.conversations, crowded)):
        for kind, some in told.items():
            cached, cacheable = counted(some)
            share = cached / cacheable
            placed = Counter(one.placement for served in some for one in served[1:])
            counts = [str(cached), str(cacheable), f"{share:.3f}", _told(placed)]
            rows.append([str(at_once), kind, *counts])
            figures[f"{at_once}_{kind.replace(' ', '_')}"] = share
            if told is quiet:
                checks.append(at_least(f"cached over cacheable, {kind}", share, BAR))
    heads = ("at once", "known", "cached tokens", "of", "share", "turns after the first")
    size = f"{setup.conversations} conversations of {setup.turns} turns, "
    places = f"{setup.nodes} nodes of {setup.slots} slots"
    return Report("homecoming", (size + places, table(heads, rows)), figures, tuple(checks))


def counted(talks: Sequence[Sequence[Served]]) -> tuple[int, int]:
    """Add up cached and cacheable prompt tokens over every turn after a first."""
    pairs = [pair for served in talks for pair in pairwise(served)]
    cached = sum(now.cached_tokens for _, now in pairs)
    return cached, sum(past.prompt_tokens + past.completion_tokens for past, _ in pairs)


def _told(placed: Counter[str]) -> str:
    return ", ".join(f"{count} {placement}" for placement, count in placed.most_common())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if the bar was missed."""
    made = parser("homecoming", __doc__, needs_model=False)
    made.add_argument("--conversations", type=int, default=Setup().conversations)
    made.add_argument("--turns", type=int, default=Setup().turns)
    options = made.parse_args(arguments)
    setup = Setup(conversations=options.conversations, turns=options.turns)
    return perform(partial(measure, setup=setup), BOUND_S, options)


if __name__ == "__main__":
    sys.exit(main())
