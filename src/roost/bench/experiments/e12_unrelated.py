"""SHELL: E12: whether a load that holds on holds up another model."""

from __future__ import annotations

import asyncio
import os
import signal
from statistics import median
from time import monotonic

import msgspec

from roost.bench import residency
from roost.bench.claims import Check, Report, at_most
from roost.bench.drills.stage import Running, Stage, until
from roost.bench.experiments.calls import call
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict
from roost.bench.processes import programs

LOAD_S = 60.0

ABOUT = About(
    name="E12",
    title="Two loads that have nothing to do with each other",
    question="""
One model's load stands still. Does a request for another cold model wait for it?""",
    method=f"""
A node with {residency.RUNTIMES} scripted runtimes, all slots of all of them in use, loads one more
model that does not get any further; then models that nobody runs are asked for, one after the
other.

With the real model: the process that loads it is stopped (SIGSTOP) while somebody waits for it, and
the same weights under another name are asked for; then the first load may go on.""",
    accept=f"""
The other load begins within {residency.START_BAR_MS:g} ms (all but the slowest), its request is
answered while the first still loads, and the first is answered when its load is over.""",
    shows="""
That loads are independent of each other, in the node's machine and in its processes.""",
    hides="""
Two real loads at once on one disk: they share its bandwidth, which no scheduling changes.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How many reports are timed, and how many loads are begun beside the one that holds on."""

    snapshots: int = 100
    starts: int = 20


class Real(msgspec.Struct, frozen=True):
    """Statuses of both requests, and whether the first was still waiting when the second ended."""

    held_status: int
    other_status: int
    other_s: float
    held_waited: bool


class Seen(msgspec.Struct, frozen=True):
    """Figures of the scripted node, and what came of the real one."""

    scripted: residency.Figures
    real: Real


async def run(house: House, plan: Plan) -> Seen:
    """Hold a load in both."""
    scripted = await residency.measure(plan.snapshots, plan.starts)
    return Seen(scripted, await house.act_real(_real))


async def _real(stage: Stage) -> Real:
    other = stage.another("server", "other")
    server = stage.serve("server", "--slots", "1")
    await server.serves()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_asked(server, stage.model))
        program = await until(lambda: _program(server), "a load has begun", LOAD_S)
        os.kill(program, signal.SIGSTOP)
        try:
            began_s = monotonic()
            status = await _asked(server, other)
            took_s = monotonic() - began_s
            waited = not waiting.done()
        finally:
            os.kill(program, signal.SIGCONT)
    return Real(waiting.result(), status, round(took_s, 3), waited)


def _program(server: Running) -> int | None:
    return next(iter(programs(server.process.pid)), None)


async def _asked(server: Running, model: str) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    return (await call(server.port, "/v1/chat/completions", body)).status


def judge(seen: Real) -> Report:
    """Check who was answered when."""
    checks = (
        Check("the other model is answered", seen.other_status == 200, str(seen.other_status)),
        Check("while the first still loads", seen.held_waited, "yes" if seen.held_waited else "no"),
        Check("the first is answered then", seen.held_status == 200, str(seen.held_status)),
        at_most("the other one took", seen.other_s, LOAD_S, " s"),
    )
    figures = {"other_s": seen.other_s}
    return Report("E12 real model", (f"the other took {seen.other_s:.2f} s",), figures, checks)


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw how long loads took to begin."""
    starts = sorted(seen.scripted.starts_ms)
    groups = (("a second load begins after", (median(starts), starts[-2], starts[-1])),)
    series = ("median", "all but one", "slowest")
    picture = Bars("beside a load that holds on", "ms", series, groups)
    return verdict([residency.report(seen.scripted), judge(seen.real)], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
