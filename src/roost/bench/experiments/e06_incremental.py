"""SHELL: E6: what the first token costs where everything is delivered at the end."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from functools import partial
from time import monotonic

import msgspec

from roost.bench.chat_stream import asked
from roost.bench.claims import Check, Report, at_least, at_most, ms, quantile, table
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.stage import Stage
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

PIECES, STEP_MS = 50, 20.0
STEPS = 3.0
"""What the first piece may take, in steps: the way through gateway and node is in it as well."""
FALL = 3.0
REPLY_S = 120.0

ABOUT = About(
    name="E6",
    title="First token, delivered at the end and step by step",
    question="""
How much sooner does a person see the first token when a worker sends each as it comes, and not all
of them at the end?""",
    method=f"""
The scripted backend says {PIECES} pieces, {STEP_MS:g} ms each: once as one piece after all that
time, as the workers of system 1 did, and once piece by piece. Both go the whole way through `roost
serve`, and the time counts to the first data behind the head of the reply.

The real model is asked for as many tokens, one time as a stream and one time as a whole reply, in
turn, greedily and with a prompt that nobody has asked before.""",
    accept=f"""
Delivered at the end, the first token takes as long as the whole answer; step by step it takes at
most {STEPS:g} steps. On the real model a stream's first token comes at least {FALL:g} times as soon
as a whole reply.""",
    shows="""
That nothing between worker and client holds tokens back.""",
    hides="""
How long a prompt takes: prompts are short here, and a long one is in the first token of both.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How often each is asked."""

    asked: int = 10
    real_asked: int = 5


class Real(msgspec.Struct, frozen=True):
    """Seconds until a stream's first token, until its end, and until a whole reply."""

    first_s: tuple[float, ...]
    ended_s: tuple[float, ...]
    whole_s: tuple[float, ...]


class Seen(msgspec.Struct, frozen=True):
    """Answers that came at the end, answers that came in steps, and those of the real model."""

    at_end: tuple[Answer, ...]
    in_steps: tuple[Answer, ...]
    real: Real


async def run(house: House, plan: Plan) -> Seen:
    """Ask for all of them, one after the other."""
    at_end, in_steps = await house.act(partial(_scripted, times=plan.asked))
    return Seen(at_end, in_steps, await house.act_real(partial(_real, times=plan.real_asked)))


async def _scripted(stage: Stage, times: int) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    server = stage.serve("server", "--slots", "1")
    await server.serves()
    dice = random.Random(6)
    answers: tuple[list[Answer], list[Answer]] = ([], [])
    await ask(Chat(server.port, stage.model, scripted(dice, 1, 0.0)))
    for _ in range(times):
        for kept, pieces in zip(answers, (1, PIECES), strict=True):
            content = scripted(dice, pieces, PIECES * STEP_MS / pieces)
            answer = await ask(Chat(server.port, stage.model, content))
            kept.extend(rebased([answer], answer.due_s, stamps=True))
    return tuple(answers[0]), tuple(answers[1])


async def _real(stage: Stage, times: int) -> Real:
    server = stage.serve("server", "--slots", "1")
    await server.serves()
    dice = random.Random(6)
    first_s, ended_s, whole_s = [], [], []

    def talk() -> list[dict[str, str]]:
        return [{"role": "user", "content": f"{dice.getrandbits(32)}: tell me of the sea."}]

    await asked(server.port, stage.model, talk(), 2)
    for _ in range(times):
        told = await asked(server.port, stage.model, talk(), PIECES)
        first_s.append(round(told.ttft_s, 4))
        ended_s.append(round(told.ended_s, 4))
        whole_s.append(await asyncio.to_thread(_whole_s, server.port, stage.model, talk()))
    return Real(tuple(first_s), tuple(ended_s), tuple(whole_s))


def _whole_s(port: int, model: str, messages: list[dict[str, str]]) -> float:
    """Ask for a whole reply; return how long it took."""
    body = {"model": model, "messages": messages, "max_tokens": PIECES, "temperature": 0}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    began_s = monotonic()
    with urllib.request.urlopen(request, timeout=REPLY_S) as reply:  # noqa: S310 - loopback
        reply.read()
    return round(monotonic() - began_s, 4)


def judged(seen: Seen) -> Verdict:
    """Compare first tokens."""
    late_s, soon_s = (
        quantile([answer.ttft_s for answer in answers], 0.5)
        for answers in (seen.at_end, seen.in_steps)
    )
    first_s, ended_s, whole_s = (
        quantile(values, 0.5)
        for values in (seen.real.first_s, seen.real.ended_s, seen.real.whole_s)
    )
    rows = [
        ["scripted, at the end", ms(late_s), ms(_ended_s(seen.at_end))],
        ["scripted, in steps", ms(soon_s), ms(_ended_s(seen.in_steps))],
        ["real, whole reply", ms(whole_s), ms(whole_s)],
        ["real, stream", ms(first_s), ms(ended_s)],
    ]
    answers = (*seen.at_end, *seen.in_steps)
    complete = sum(answer.end == "complete" for answer in answers)
    checks = (
        Check("every answer is whole", complete == len(answers), f"{complete} of {len(answers)}"),
        at_least("first token at the end, in steps", 1000 * late_s / STEP_MS, 0.9 * PIECES),
        at_most("first token step by step, in steps", 1000 * soon_s / STEP_MS, STEPS),
        at_least("real: a whole reply over a stream's first token", whole_s / first_s, FALL),
    )
    figures = {"scripted_fall": late_s / soon_s, "real_fall": whole_s / first_s}
    heads = ("delivered", "first token p50 ms", "end p50 ms")
    report = Report("E6", (table(heads, rows),), figures, checks)
    groups = (
        ("scripted", (1000 * late_s, 1000 * soon_s)),
        ("real model", (1000 * whole_s, 1000 * first_s)),
    )
    series = ("at the end", "step by step")
    return verdict([report], Bars(f"first of {PIECES} tokens", "ms", series, groups))


def _ended_s(answers: tuple[Answer, ...]) -> float:
    return quantile([answer.latency_s for answer in answers], 0.5)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
