"""SHELL: E15: a conversation's state is saved and brought back beside requests that run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from functools import partial
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_least, table
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.stage import Running, Stage
from roost.bench.experiments.calls import Reply, call
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

SLOTS = 2
HELD_S, GAP_MS = 3.0, 50.0
REAL_TOKENS = 160
WAIT_S = 60.0
FOUND_S = 20.0
BUSY = ("state_busy", "conflict")
"""What it is called: by roost, and in the words of system 3, which the API of states speaks."""
SLACK_S = 0.05
"""The end of an answer and of a save are seen by two connections of this client."""
WORDS = "We walk along the river and talk about the houses on the other side of it. " * 6

ABOUT = About(
    name="E15",
    title="Saving a state while requests run",
    question="""
An operator has a conversation's state put aside while its slot is in use. What waits for what, and
what is it worth afterwards?""",
    method=f"""
`roost serve` with {SLOTS} slots, both in use by long answers. The state of one of them is to be
saved: once by somebody who waits for nothing, once by somebody who waits up to {WAIT_S:g} s. While
that one waits, a short request goes through the other slot as soon as that is free.

When the save is done the conversation goes on with the same past and new words, and what its prompt
had cached is counted. Once with the scripted backend, once with the real model.""",
    accept="""
Who does not wait is told that the state is busy; the save comes after the answer in its slot and
never before; ordinary requests are served meanwhile; and the next turn finds its past again.""",
    shows="""
That states are moved beside inference and never under it, and that what was put aside is used.""",
    hides="""
That a restored state gives the same words: tests compare them on a real llama.cpp, and a model
whose states do not come back as they were is not offered this.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How long the shorter of the two held answers is, as a share of the longer one."""

    shorter: float = 0.4


class Gate(msgspec.Struct, frozen=True):
    """One run; times in seconds since the patient save was asked for.

    `held_end_s` is when the answer in the saved slot was over, `saved_s` when the save was done,
    `other_s` when the request beside was answered. `cached` of the `prompt` tokens of the next turn
    were found.
    """

    hasty_status: int
    hasty_reason: str
    saved_status: int
    saved_s: float
    held_end: str
    held_end_s: float
    other_status: int
    other_s: float
    prompt: int
    cached: int


class Seen(msgspec.Struct, frozen=True):
    """Both backends."""

    scripted: Gate
    real: Gate


class _State(msgspec.Struct):
    id: str
    status: str
    tokens: int = 0


class _Listed(msgspec.Struct):
    states: tuple[_State, ...] = ()


class _Page(msgspec.Struct):
    data: _Listed


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    prompt_tokens_details: _Details | None = None


class _Whole(msgspec.Struct):
    usage: _Usage


async def run(house: House, plan: Plan) -> Seen:
    """Save in both."""
    gate = partial(_gate, shorter=plan.shorter)
    return Seen(await house.act(gate), await house.act_real(gate))


async def _gate(stage: Stage, shorter: float) -> Gate:
    server = stage.serve("server", "--slots", str(SLOTS), "--sessions-ram-bytes", "500000000")
    await server.serves()
    dice = random.Random(15)
    await ask(Chat(server.port, stage.model, "hello", 2, timeout_s=WAIT_S))
    held_chat, other_chat = (_held(stage, server, dice, share) for share in (1.0, shorter))
    async with asyncio.TaskGroup() as group:
        held = group.create_task(ask(held_chat))
        mine = await _busy(server, set())
        group.create_task(ask(other_chat))
        await _busy(server, {mine})
        hasty = await _save(server, mine, 0.0)
        began_s = monotonic()
        patient = group.create_task(_timed(_save(server, mine, WAIT_S)))
        beside = group.create_task(_timed(_short(stage, server)))
    saved, saved_at_s = patient.result()
    other, other_at_s = beside.result()
    usage = await _next_turn(stage, server, held_chat.content)
    details = usage.prompt_tokens_details
    return Gate(
        hasty_status=hasty.status,
        hasty_reason=hasty.reason,
        saved_status=saved.status,
        saved_s=round(saved_at_s - began_s, 3),
        held_end=held.result().end,
        held_end_s=round(held.result().ended_s - began_s, 3),
        other_status=other.status,
        other_s=round(other_at_s - began_s, 3),
        prompt=usage.prompt_tokens,
        cached=details.cached_tokens if details else 0,
    )


def _held(stage: Stage, server: Running, dice: random.Random, share: float) -> Chat:
    """An answer that keeps its slot for a while."""
    opening = f"{dice.getrandbits(32)} {WORDS}"
    if stage.real:
        most = round(REAL_TOKENS * share)
        return Chat(server.port, stage.model, opening, most, ignore_eos=True, timeout_s=2 * WAIT_S)
    pieces = round(1000 * HELD_S * share / GAP_MS)
    content = f"{opening}\n{scripted(dice, pieces, GAP_MS)}"
    return Chat(server.port, stage.model, content, timeout_s=WAIT_S)


async def _states(server: Running) -> tuple[_State, ...]:
    raw = (await call(server.port, "/roost/v1/states")).raw
    return msgspec.json.decode(raw, type=_Page).data.states


async def _busy(server: Running, known: set[str]) -> str:
    """Wait for a busy slot that is not known, and return the id of its state."""
    deadline_s = monotonic() + FOUND_S
    while True:
        for one in await _states(server):
            if one.status == "busy" and one.id not in known:
                return one.id
        if monotonic() > deadline_s:
            raise TimeoutError(f"within {FOUND_S:g} s: a slot is busy")
        await asyncio.sleep(0.02)


async def _save(server: Running, state: str, wait_s: float) -> Reply:
    body = {"action": "save", "dry_run": False, "wait_s": wait_s}
    return await call(server.port, f"/roost/v1/states/{state}/actions", body)


async def _short(stage: Stage, server: Running) -> Reply:
    said = [{"role": "user", "content": "A short word, please."}]
    body = {"model": stage.model, "messages": said, "max_tokens": 2}
    return await call(server.port, "/v1/chat/completions", body)


async def _next_turn(stage: Stage, server: Running, content: str) -> _Usage:
    said = [{"role": "user", "content": f"{content}\nAnd then we go home."}]
    body = {"model": stage.model, "messages": said, "max_tokens": 2}
    reply = await call(server.port, "/v1/chat/completions", body)
    return msgspec.json.decode(reply.raw, type=_Whole).usage


async def _timed(action: Awaitable[Reply]) -> tuple[Reply, float]:
    """Wait for a reply; return when it was there as well."""
    clock = monotonic
    return await action, clock()


def judge(seen: Gate, name: str) -> Report:
    """Check who waited for whom."""
    rows = [
        ["the answer in the slot", seen.held_end, f"{seen.held_end_s:.2f}"],
        ["a save that waits", str(seen.saved_status), f"{seen.saved_s:.2f}"],
        ["a request beside it", str(seen.other_status), f"{seen.other_s:.2f}"],
    ]
    busy = seen.hasty_status == 409 and seen.hasty_reason in BUSY
    after = seen.saved_s >= seen.held_end_s - SLACK_S
    checks = (
        Check("who does not wait is told", busy, f"{seen.hasty_status} {seen.hasty_reason}"),
        Check("the answer is whole", seen.held_end == "complete", seen.held_end),
        Check("the save is done", seen.saved_status == 200, str(seen.saved_status)),
        Check("and not before the answer", after, f"{seen.saved_s - seen.held_end_s:+.2f} s"),
        Check(
            "a request beside is served meanwhile",
            seen.other_status == 200 and seen.other_s < seen.saved_s,
            f"{seen.other_status} after {seen.other_s:.2f} s",
        ),
        at_least("cached of the next turn's prompt", seen.cached / seen.prompt, 0.5),
    )
    heads = ("what", "came of it", "seconds")
    figures = {"cached_share": seen.cached / seen.prompt, "saved_s": seen.saved_s}
    return Report(name, (table(heads, rows),), figures, checks)


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw what was over when."""
    kinds = (("scripted", seen.scripted), ("real model", seen.real))
    groups = tuple((name, (one.other_s, one.held_end_s, one.saved_s)) for name, one in kinds)
    series = ("request beside", "answer in the slot", "save")
    picture = Bars("over after", "seconds", series, groups)
    return verdict([judge(one, f"E15 {name}") for name, one in kinds], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
