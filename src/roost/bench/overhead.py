"""WIRING: `python -m roost.bench.overhead`: what roost costs beside the bare server of llama.cpp.

All run at the same time, each with eight slots of the same model, and are asked in turn, in blocks
A B C C B A: one stream, eight streams, and warm requests (a prompt that its slot holds already),
each after a rest, as people ask, and each as soon as the one before it has ended, as programs do.

The bare server runs as it comes, which is what the bars are about, and once more with its weights
in huge pages, as roost has them: beside that one only what roost does itself makes a difference.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from functools import partial
from statistics import median
from time import monotonic

import msgspec

from roost.bench.chat_stream import Told, asked
from roost.bench.claims import Check, Report, at_least, at_most, none_of, table
from roost.bench.drills.stage import Stage
from roost.bench.numbers import interleaved, ratio_of_medians
from roost.bench.programs import parser, perform
from roost.bench.stock import stock_server

SLOTS, SLOT_CTX = 8, 2048
REST_S = 0.05
"""By then threads that spin for the next token have gone to sleep, whosever they are."""

RESTED, AT_ONCE = "after a rest", "at once"
THROUGHPUT_BAR, TTFT_BAR_MS = 0.97, 1.0
BOUND_S = 1500.0
BARE, SAME, ROOST = "llama.cpp", "llama.cpp, huge pages", "roost"


class Setup(msgspec.Struct, frozen=True):
    """Plays of all, forth and back, how long answers are, and the warm requests of a block."""

    rounds: int = 6
    max_tokens: int = 96
    warm: int = 10
    opening: str = ""


class Server(msgspec.Struct, frozen=True):
    """One of them: its name, where it listens, and what it calls the model."""

    name: str
    port: int
    model: str


class Block(msgspec.Struct, frozen=True):
    """Requests of one server that ran one beside the other, and how long all of them took."""

    server: str
    told: tuple[Told, ...]
    wall_s: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all answers per second."""
        return sum(one.tokens for one in self.told) / self.wall_s


def question(setup: Setup, number: int) -> list[dict[str, str]]:
    """Write one conversation; the same number is the same conversation."""
    said = f"{setup.opening}Tell a long story about {number} birds, a river and a winter."
    return [{"role": "user", "content": said}]


async def streams(server: Server, setup: Setup, at_once: int) -> Block:
    """Ask for as many streams at once, always the same."""
    began_s = monotonic()
    talks = (question(setup, number) for number in range(at_once))
    told = (asked(server.port, server.model, talk, setup.max_tokens) for talk in talks)
    answers = tuple(await asyncio.gather(*told))
    return Block(server.name, answers, monotonic() - began_s)


async def warm(server: Server, setup: Setup, rest_s: float) -> Block:
    """Ask the same thing again and again, one after the other."""
    began_s, answers = monotonic(), []
    for _ in range(setup.warm + 1):
        await asyncio.sleep(rest_s)
        answers.append(await asked(server.port, server.model, question(setup, 0), 2))
    return Block(server.name, tuple(answers[1:]), monotonic() - began_s)


async def compared(servers: Sequence[Server], setup: Setup) -> dict[str, list[Block]]:
    """Play every load in turn on every server; first once each that does not count."""
    loads = {
        "1 stream": partial(streams, setup=setup, at_once=1),
        "8 streams": partial(streams, setup=setup, at_once=SLOTS),
        RESTED: partial(warm, setup=setup, rest_s=REST_S),
        AT_ONCE: partial(warm, setup=setup, rest_s=0.0),
    }
    by_name = {server.name: server for server in servers}
    played: dict[str, list[Block]] = {}
    for load, play in loads.items():
        for server in servers:
            await play(server)
        order = interleaved(list(by_name), setup.rounds)
        played[load] = [await play(by_name[name]) for name in order]
    return played


async def measure(stage: Stage, setup: Setup) -> Report:
    """Start all of them and compare them."""
    async with (
        stock_server(stage, SLOTS, SLOT_CTX) as bare,
        stock_server(stage, SLOTS, SLOT_CTX, copies=True) as same,
    ):
        server = stage.serve("node", "--slots", str(SLOTS))
        await server.serves()
        ours = Server(ROOST, server.port, stage.model)
        all_of_them = (Server(BARE, bare, ""), Server(SAME, same, ""), ours)
        return report(await compared(all_of_them, setup), random.Random(5))


def report(played: dict[str, list[Block]], dice: random.Random) -> Report:
    """Judge throughput as a ratio, and the first token of warm requests as a difference.

    The bars are about the bare server as it comes; beside the other one there are only figures.
    """
    rows, figures, checks = [], {}, []
    for load, blocks in played.items():
        if load in (RESTED, AT_ONCE):
            continue
        rates = {
            name: [block.tokens_per_s for block in blocks if block.server == name]
            for name in (BARE, SAME, ROOST)
        }
        for name in (BARE, SAME):
            ratio = ratio_of_medians(rates[ROOST], rates[name], dice)
            said = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
            rows.append([load, name, *(f"{median(rates[of]):.1f}" for of in (name, ROOST)), said])
            figures[f"throughput of {load} over {name}"] = ratio.value
        over = f"throughput over the bare server's, {load}"
        checks.append(at_least(over, figures[f"throughput of {load} over {BARE}"], THROUGHPUT_BAR))
    firsts = []
    for load in (RESTED, AT_ONCE):
        of = {name: 1000 * median(_first_s(played[load], name)) for name in (BARE, SAME, ROOST)}
        for name in (BARE, SAME):
            figures[f"added to a warm TTFT of {name} {load}, ms"] = of[ROOST] - of[name]
        added = f"added to the first token of a warm request {load}"
        checks.append(at_most(added, of[ROOST] - of[BARE], TTFT_BAR_MS, " ms"))
        firsts.append([load, *(f"{took_ms:.1f}" for took_ms in of.values())])
    checks.append(_all_warm([*played[RESTED], *played[AT_ONCE]]))
    checks.append(none_of("answers without a token", _silent(played)))
    heads = ("load", "beside", "its tokens/s", "roost's", "ratio, 95 of 100")
    first = table(("first token of a warm request, ms", BARE, SAME, ROOST), firsts)
    return Report("overhead", (table(heads, rows), first), figures, tuple(checks))


def _first_s(blocks: Sequence[Block], server: str) -> list[float]:
    return [one.ttft_s for block in blocks if block.server == server for one in block.told]


def _all_warm(blocks: Sequence[Block]) -> Check:
    """Check that what was called warm was: all but the last tokens of each prompt were cached."""
    cold = sum(one.cached < one.prompt // 2 for block in blocks for one in block.told)
    return none_of("warm requests that were not", cold)


def _silent(played: dict[str, list[Block]]) -> int:
    return sum(one.tokens == 0 for blocks in played.values() for b in blocks for one in b.told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if a bar was missed."""
    made = parser("overhead", __doc__)
    made.add_argument("--rounds", type=int, default=Setup().rounds, help="plays forth and back")
    options = made.parse_args(arguments)
    return perform(partial(measure, setup=Setup(rounds=options.rounds)), BOUND_S, options)


if __name__ == "__main__":
    sys.exit(main())
