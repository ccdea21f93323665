"""WIRING: `python -m roost.bench.prefix`: eight requests at once with one long beginning.

A stock llama.cpp server and a roost node, one after the other on the same machine: what each has
computed of the prompts in all, and when the last of the first tokens came.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
from collections.abc import Sequence
from functools import partial

import msgspec

from roost.bench.chat_stream import Told, asked
from roost.bench.claims import Check, Report, at_most, ms, none_of, table
from roost.bench.drills.stage import Stage
from roost.bench.programs import parser, perform
from roost.bench.stock import stock_server

REQUESTS, WORDS_EACH, MAX_TOKENS = 8, 1104, 16
COMPUTED_BAR, TTFT_BAR = 1.1, 0.3
SLOT_CTX = 2048
BOUND_S = 900.0
WORDS = (
    *("river", "stone", "cloud", "tree", "bird", "house", "light"),
    *("water", "field", "road", "night", "morning", "winter", "summer"),
)


class Setup(msgspec.Struct, frozen=True):
    """How many ask at once, and how many words all of them begin with, after `opening`."""

    requests: int = REQUESTS
    words: int = WORDS_EACH
    opening: str = ""


class Side(msgspec.Struct, frozen=True):
    """What came of all requests to one server."""

    told: tuple[Told, ...]

    @property
    def computed(self) -> int:
        """Tokens of all prompts that were not cached."""
        return sum(one.prompt - one.cached for one in self.told)

    @property
    def last_first_s(self) -> float:
        """When the last of them had its first token."""
        return max(one.ttft_s for one in self.told)


def prompts(setup: Setup, dice: random.Random) -> list[list[dict[str, str]]]:
    """Write conversations that differ in their last word."""
    said = [dice.choice(WORDS) for _ in range(setup.words)]
    system = {"role": "system", "content": f"{dice.randrange(10**6)} " + " ".join(said)}
    return [
        [system, {"role": "user", "content": f"{setup.opening}Question {number}"}]
        for number in range(setup.requests)
    ]


async def asked_at_once(port: int, model: str, setup: Setup, dice: random.Random) -> Side:
    """Ask all of them at the same time."""
    talks = prompts(setup, dice)
    told = (asked(port, model, talk, MAX_TOKENS) for talk in talks)
    return Side(tuple(await asyncio.gather(*told)))


async def stock(stage: Stage, setup: Setup, dice: random.Random) -> Side:
    """Ask a server as it comes with llama.cpp."""
    async with stock_server(stage, setup.requests, SLOT_CTX) as port:
        await asked_at_once(port, "", Setup(1, 8), dice)
        return await asked_at_once(port, "", setup, dice)


async def ours(stage: Stage, setup: Setup, dice: random.Random) -> Side:
    """Ask a node of roost with as many slots."""
    server = stage.serve("node", "--slots", str(setup.requests))
    await server.serves()
    await asked_at_once(server.port, stage.model, Setup(1, 8), dice)
    return await asked_at_once(server.port, stage.model, setup, dice)


async def measure(stage: Stage, setup: Setup) -> Report:
    """Measure the one, then the other."""
    dice = random.Random(11)
    return report(await stock(stage, setup, dice), await ours(stage, setup, dice))


def report(theirs: Side, mine: Side) -> Report:
    """Compare what was computed with the beginning, and first tokens with those of the other."""
    beginning = max(one.cached for one in mine.told)
    computed = mine.computed / beginning if beginning else float("inf")
    first = mine.last_first_s / theirs.last_first_s
    rows = [
        [
            name,
            str(side.computed),
            ms(side.last_first_s),
            ms(min(one.ttft_s for one in side.told)),
        ]
        for name, side in (("llama.cpp", theirs), ("roost", mine))
    ]
    checks: list[Check] = [
        at_most("computed over the beginning", computed, COMPUTED_BAR),
        at_most("all first tokens over the stock server's", first, TTFT_BAR),
        none_of("requests without a first token", sum(math.isnan(t.ttft_s) for t in mine.told)),
    ]
    heads = ("server", "tokens computed", "all first tokens ms", "the first of them ms")
    tables = (f"{len(mine.told)} at once, {beginning} tokens in common", table(heads, rows))
    figures = {
        "beginning": float(beginning),
        "computed_over_beginning": computed,
        "first_tokens_over_stock": first,
    }
    return Report("prefix", tables, figures, tuple(checks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if a bar was missed."""
    options = parser("prefix", __doc__).parse_args(arguments)
    return perform(partial(measure, setup=Setup()), BOUND_S, options)


if __name__ == "__main__":
    sys.exit(main())
