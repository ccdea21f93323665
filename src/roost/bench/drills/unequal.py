"""SHELL: E4, unequal nodes: one is three times as fast as the two others."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from roost.bench.claims import Report, at_least, at_most, ms, quantile, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import at_once, open_loop
from roost.bench.drills.asking import Chat
from roost.bench.drills.paced_node import PIECES
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Stage

DELAYS_MS = {"fast": 10.0, "slow-1": 30.0, "slow-2": 30.0}
SPEED = DELAYS_MS["slow-1"] / DELAYS_MS["fast"]
SLOTS = 2
LOAD = 0.75
POLICIES = ("predicted", "least_inflight")
SLACK = 1.1
LEAST_RATIO = 1.3


class Shares(msgspec.Struct, frozen=True):
    """All answers by the policy that placed them."""

    by_policy: dict[str, tuple[Answer, ...]]


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Serve the same arrivals with each policy, in fleets of their own."""
    shares = await shared(stage, plan.pick(short=2.0, full=20.0))
    return judge(shares, plan.pick(short=1.4, full=1.1))


async def shared(stage: Stage, seconds: float) -> Shares:
    """Offer the same to fleets with each policy, at the same time."""
    stages = (stage, stage.beside())
    runs = [_run(at, policy, seconds) for at, policy in zip(stages, POLICIES, strict=True)]
    answered = zip(POLICIES, await asyncio.gather(*runs), strict=True)
    return Shares(
        {policy: rebased(answers, answers[0].due_s, stamps=False) for policy, answers in answered}
    )


def served_by(answers: Sequence[Answer]) -> Counter[str]:
    """Count whole answers by node."""
    return Counter(a.node for a in answers if a.end == "complete")


def judge(shares: Shares, slack: float = SLACK) -> Report:
    """Compare the fast node's share with the others', and what that is worth."""
    rows: list[list[str]] = []
    ratios: dict[str, float] = {}
    p50s: dict[str, float] = {}
    for policy, answers in shares.by_policy.items():
        served = served_by(answers)
        latencies = [a.latency_s for a in answers if a.end == "complete"]
        slow = (served["slow-1"] + served["slow-2"]) / 2
        ratios[policy] = served["fast"] / max(1.0, slow)
        p50s[policy] = quantile(latencies, 0.5)
        rows.append(
            [
                *(policy, str(len(answers)), *(str(served[name]) for name in DELAYS_MS)),
                f"{ratios[policy]:.2f}",
                *(ms(quantile(latencies, q)) for q in (0.5, 0.9, 0.99)),
                str(sum(a.status == 429 for a in answers)),
            ]
        )
    heads = ("policy", "asked", *DELAYS_MS, "fast/slow", "p50 ms", "p90 ms", "p99 ms", "shed")
    checks = (
        at_least(f"predicted: fast over slow (speed {SPEED:g})", ratios["predicted"], SPEED / 2),
        at_least("least_inflight: fast over slow", ratios["least_inflight"], LEAST_RATIO),
        at_most(
            "predicted over least_inflight, p50", p50s["predicted"] / p50s["least_inflight"], slack
        ),
    )
    figures = {f"fast_over_slow_{policy}": ratio for policy, ratio in ratios.items()}
    figures |= {f"p50_s_{policy}": p50_s for policy, p50_s in p50s.items()}
    return Report("E4 unequal nodes", (table(heads, rows),), figures, checks)


async def _run(stage: Stage, policy: str, seconds: float) -> list[Answer]:
    fleet = await fleets.paced_nodes(stage, DELAYS_MS, SLOTS, ("--policy", policy))
    dice = random.Random(4)

    def chat(_number: int) -> Chat:
        return Chat(fleet.port, stage.model, f"{dice.getrandbits(64):016x}")

    # The first requests load the models, and say how fast each node is.
    for _ in range(2):
        await at_once([chat(n) for n in range(len(DELAYS_MS) * SLOTS)])
    capacity = sum(1000 * SLOTS / (PIECES * delay_ms) for delay_ms in DELAYS_MS.values())
    return await open_loop(chat, LOAD * capacity, seconds)
