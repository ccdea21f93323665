"""SHELL: E17: the same load on 1, 2, 4 and 8 slots, and whether answers stay the same."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from itertools import pairwise
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_least, none_of, table
from roost.bench.drills.stage import Running, Stage
from roost.bench.experiments.calls import call
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve
from roost.bench.processes import cpu_s, programs

GAP_MS = 50.0
SUBJECTS = ("the sea", "a road", "bread", "the moon", "a garden", "winter", "a clock", "rain")
RISES = 1.2
FLAGS = ("--queue-length", "64", "--max-in-flight-decodes-per-node", "0")

ABOUT = About(
    name="E17",
    title="Continuous batching, with and without",
    question="""
The same requests come all at once to a server with 1, 2, 4 and 8 slots. How does throughput rise,
and are the answers those of a server that computes one at a time?""",
    method=f"""
{len(SUBJECTS)} requests at the same moment, greedy, always the same ones, to servers that differ in
their slots alone; the default cap of decodes per node is lifted, which would stop the rise at 4.
Wall time is from the first request to the last answer, after one request that
loads the model; CPU time is that of the process that runs the model, which others on the machine
cannot lengthen.

The scripted backend says words that depend on the request's seed, {GAP_MS:g} ms each; the real
model answers short questions. Answers are compared with those of one slot, letter by letter.""",
    accept=f"""
On the scripted backend throughput follows the slots and all answers are equal. On the real model
the most slots make at least {RISES:g} times as many tokens of a CPU second as one; the share of
equal answers is reported and not judged.""",
    shows="""
What slots are worth on this machine for requests that come together.

How much of greedy text changes when sequences are computed beside each other: sums of a larger
batch are rounded otherwise, and near a tie another token wins.""",
    hides="""
A quicker build of llama.cpp. What a batch saves is reading the weights; where arithmetic is the
limit, as it may be on one thread of a generic build, there is little to save.

Accelerators: this is the form for processors, where a batch saves reading the weights again and
nothing else. On an accelerator the rise is many times this.

The order of turns within a session: turns of one conversation never run beside each other, which
tests prove.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """The numbers of slots, and how long answers are."""

    slots: tuple[int, ...] = (1, 2, 4, 8)
    tokens: int = 24
    pieces: int = 24


class Batch(msgspec.Struct, frozen=True):
    """All requests on so many slots: seconds, tokens of all answers, and the answers.

    `cpu_s` are the CPU seconds of the process that runs the model, 0 for the scripted one.
    """

    slots: int
    wall_s: float
    cpu_s: float
    tokens: int
    statuses: tuple[int, ...]
    texts: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Tokens of all answers per second."""
        return self.tokens / self.wall_s

    @property
    def cpu_rate(self) -> float:
        """Tokens of all answers per CPU second of the model's process."""
        return self.tokens / self.cpu_s


class Seen(msgspec.Struct, frozen=True):
    """Both backends, from the fewest slots to the most."""

    scripted: tuple[Batch, ...]
    real: tuple[Batch, ...]


class _Usage(msgspec.Struct):
    completion_tokens: int


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Whole(msgspec.Struct):
    choices: tuple[_Choice, ...]
    usage: _Usage


async def run(house: House, plan: Plan) -> Seen:
    """Ask servers with every number of slots, one after the other."""
    scripted, real = (
        [partial(_batch, slots=slots, most=most, plan=plan) for slots in plan.slots]
        for most in (4000, plan.tokens)
    )
    return Seen(
        tuple([await house.act(batch) for batch in scripted]),
        tuple([await house.act_real(batch) for batch in real]),
    )


async def _batch(stage: Stage, slots: int, most: int, plan: Plan) -> Batch:
    server = stage.serve("server", "--slots", str(slots), *FLAGS)
    await server.serves()
    await _asked(server, stage, "Hello.", 1, 2)
    before_s = _cpu_s(server)
    began_s = monotonic()
    questions = [_question(stage, subject, plan) for subject in SUBJECTS]
    asked = (_asked(server, stage, text, n, most) for n, text in enumerate(questions))
    told = await asyncio.gather(*asked)
    return Batch(
        slots=slots,
        wall_s=round(monotonic() - began_s, 4),
        cpu_s=round(_cpu_s(server) - before_s, 4),
        tokens=sum(tokens for _, tokens, _ in told),
        statuses=tuple(status for status, _, _ in told),
        texts=tuple(text for _, _, text in told),
    )


def _cpu_s(server: Running) -> float:
    return sum(cpu_s(pid) for pid in programs(server.process.pid))


def _question(stage: Stage, subject: str, plan: Plan) -> str:
    if stage.real:
        return f"Say something about {subject}."
    pieces = [f"{subject} {number} " for number in range(plan.pieces)]
    return f"{subject}\n@script {json.dumps({'pieces': pieces, 'delay_ms': GAP_MS})}"


async def _asked(
    server: Running, stage: Stage, text: str, seed: int, most: int
) -> tuple[int, int, str]:
    said = [{"role": "user", "content": text}]
    body = {"model": stage.model, "messages": said, "max_tokens": most, "temperature": 0}
    reply = await call(server.port, "/v1/chat/completions", {**body, "seed": seed})
    if reply.status != 200:
        return reply.status, 0, ""
    whole = msgspec.json.decode(reply.raw, type=_Whole)
    return reply.status, whole.usage.completion_tokens, whole.choices[0].message.content or ""


def equal(batches: tuple[Batch, ...]) -> list[float]:
    """Return the share of answers that are those of the first batch, for each batch."""
    alone = batches[0].texts
    return [
        sum(a == b for a, b in zip(alone, batch.texts, strict=True)) / len(alone)
        for batch in batches
    ]


def judge(seen: Seen) -> Report:
    """Check that throughput rises, and that scripted answers do not change."""
    rows, figures = [], {}
    kinds = (("scripted", seen.scripted), ("real model", seen.real))
    for name, batches in kinds:
        for batch, share in zip(batches, equal(batches), strict=True):
            rise = batch.rate / batches[0].rate
            figures[f"{name}, {batch.slots} slots"] = rise
            cpu = f"{batch.cpu_rate:.1f}" if batch.cpu_s else "-"
            cells = (f"{batch.wall_s:.2f}", f"{batch.rate:.1f}", f"x{rise:.2f}", cpu)
            rows.append([name, str(batch.slots), *cells, f"{share:.0%}"])
    failed = sum(status != 200 for _, bs in kinds for b in bs for status in b.statuses)
    rates = [batch.rate for batch in seen.scripted]
    rises = all(after > before for before, after in pairwise(rates))
    same = min(equal(seen.scripted))
    checks = (
        none_of("requests that were not answered", failed),
        Check("scripted: each step brings more", rises, f"x{rates[-1] / rates[0]:.2f} in all"),
        Check("scripted: answers are those of one slot", same == 1.0, f"{same:.0%}"),
        at_least(
            "real model: tokens per CPU second, most slots over one",
            seen.real[-1].cpu_rate / seen.real[0].cpu_rate,
            RISES,
        ),
    )
    heads = (
        *("backend", "slots", "seconds", "tok/s", "over one slot"),
        *("tok per CPU s", "equal answers"),
    )
    return Report("E17", (table(heads, rows),), figures, checks)


def judged(seen: Seen) -> Verdict:
    """Judge, and draw the rise."""
    curves = tuple(
        Curve(name, tuple((float(b.slots), b.rate / batches[0].rate) for b in batches))
        for name, batches in (("scripted", seen.scripted), ("real model", seen.real))
    )
    worth = Curve(
        "real model, tokens per CPU second",
        tuple((float(b.slots), b.cpu_rate / seen.real[0].cpu_rate) for b in seen.real),
    )
    picture = Lines("throughput over that of one slot", "slots", "times", (*curves, worth))
    return verdict([judge(seen)], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
