"""SHELL: E16: a server is told to end while one answer runs, a load stands still and one waits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from time import monotonic, sleep

import msgspec

from roost.bench.claims import Check, Report, at_most, none_of, table
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.asking import Chat, ask
from roost.bench.drills.stage import Running, Stage, until
from roost.bench.experiments.calls import view_with
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict
from roost.bench.processes import family, living, programs

GRACE_S, STOP_S = 0.5, 0.5
ENDS_S = 15.0
LOAD_S, GONE_S = 60.0, 5.0
WHO = ("active", "blocked", "queued")
EXIT = 143

ABOUT = About(
    name="E16",
    title="Shutdown in the middle of everything",
    question="""
A server is told to end while one answer runs, one model's load stands still and another model waits
for room. Is everybody told, and is anything left?""",
    method=f"""
`roost serve --max-runtimes 2` with the real model and two more files of the same weights. One model
answers without end; the process that loads the second is stopped (SIGSTOP) in its load; the third
has to wait for room. Then the server gets TERM, with a grace of {GRACE_S:g} s.

Its descendants are listed before, and looked for afterwards.""",
    accept=f"""
All three are told: the active one by an error event, the others by a 503; the server ends with
{EXIT} within {ENDS_S:g} s, and none of its descendants lives.""",
    shows="""
That an end does not depend on the good will of what it ends: the stopped process cannot hear TERM.
""",
    hides="""
A long grace, in which running answers would be completed: it is short on purpose.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How long the active answer would be."""

    tokens: int = 1500


class Seen(msgspec.Struct, frozen=True):
    """What became of each request, the exit code, how long the end took, and who still lives.

    `children` counts the descendants before.
    """

    answers: tuple[Answer, ...]
    code: int
    took_s: float
    children: int
    left: int


async def run(house: House, plan: Plan) -> Seen:
    """End one."""

    async def act(stage: Stage) -> Seen:
        """Get everything going, and send TERM."""
        return await _ended(stage, plan.tokens)

    return await house.act_real(act)


async def _ended(stage: Stage, tokens: int) -> Seen:
    others = [stage.another("server", name) for name in ("second", "third")]
    server = stage.serve("server", *_flags())
    await server.serves()
    clock = monotonic
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(_chat(server, stage.model, tokens)))]
        first = await until(lambda: _first(server), "a model runs", LOAD_S)
        await until(lambda: "runtime_ready" in server.output or None, "it is ready", LOAD_S)
        asked.append(group.create_task(ask(_chat(server, others[0], 4))))
        loading = await until(lambda: _other(server, first), "a load has begun", LOAD_S)
        os.kill(loading, signal.SIGSTOP)
        asked.append(group.create_task(ask(_chat(server, others[1], 4))))
        await view_with(server, lambda t: t.running + t.waiting >= len(WHO), "all are there")
        children = family(server.process.pid)[1:]
        told_s = clock()
        server.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(server.process.wait, LOAD_S)
        took_s = clock() - told_s
    answers = [task.result() for task in asked]
    kept = rebased(answers, answers[0].due_s, stamps=False)
    left = await asyncio.to_thread(_left, children)
    return Seen(kept, code, round(took_s, 3), len(children), left)


def _flags() -> tuple[str, ...]:
    return (
        *("--max-runtimes", "2", "--slots", "1", "--drain-grace-s", str(GRACE_S)),
        *("--runtime-stop-grace-s", str(STOP_S), "--runtime-room-wait-s", str(2 * LOAD_S)),
        *("--runtime-turn-s", str(10 * LOAD_S), "--queue-wait-s", str(2 * LOAD_S)),
    )


def _chat(server: Running, model: str, tokens: int) -> Chat:
    said = "Tell a long story."
    return Chat(server.port, model, said, tokens, ignore_eos=True, timeout_s=3 * LOAD_S)


def _left(pids: Sequence[int]) -> int:
    """Count those of these processes that stay; the kernel may take a moment for the killed."""
    clock = monotonic
    deadline_s = clock() + GONE_S
    while (left := sum(map(living, pids))) and clock() < deadline_s:
        sleep(0.05)
    return left


def _first(server: Running) -> int | None:
    return next(iter(programs(server.process.pid)), None)


def _other(server: Running, known: int) -> int | None:
    return next((one for one in programs(server.process.pid) if one != known), None)


def judge(seen: Seen) -> Report:
    """Check that all were told, and that nothing is left."""
    named = dict(zip(WHO, seen.answers, strict=True))
    rows = [
        [who, one.end, str(one.status), one.code or "-", f"{one.latency_s:.2f}"]
        for who, one in named.items()
    ]
    active = named["active"]
    refused = [one for who, one in named.items() if who != "active"]
    codes = ", ".join(f"{one.status} {one.code}" for one in refused)
    checks = (
        Check(
            "the active one ends in one error event",
            active.end == "error" and active.error_events == 1 and not active.done_marks,
            f"{active.end} {active.code}",
        ),
        Check("the others get 503", all(one.status == 503 for one in refused), codes),
        Check(
            "and are told when to come back",
            all(one.retry_after.isdigit() for one in refused),
            ", ".join(one.retry_after or "no word" for one in refused),
        ),
        Check("exit code", seen.code == EXIT, str(seen.code)),
        at_most("the end took", seen.took_s, ENDS_S, " s"),
        none_of(f"of {seen.children} descendants are left", seen.left),
    )
    heads = ("request", "end", "status", "reason", "seconds")
    return Report("E16", (table(heads, rows),), {"took_s": seen.took_s}, checks)


def judged(seen: Seen) -> Verdict:
    """Judge, and draw what is left of the processes."""
    groups = (("descendants", (float(seen.children), float(seen.left))),)
    picture = Bars("processes before and after", "processes", ("before", "after"), groups)
    return verdict([judge(seen)], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
