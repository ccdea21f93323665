"""SHELL: E5: one load, a ramp of users, and the search for the most that a server carries."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.claims import Check, Report, at_least, at_most, none_of, table
from roost.bench.drills.stage import Running, Stage
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.levels import Asked, Level, level
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve
from roost.bench.load.gates import seen as figure
from roost.bench.load.levels import BOUNDS, excess
from roost.bench.load.search import Search
from roost.bench.load.summary import Summary

SLOTS, QUEUE = 4, 4
KNEE_REJECT_RATE = 0.5
SLACK = 0.02
"""How far two ways to the same figure may be apart: they are rounded at different places."""

ABOUT = About(
    name="E5",
    title="Bench, stress and capacity",
    question="""
How does a server do under a fixed load, where does a ramp of users break it, and how many users
does it carry?""",
    method=f"""
`roost serve` with {SLOTS} slots and a queue of {QUEUE}, the real model with its chat template, a
unique conversation for each request, fixed seeds, and answers as long as they may be.

Bench: one closed loop. Stress: levels of more and more users, up to the first at which the share of
refusals reaches {KNEE_REJECT_RATE:g}. Capacity: doubled levels until a bound is broken, then halves
of what lies between, each repeated; a level breaks admission where a tenth is refused, and service
where errors, refusals or waiting are too many.""",
    accept=f"""
A knee is found; those who are all admitted are at least as many as there are slots ({SLOTS}) and at
most as many as there are slots and places in the queue ({SLOTS} + {QUEUE}); and figures agree with
the samples that they were made of.""",
    shows="""
That the instruments find a limit that is known, and what users see below and above it.

Why the figures of system 1 were none: its answers had one token, so its first token was its last.
Here every answer has as many tokens as it was asked for, and TTFT is a small part of it.""",
    hides="""
Capacity of anything but this machine at this hour; a published run rests 300 s between levels
(`roost bench capacity --cooldown 300`).

Why not every place counts: a slot is taken until its node has said that it is free, and users here
ask again at once, so where all places are taken some who ask again come a moment too soon.

A physical limit: memory is nowhere near full with a model of this size.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """What is asked for in each mode, the levels of the ramp, and the most users of the search."""

    bench_users: int = 4
    bench: Asked = Asked(20, 32)
    ramp: tuple[int, ...] = (2, 4, 8, 16, 24)
    stress: Asked = Asked(16, 12)
    users_max: int = 16
    repeats: int = 2
    capacity: Asked = Asked(16, 8)
    seed: int = 5


class Seen(msgspec.Struct, frozen=True):
    """The load, the ramp, every level of the search, and the most users within each bound."""

    slots: int
    queue: int
    max_tokens: int
    bench: Level
    stress: tuple[Level, ...]
    capacity: tuple[Level, ...]
    users: dict[str, int]


async def run(house: House, plan: Plan) -> Seen:
    """Play all three on one server."""
    return await house.act_real(partial(_modes, plan=plan))


async def _modes(stage: Stage, plan: Plan) -> Seen:
    server = stage.serve("server", "--slots", str(SLOTS), "--queue-length", str(QUEUE))
    await server.serves()
    await level(server, (stage.model,), 1, Asked(1, 4), 0)
    bench = await level(server, (stage.model,), plan.bench_users, plan.bench, plan.seed)
    stress: list[Level] = []
    for users in plan.ramp:
        stress.append(await level(server, (stage.model,), users, plan.stress, plan.seed + users))
        if (figure("reject_rate", stress[-1].figures) or 0.0) >= KNEE_REJECT_RATE:
            break
    capacity, users_of = await _search(server, stage.model, plan)
    tokens = plan.bench.max_tokens
    return Seen(SLOTS, QUEUE, tokens, bench, tuple(stress), tuple(capacity), users_of)


async def _search(server: Running, model: str, plan: Plan) -> tuple[list[Level], dict[str, int]]:
    search = Search(tuple(BOUNDS), plan.users_max, plan.repeats, 1)
    levels: list[Level] = []
    while (users := search.next_level()) is not None:
        seed = plan.seed + 1000 + len(levels)
        levels.append(await level(server, (model,), users, plan.capacity, seed))
        figures = levels[-1].figures
        search.on_played(users, {name: excess(gates, figures) for name, gates in BOUNDS.items()})
    return levels, {name: search.found(name) for name in BOUNDS}


def judge(seen: Seen) -> Report:
    """Check that the knee is where it must be, and figures against samples."""
    modes = (("bench", (seen.bench,)), ("stress", seen.stress), ("capacity", seen.capacity))
    rows = [_row(name, one.users, one.figures) for name, levels in modes for one in levels]
    knee = next((one.users for one in seen.stress if _refused(one) >= KNEE_REJECT_RATE), 0)
    places, admitted = seen.slots + seen.queue, seen.users["admission"]
    wrong = [words for _, levels in modes for one in levels for words in inconsistent(one)]
    one_token = sum((s.completion_tokens or 0) < seen.max_tokens for s in seen.bench.samples)
    checks = (
        at_least("the ramp's knee, users", knee, places + 1),
        at_least("users who are all admitted, and there are slots", admitted, seen.slots),
        at_most("users who are all admitted, and there are places", admitted, places),
        Check("figures agree with samples", not wrong, "; ".join(wrong[:3]) or "all do"),
        none_of("bench: answers shorter than asked for", one_token),
        none_of("failed", sum(one.figures.failed for _, levels in modes for one in levels)),
    )
    heads = (
        "mode",
        "users",
        "ok",
        "shed",
        "failed",
        "tok/s",
        "TTFT p50 ms",
        "p95 ms",
        "e2e p95 ms",
    )
    found = ", ".join(f"{name} {users} users" for name, users in seen.users.items())
    line = f"knee of the ramp: {knee or 'none'} users; capacity: {found}"
    figures = {**{f"{name}_users": float(n) for name, n in seen.users.items()}, "knee": float(knee)}
    return Report("E5", (table(heads, rows), line), figures, checks)


def inconsistent(one: Level) -> list[str]:
    """Say which figures of a level are not those of its samples."""
    told, samples = one.figures, one.samples
    good = [s for s in samples if s.outcome == "ok"]
    tokens = sum(s.completion_tokens or 0 for s in good)
    claims = (
        ("answers are counted", told.ok == len(good)),
        ("all are counted", told.ok + told.shed + told.failed == len(samples)),
        ("tokens are added up", (told.completion_tokens or 0) == tokens),
        ("throughput is tokens over time", _near(told.tokens_per_s or 0.0, tokens / told.wall_s)),
        ("first tokens come before last ones", all((s.ttft_s or 0.0) <= s.e2e_s for s in good)),
        ("gaps add up", all(_near((s.ttft_s or 0) + sum(s.gaps_s), s.e2e_s) for s in good)),
    )
    return [f"{one.users} users: not so: {words}" for words, held in claims if not held]


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= SLACK * max(1.0, abs(one), abs(other))


def _refused(one: Level) -> float:
    return figure("reject_rate", one.figures) or 0.0


def _row(mode: str, users: int, told: Summary) -> list[str]:
    names = ("tokens_per_s", "p50_ttft_ms", "p95_ttft_ms", "p95_e2e_ms")
    values = (figure(name, told) for name in names)
    figures = ["?" if value is None else f"{value:.1f}" for value in values]
    return [mode, str(users), str(told.ok), str(told.shed), str(told.failed), *figures]


def judged(seen: Seen) -> Verdict:
    """Judge, and draw refusals against users."""
    played = sorted((one.users, _refused(one)) for one in (*seen.stress, *seen.capacity))
    curve = Curve("share refused", tuple((float(users), share) for users, share in played))
    return verdict([judge(seen)], Lines("refusals against users", "users", "share", (curve,)))


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
