"""SHELL: E13: one model and three, 1, 2, 4 and 8 users, warm and cold."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.claims import Check, Report, at_most, none_of, table
from roost.bench.drills.stage import FleetView, Stage
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.levels import Asked, Level, level
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve
from roost.bench.load.gates import seen as figure

SLOTS = 8
FLAGS = ("--queue-length", "64", "--max-in-flight-decodes-per-node", "0")
NAMES = ("first", "second", "third")

ABOUT = About(
    name="E13",
    title="Concurrency, warm and cold, one model and several",
    question="""
What do 1, 2, 4 and 8 users at a time get, of one model and of three in turn, and what does a cold
start add? How many processes does that make?""",
    method=f"""
`roost serve` with {SLOTS} slots for each model and without a cap of decodes per node. Users ask one
after the other, each prompt is another one, and answers are as long as they may be, whatever the
model would say.

First the very first requests of a server that was just started (cold), then each number of users on
a warm one, then the same with three models in turn, which are the same weights in files of their
own.

Before and after each level the fleet's own view is kept, and the processes that run a model are
counted.""",
    accept="""
No request fails, whoever asks finds one process for each model however many ask, nothing is in
flight after a level, and a CPU second makes as many tokens with most users as with one.""",
    shows="""
How throughput, first tokens and the time in the queue change with the number of users, and what a
load costs whoever comes first.""",
    hides="""
Accelerators: this is the form for processors, which is what these pages were made on. On a
processor with one thread for each model, more users share one core's arithmetic, so what rises is
little.

Large models: with these weights what a step costs beside the weights counts more than it would.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """The numbers of users, and what is asked for at each with one model and with three."""

    users: tuple[int, ...] = (1, 2, 4, 8)
    one: Asked = Asked(8, 24)
    three: Asked = Asked(12, 16)
    cold: Asked = Asked(3, 16)
    seed: int = 13


class Seen(msgspec.Struct, frozen=True):
    """Levels of one model and of three, and the first of a server that had just started."""

    slots: int
    one: tuple[Level, ...]
    three: tuple[Level, ...]
    cold: Level


async def run(house: House, plan: Plan) -> Seen:
    """Play all levels on one server."""
    return await house.act_real(partial(_levels, plan=plan))


async def _levels(stage: Stage, plan: Plan) -> Seen:
    others = tuple(stage.another("server", name) for name in NAMES[1:])
    server = stage.serve("server", "--slots", str(SLOTS), *FLAGS)
    await server.serves()
    models = (stage.model, *others)
    cold = await level(server, models, 1, plan.cold, plan.seed)
    levels: list[list[Level]] = [[], []]
    for number, users in enumerate(plan.users, 1):
        seed = plan.seed + 10 * number
        levels[0].append(await level(server, models[:1], users, plan.one, seed))
        levels[1].append(await level(server, models, users, plan.three, seed + 1))
    return Seen(SLOTS, tuple(levels[0]), tuple(levels[1]), cold)


def judge(seen: Seen) -> Report:
    """Check that nothing failed or was left, and that processes follow models and not users."""
    kinds = (("cold, 3 models", (seen.cold,)), ("1 model", seen.one), ("3 models", seen.three))
    rows = [_row(name, one) for name, levels in kinds for one in levels]
    every = [one for _, levels in kinds for one in levels]
    most = max(one.programs for one in every)
    rates = {name: [_cpu_rate(one) for one in levels] for name, levels in kinds[1:]}
    checks = (
        none_of("requests that failed or were refused", sum(_lost(one) for one in every)),
        at_most("processes that run a model, for three models", most, len(NAMES)),
        none_of("in flight after a level", sum(one.after.held for one in every)),
        *(
            Check(f"{name}: a CPU second is worth as much", told[-1] >= told[0], _grown(told))
            for name, told in rates.items()
        ),
    )
    heads = (
        *(
            "load",
            "users",
            "ok",
            "lost",
            "tok/s",
            "tok/CPU s",
            "TTFT p50 ms",
            "p95 ms",
            "gap p50 ms",
        ),
        *("gap p99 ms", "queue p50 ms", "processes", "runtimes", "RSS MiB"),
    )
    figures = {f"{name}, {one.users} users, tok/s": _rate(one) for name, ls in kinds for one in ls}
    return Report("E13", (table(heads, rows),), figures, checks)


def _grown(told: list[float]) -> str:
    return f"{told[-1]:.1f} tokens with most users, {told[0]:.1f} with one"


def _lost(one: Level) -> int:
    return one.figures.failed + one.figures.shed


def _rate(one: Level) -> float:
    return one.figures.tokens_per_s or 0.0


def _cpu_rate(one: Level) -> float:
    """Tokens per CPU second of all processes of the server; 0 where that cannot be seen."""
    if one.server_before is None or one.server_after is None:
        return 0.0
    used_s = one.server_after.cpu_s - one.server_before.cpu_s
    return (one.figures.completion_tokens or 0) / max(used_s, 0.01)


def _row(name: str, one: Level) -> list[str]:
    told = one.figures
    names = ("p50_ttft_ms", "p95_ttft_ms", "p50_gap_ms", "p99_gap_ms", "p50_queue_ms")
    found = [figure(wanted, told) for wanted in names]
    values = ["?" if value is None else f"{value:.1f}" for value in found]
    rss = one.server_after.rss_bytes / 2**20 if one.server_after else float("nan")
    rates = (f"{_rate(one):.1f}", f"{_cpu_rate(one):.1f}")
    counts = (str(one.users), str(told.ok), str(_lost(one)), *rates)
    return [name, *counts, *values, str(one.programs), str(_runtimes(one.after)), f"{rss:.0f}"]


def _runtimes(view: FleetView) -> int:
    return sum(len(node.runtimes) for node in view.nodes)


def judged(seen: Seen) -> Verdict:
    """Judge, and draw throughput and first tokens against users."""
    throughput, first = (
        Lines(
            title,
            "users at a time",
            unit,
            tuple(
                Curve(name, tuple((float(one.users), value(one)) for one in levels))
                for name, levels in (("1 model", seen.one), ("3 models in turn", seen.three))
            ),
        )
        for title, unit, value in (
            ("throughput", "tokens per second", _rate),
            ("first token, median", "ms", _first_ms),
        )
    )
    return verdict([judge(seen)], throughput, first)


def _first_ms(one: Level) -> float:
    return one.figures.ttft_ms.p50 if one.figures.ttft_ms else 0.0


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
