"""SHELL: E14: two models and room for one."""

from __future__ import annotations

import asyncio
import random
import signal
from functools import partial
from itertools import pairwise

import msgspec

from roost.bench.claims import Check, Report, at_most, table
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.stage import Running, Stage, until
from roost.bench.experiments.calls import call
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

OTHER = "other"
WAIT_S = 2.0
CAPACITY = ("node_busy", "queue_timeout")
THERE = ("loading", "ready", "stopping")
"""States of a runtime that takes room; one that waits for room is shown as well."""
PIECES, GAP_MS = 400, 20.0
REAL_TOKENS = 800
LOAD_S = 60.0
ROOM = (
    *("--max-runtimes", "1", "--slots", "1"),
    *("--runtime-min-resident-s", "0", "--runtime-turn-s", "600"),
)

ABOUT = About(
    name="E14",
    title="Two models, room for one",
    question="""
A node may have one runtime at a time, and two models are asked for. Who makes room for whom?""",
    method=f"""
`roost serve --max-runtimes 1`. One model is asked for, then the other one, then the first again:
whoever is idle may go. Then, on a server where a request waits {WAIT_S:g} s for a place, a long
answer of one is running while the other one is asked for.

Once with the scripted backend, once with the real model and the same weights under another name.
Loads are counted by the server's own log.""",
    accept="""
Idle models make room, one runtime at a time; a busy one does not, and the request for the other
ends in the capacity error, with a time after which to come back; the long answer is whole.""",
    shows="""
That a model in use is never stopped for another one, and that the refusal is capacity's and not
somebody's fault.""",
    hides="""
Which of several idle models goes: tests of the ledger are about that.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How often the two take turns before one is busy."""

    turns: int = 4


class Act(msgspec.Struct, frozen=True):
    """One request for a model: its status and reason, and who had a runtime when it was over."""

    model: str
    status: int
    reason: str
    retry_after: str
    resident: tuple[str, ...]


class Turns(msgspec.Struct, frozen=True):
    """Requests in turn, the one while the other model was busy, and how that answer ended."""

    acts: tuple[Act, ...]
    refused: Act
    long_end: str
    loads: int


class Seen(msgspec.Struct, frozen=True):
    """Both backends."""

    scripted: Turns
    real: Turns


class _Runtime(msgspec.Struct):
    model: str
    state: str


class _Node(msgspec.Struct):
    runtimes: tuple[_Runtime, ...] = ()


class _Fleet(msgspec.Struct):
    nodes: tuple[_Node, ...]


async def run(house: House, plan: Plan) -> Seen:
    """Let two models take turns in both."""
    take = partial(_turns, count=plan.turns)
    return Seen(await house.act(take), await house.act_real(take))


async def _turns(stage: Stage, count: int) -> Turns:
    other = stage.another("server", OTHER)
    patient = stage.serve("server", *ROOM, "--queue-wait-s", "120")
    await patient.serves()
    acts = [await _act(patient, (stage.model, other)[n % 2]) for n in range(count)]
    acts.append(await _act(patient, stage.model))
    loads = patient.output.count("runtime_loading")
    patient.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(patient.process.wait, LOAD_S)
    wait = str(WAIT_S)
    server = stage.serve("server", *ROOM, "--queue-wait-s", wait, "--runtime-room-wait-s", wait)
    await server.serves()
    async with asyncio.TaskGroup() as group:
        long = group.create_task(ask(_long(stage, server)))
        await until(lambda: "runtime_ready" in server.output or None, "it is loaded", LOAD_S)
        refused = await _act(server, other)
    return Turns(tuple(acts), refused, long.result().end, loads)


def _long(stage: Stage, server: Running) -> Chat:
    """An answer that takes longer than the other request is ready to wait."""
    if stage.real:
        return Chat(
            server.port, stage.model, "A story.", REAL_TOKENS, ignore_eos=True, timeout_s=300
        )
    return Chat(server.port, stage.model, scripted(random.Random(14), PIECES, GAP_MS))


async def _act(server: Running, model: str) -> Act:
    said = [{"role": "user", "content": "hello"}]
    body = {"model": model, "messages": said, "max_tokens": 2}
    reply = await call(server.port, "/v1/chat/completions", body)
    view = msgspec.json.decode(await server.get("/roost/v1/fleet"), type=_Fleet)
    runtimes = (one for node in view.nodes for one in node.runtimes)
    resident = tuple(sorted(one.model for one in runtimes if one.state in THERE))
    return Act(model, reply.status, reply.reason, reply.headers.get("retry-after", ""), resident)


def judge(seen: Turns, name: str) -> Report:
    """Check that idle models make room and busy ones do not."""
    answered = sum(act.status == 200 for act in seen.acts)
    changes = 1 + sum(a.model != b.model for a, b in pairwise(seen.acts))
    most = max(len(act.resident) for act in (*seen.acts, seen.refused))
    last, refused = seen.acts[-1].model, seen.refused
    checks = (
        Check(
            "taking turns: answered", answered == len(seen.acts), f"{answered} of {len(seen.acts)}"
        ),
        at_most("runtimes at a time", most, 1),
        Check("each turn is one load", seen.loads == changes, f"{seen.loads}, {changes} turns"),
        Check("while one is busy: the capacity error", refused.reason in CAPACITY, refused.reason),
        Check(
            "with a time to come back", refused.retry_after.isdigit(), refused.retry_after or "none"
        ),
        Check("the busy one stays", refused.resident == (last,), ", ".join(refused.resident)),
        Check("its answer is whole", seen.long_end == "complete", seen.long_end),
    )
    rows = [
        [a.model, str(a.status), a.reason or "-", ", ".join(a.resident)]
        for a in (*seen.acts, refused)
    ]
    heads = ("asked for", "status", "reason", "then resident")
    return Report(name, (table(heads, rows),), {"loads": float(seen.loads)}, checks)


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw loads against turns."""
    kinds = (("scripted", seen.scripted), ("real model", seen.real))
    groups = tuple((name, (float(len(turns.acts)), float(turns.loads))) for name, turns in kinds)
    picture = Bars("requests while nobody was busy, and loads", "", ("requests", "loads"), groups)
    return verdict([judge(turns, f"E14 {name}") for name, turns in kinds], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
