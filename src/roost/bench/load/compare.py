"""WIRING: two servers in turn, A B B A, and how sure the ratio of their figures is.

Both are asked for the same words in each pair of blocks, and for others in the next, so that
neither finds again what an earlier block has left in its cache.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Sequence

import msgspec

from roost.bench.load.gates import seen
from roost.bench.load.measure import Result, measure
from roost.bench.load.plan import Plan
from roost.bench.numbers import Ratio, interleaved, ratio_of_medians
from roost.gateway.upstream.targets import Target

FIGURES = (
    *("p50_ttft_ms", "p99_ttft_ms", "p50_gap_ms", "p99_gap_ms", "p50_e2e_ms"),
    *("tokens_per_s", "goodput_per_s"),
)


class Side(msgspec.Struct, frozen=True):
    """One of the two servers, and whom to trust behind https."""

    target: Target
    tls: ssl.SSLContext | None = None


class Compared(msgspec.Struct, frozen=True):
    """Ratios of the second server's figures over the first one's, and every block of each.

    A figure that one of them never told has no ratio.
    """

    ratios: dict[str, Ratio]
    first: tuple[Result, ...]
    second: tuple[Result, ...]

    @property
    def lost(self) -> dict[str, int]:
        """Requests of each server that were not answered whole."""
        sides = {"first": self.first, "second": self.second}
        return {
            name: sum(one.figures.shed + one.figures.failed for one in blocks)
            for name, blocks in sides.items()
        }


async def compare(sides: tuple[Side, Side], plan: Plan, rounds: int, flags: str) -> Compared:
    """Play the plan on both, `rounds` times A B B A; warm-ups only before the first block."""
    played: dict[str, list[Result]] = {"first": [], "second": []}
    by_name = dict(zip(played, sides, strict=True))
    for name in interleaved(list(played), rounds):
        done = len(played[name])
        work = msgspec.structs.replace(plan.work, seed=plan.work.seed + done)
        warmup = 0 if done else plan.warmup
        block = msgspec.structs.replace(plan, work=work, warmup=warmup)
        side = by_name[name]
        result, _ = await measure(side.target, block, flags, tls=side.tls)
        played[name].append(result)
    first, second = played["first"], played["second"]
    return Compared(ratios(first, second), tuple(first), tuple(second))


def ratios(first: Sequence[Result], second: Sequence[Result]) -> dict[str, Ratio]:
    """Return the ratio of each figure that every block of both has, and that is above 0."""
    found: dict[str, Ratio] = {}
    for name in FIGURES:
        theirs, ours = ([seen(name, one.figures) for one in blocks] for blocks in (first, second))
        known = [value for value in (*theirs, *ours) if value]
        if len(known) == len(theirs) + len(ours):
            known_theirs, known_ours = known[: len(theirs)], known[len(theirs) :]
            found[name] = ratio_of_medians(known_ours, known_theirs, random.Random(name))
    return found
