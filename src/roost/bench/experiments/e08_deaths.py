"""SHELL: E8: a worker dies while it computes a prompt, while it answers, and while others may."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills.deaths import BUDGET_S, MEMBERS, PHASES, SLOTS, Deaths, died, judge
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

ABOUT = About(
    name="E8",
    title="Death of a worker",
    question="""
A worker dies while it computes a prompt, or while it answers. What does the client see, and does
the fleet recover?""",
    method=f"""
{MEMBERS} nodes of {SLOTS} slots get one request each, and one that computes is killed with -9: in
prefill, in decode, and in decode of answers that may be gone on with elsewhere (`on_loss: replay`).

Scripted nodes are killed as whole processes and started again. With the real model only the
process that runs it is killed, and its node has to notice and start another.""",
    accept="""
In prefill the request is answered elsewhere and its client notices nothing. In decode it ends in
one error event and never in `[DONE]`, or is gone on with where that was asked for. Nothing is held
afterwards, and all slots serve.""",
    shows="""
What each moment of death costs, on a node and on a runtime below a node.

How long a client waits at the seam of an answer that another machine goes on with.""",
    hides="""
Whether the text of a replayed answer is the one of an unfailed run: tests compare that, token by
token.

A death of the gateway: E10's conversations have one.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How often something dies in each phase, and the pause in which retries are forgotten."""

    times: int = 3
    real_times: int = 1
    budget_s: float = BUDGET_S


class Seen(msgspec.Struct, frozen=True):
    """Deaths of scripted nodes, and of a real model's process."""

    nodes: Deaths
    runtimes: Deaths


async def run(house: House, plan: Plan) -> Seen:
    """Kill both."""
    return Seen(
        await house.act(partial(died, times=plan.times, budget_s=plan.budget_s)),
        await house.act_real(partial(died, times=plan.real_times, budget_s=plan.budget_s)),
    )


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw how answers on the fleet ended."""
    groups = tuple(
        (f"{what}, {phase}", (_ended(deaths, phase, "complete"), _ended(deaths, phase, "error")))
        for what, deaths in (("node", seen.nodes), ("runtime", seen.runtimes))
        for phase in PHASES
    )
    picture = Bars("how answers ended", "answers", ("whole", "one error event"), groups)
    return verdict([judge(seen.nodes), judge(seen.runtimes)], picture)


def _ended(seen: Deaths, phase: str, end: str) -> float:
    rounds = (one for one in seen.rounds if one.phase == phase)
    return float(sum(answer.end == end for one in rounds for answer in one.answers))


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
