"""SHELL: E3: one of three is killed under load and comes back."""

from __future__ import annotations

from collections import Counter

import msgspec

from roost.bench.drills import trio
from roost.bench.drills.failover import LOAD, NOTICED_S, Failover, failed_over, judge
from roost.bench.drills.stage import Stage
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve

ABOUT = About(
    name="E3",
    title="Failover",
    question="""
One of three machines is killed under load and started again. Who loses something, and is anything
held for the dead?""",
    method=f"""
Three scripted nodes behind a fleet gateway, and three servers behind a stateless one, two slots
each, get an open loop at {LOAD:.0%} of what all three can do.

After a quarter of the time one is killed with -9. When the gateway has noticed it is started again,
and at the end every slot is asked for at once.""",
    accept=f"""
The death is noticed within {NOTICED_S:g} s, nobody gets a 503, requests that had not begun are
answered elsewhere, nothing is held at the end, and the victim serves again.""",
    shows="""
What a failover costs: an explicit error for each answer that had begun on the victim, and for
nobody else.

That no place stays taken by the dead, which is where system 2 leaked.""",
    hides="""
A machine that loses power: here the kernel closes its connections at once. One that stops
answering and keeps them open is another case (SIGSTOP, in the drills of `roost chaos`).

A fleet so full that two cannot carry the load of three: then there would be refusals as well.""",
)


class Plan(msgspec.Struct, frozen=True):
    """How long the load is offered."""

    seconds: float = 20.0


class Seen(msgspec.Struct, frozen=True):
    """A failover of nodes, and one of servers."""

    nodes: Failover
    servers: Failover


async def run(house: House, plan: Plan) -> Seen:
    """Have both."""

    async def nodes(stage: Stage) -> Failover:
        """Kill a node."""
        return await failed_over(await trio.nodes(stage), plan.seconds)

    async def servers(stage: Stage) -> Failover:
        """Kill a server."""
        return await failed_over(await trio.servers(stage), plan.seconds)

    return Seen(await house.act(nodes), await house.act(servers))


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw who served when."""
    pictures = (_drawn(one) for one in (seen.nodes, seen.servers))
    return verdict([judge(seen.nodes), judge(seen.servers)], *pictures)


def _drawn(seen: Failover) -> Lines:
    last_s = int(max(answer.ended_s for answer in seen.answers))
    curves = []
    for number, name in enumerate(seen.members, 1):
        ends = Counter(
            int(a.ended_s) for a in seen.answers if a.end == "complete" and a.node == name
        )
        what = f"{seen.kind[:-1]} {number}{' (killed)' if name == seen.victim else ''}"
        curves.append(Curve(what, tuple((float(s), float(ends[s])) for s in range(last_s + 1))))
    title = f"answers per second of three {seen.kind}; killed at {seen.killed_s:.1f} s, back at "
    title += f"{seen.rejoined_s:.1f} s"
    return Lines(title, "seconds", "whole answers per second", tuple(curves))


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
