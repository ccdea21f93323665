"""SHELL: E1, the sweep: constant rates around the knee, with admission and in effect without."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from roost.bench.claims import Check, Report, at_most, interval, ms, quantile, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import closed_loop, open_loop
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Running, Stage

LIMIT, OFF = 2, 100_000
PIECES, GAP_MS = 10, 20.0
TOKENS = 24
SHARES, SHORT_SHARES = (0.4, 0.8, 1.2, 1.6, 2.5), (0.4, 1.8)
LEAST = 5
"""Requests that a level has at least, however slow the machine is."""
FLAT = 1.3
GROWS = 2.0
FLAGS = ("--slots", str(LIMIT), "--queue-length", "2000", "--queue-wait-s", "300")


class Setup(msgspec.Struct, frozen=True):
    """Rates as shares of the capacity, how long each is offered, and how often, in seconds.

    `measured_s` is for finding the capacity of a real model; a scripted one's is known, as its
    pieces come `gap_ms` apart.
    """

    shares: tuple[float, ...] = SHARES
    level_s: float = 8.0
    measured_s: float = 10.0
    gap_ms: float = GAP_MS


SHORT = Setup(SHORT_SHARES, 1.0, 3.0)
REAL = Setup(level_s=20.0)


class Level(msgspec.Struct, frozen=True):
    """One rate with admission or without, and every answer; times count from the first."""

    share: float
    rate: float
    admission: bool
    answers: tuple[Answer, ...]


class Swept(msgspec.Struct, frozen=True):
    """One sweep before so many servers; `capacity` is what they can complete per second."""

    servers: int
    capacity: float
    levels: tuple[Level, ...]


class Point(msgspec.Struct, frozen=True):
    """One rate with one limit: counts, and latencies of what was served, in seconds.

    `p99_low_s` and `p99_high_s` hold the true p99 in 95 of 100 runs. `lag_p99_s` is how late this
    client sent: a part of the latency that is none of the gateway's.
    """

    share: float
    rate: float
    admission: bool
    asked: int
    served: int
    shed: int
    other: int
    p50_s: float
    p90_s: float
    p99_s: float
    p99_low_s: float
    p99_high_s: float
    goodput: float
    lag_p99_s: float


async def one_server(stage: Stage, plan: Plan) -> Report:
    """Sweep before one server."""
    return await _drill(stage, plan, 1)


async def three_servers(stage: Stage, plan: Plan) -> Report:
    """Sweep before three servers."""
    return await _drill(stage, plan, 3)


async def _drill(stage: Stage, plan: Plan, count: int) -> Report:
    setup = SHORT if plan.short else REAL if stage.real else Setup()
    # In a short run p99 is the slowest of a few, and the machine's as much as roost's.
    return judge(await swept(stage, setup, count), plan.pick(short=2.0, full=FLAT))


async def swept(stage: Stage, setup: Setup, count: int) -> Swept:
    """Sweep both ways at once when scripted, one after the other where they would share cores."""
    on, off = stage.serve_all("on", count, FLAGS), stage.serve_all("off", count, FLAGS)
    for server in (*on, *off):
        await server.serves()
    gateways = [await _before(stage, on, LIMIT), await _before(stage, off, OFF)]
    capacity = count * LIMIT * 1000 / (PIECES * setup.gap_ms)
    if stage.real:
        capacity = await _measured(stage, gateways[0], setup)
    levels = []
    for share in setup.shares:
        runs = [_run(stage, gateway, share * capacity, setup) for gateway in gateways]
        if stage.real:
            answered = [await run for run in runs]
        else:
            answered = await asyncio.gather(*runs)
        levels += [
            Level(share, share * capacity, admission, _kept(answers))
            for admission, answers in zip((True, False), answered, strict=True)
        ]
        await asyncio.gather(*(gateway.settled(120 if stage.real else 15) for gateway in gateways))
    return Swept(count, capacity, tuple(levels))


def _kept(answers: list[Answer]) -> tuple[Answer, ...]:
    return rebased(answers, min(answer.due_s for answer in answers), stamps=False)


async def _before(stage: Stage, servers: Sequence[Running], limit: int) -> Running:
    flags = ("--upstream-max-in-flight", str(limit))
    fleet = await fleets.before(stage, servers, flags)
    await fleet.all_alive()
    return fleet.gateway


async def _measured(stage: Stage, gateway: Running, setup: Setup) -> float:
    """Measure what a closed loop of as many clients as places gets through, per second."""
    dice = random.Random(2)

    def chat(_number: int) -> Chat:
        return _chat(stage, gateway, dice, setup.gap_ms)

    # The first ones load the model.
    await closed_loop(chat, LIMIT, 0.1)
    answers = await closed_loop(chat, LIMIT, setup.measured_s)
    return len(answers) / (max(a.ended_s for a in answers) - min(a.due_s for a in answers))


async def _run(stage: Stage, gateway: Running, rate: float, setup: Setup) -> list[Answer]:
    dice = random.Random(round(1000 * rate))
    seconds = max(setup.level_s, LEAST / rate)
    return await open_loop(lambda _n: _chat(stage, gateway, dice, setup.gap_ms), rate, seconds)


def _chat(stage: Stage, gateway: Running, dice: random.Random, gap_ms: float) -> Chat:
    if not stage.real:
        return Chat(gateway.port, stage.model, scripted(dice, PIECES, gap_ms))
    content = f"Story number {dice.getrandbits(32)}: "
    return Chat(gateway.port, stage.model, content, TOKENS, ignore_eos=True, timeout_s=300)


def point(level: Level) -> Point:
    """Make figures of one level."""
    answers = level.answers
    served = [a.latency_s for a in answers if a.end == "complete"]
    shed = sum(a.status == 429 for a in answers)
    seconds = max(a.ended_s for a in answers) - min(a.due_s for a in answers)
    p50_s, p90_s, p99_s = (quantile(served, q) for q in (0.5, 0.9, 0.99))
    low_s, high_s = interval(served, 0.99) if served else (p99_s, p99_s)
    return Point(
        *(level.share, level.rate, level.admission),
        *(len(answers), len(served), shed, len(answers) - len(served) - shed),
        *(p50_s, p90_s, p99_s, low_s, high_s),
        len(served) / seconds,
        quantile([a.lag_s for a in answers], 0.99),
    )


def judge(swept: Swept, flat: float = FLAT) -> Report:
    """Compare p99 with that of the lowest rate: with admission it stays, without it grows."""
    points = [point(level) for level in swept.levels]
    heads = (
        *("x knee", "req/s", "limit", "asked", "served", "shed", "other"),
        *("p50 ms", "p90 ms", "p99 ms", "95 of 100", "served/s", "client late p99 ms"),
    )
    rows = [
        [
            *(f"{p.share:.1f}", f"{p.rate:.2f}", str(LIMIT) if p.admission else "off"),
            *(str(n) for n in (p.asked, p.served, p.shed, p.other)),
            *(ms(s) for s in (p.p50_s, p.p90_s, p.p99_s)),
            f"{1000 * p.p99_low_s:.0f} to {1000 * p.p99_high_s:.0f}",
            f"{p.goodput:.2f}",
            ms(p.lag_p99_s),
        ]
        for p in points
    ]
    on, off = ([p for p in points if p.admission is wanted] for wanted in (True, False))
    worst = max(p.p99_s for p in on) / on[0].p99_s
    growth = off[-1].p99_s / off[0].p99_s
    over = [p.p99_s for p in off if p.share > 1]
    rising = all(a < b for a, b in pairwise(over))
    checks = (
        at_most("with admission, worst p99 over unloaded p99", worst, flat),
        Check("without, p99 grows with the rate", rising and growth > GROWS, f"x{growth:.1f}"),
        at_most("with neither 200 nor 429", sum(p.other for p in points), 0),
    )
    figures = {"capacity_per_s": swept.capacity, "on_p99_ratio": worst, "off_p99_ratio": growth}
    name = f"E1 sweep, {swept.servers} x {LIMIT} places"
    return Report(name, (table(heads, rows),), figures, checks)
