"""SHELL: E4, unequal nodes: one is three times as fast as the two others."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from roost.bench.drills import fleets
from roost.bench.drills.arrivals import at_once, open_loop
from roost.bench.drills.asking import Answer, Chat
from roost.bench.drills.paced_node import PIECES
from roost.bench.drills.plan import Plan
from roost.bench.drills.report import Report, at_least, at_most, ms, quantile, table
from roost.bench.drills.stage import Stage

DELAYS_MS = {"fast": 10.0, "slow-1": 30.0, "slow-2": 30.0}
SPEED = DELAYS_MS["slow-1"] / DELAYS_MS["fast"]
SLOTS = 2
LOAD = 0.75
POLICIES = ("predicted", "least_inflight")


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Serve the same arrivals with each policy, in fleets of their own."""
    stages = (stage, stage.beside())
    runs = [_run(at, policy, plan) for at, policy in zip(stages, POLICIES, strict=True)]
    answered = dict(zip(POLICIES, await asyncio.gather(*runs), strict=True))
    rows: list[list[str]] = []
    ratios: dict[str, float] = {}
    p50s: dict[str, float] = {}
    for policy, answers in answered.items():
        served = Counter(a.node for a in answers if a.end == "complete")
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
    slack = plan.pick(short=1.4, full=1.1)
    checks = (
        at_least(f"predicted: fast over slow (speed {SPEED:g})", ratios["predicted"], SPEED / 2),
        at_least("least_inflight: fast over slow", ratios["least_inflight"], 1.3),
        at_most(
            "predicted over least_inflight, p50", p50s["predicted"] / p50s["least_inflight"], slack
        ),
    )
    figures = {f"fast_over_slow_{policy}": ratio for policy, ratio in ratios.items()}
    figures |= {f"p50_s_{policy}": p50_s for policy, p50_s in p50s.items()}
    return Report("E4 unequal nodes", (table(heads, rows),), figures, checks)


async def _run(stage: Stage, policy: str, plan: Plan) -> list[Answer]:
    fleet = await fleets.paced_nodes(stage, DELAYS_MS, SLOTS, ("--policy", policy))
    dice = random.Random(4)

    def chat(_number: int) -> Chat:
        return Chat(fleet.port, stage.model, f"{dice.getrandbits(64):016x}")

    # The first requests load the models, and say how fast each node is.
    for _ in range(2):
        await at_once([chat(n) for n in range(len(DELAYS_MS) * SLOTS)])
    capacity = sum(1000 * SLOTS / (PIECES * delay_ms) for delay_ms in DELAYS_MS.values())
    return await open_loop(chat, LOAD * capacity, plan.pick(short=2.0, full=20.0))
