"""SHELL: E10: a node is drained under load, and nobody notices."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills import trio
from roost.bench.drills.drain import LOAD, QUEUE, Drained, drained
from roost.bench.drills.drain import judge as judge_drain
from roost.bench.drills.outlive import Outlived, outlived
from roost.bench.drills.outlive import judge as judge_talks
from roost.bench.drills.stage import Stage
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

ABOUT = About(
    name="E10",
    title="Drain",
    question="""
A machine is to be taken out of service while it works. Does any client see an error, and when is it
empty?""",
    method=f"""
Three scripted nodes behind a fleet gateway, and three servers behind a stateless one, get an open
loop at {LOAD:.0%} of what they can do, and wait for a place where none is free. One of them is
drained in it, and given back after a while.

Then conversations: many of them talk with three nodes while the gateway is killed and started
again, then a node is, then another node is drained until it holds no session.""",
    accept="""
Every answer is whole, the drained machine gets nothing new and is empty, its idle conversations are
computed anew elsewhere, everything that clients are told of their conversation's home is true, and
it serves again once it is given back.""",
    shows="""
Whether operators can take a machine away at run time without any client noticing, and how long it
takes until nothing is left on it.""",
    hides="""
How long a drain takes where answers are long: it waits for them.

The cost of computing conversations anew on a real model: scripted prompts are computed in no
time.""",
)


class Plan(msgspec.Struct, frozen=True):
    """How long the load is offered; how many conversations, and of how many turns."""

    seconds: float = 20.0
    conversations: int = 24
    turns: int = 2


class Seen(msgspec.Struct, frozen=True):
    """A drained node, a drained server, and conversations that outlive everything."""

    nodes: Drained
    servers: Drained
    talks: Outlived


async def run(house: House, plan: Plan) -> Seen:
    """Drain thrice."""

    async def nodes(stage: Stage) -> Drained:
        """Drain a node."""
        return await drained(await trio.nodes(stage), plan.seconds)

    async def servers(stage: Stage) -> Drained:
        """Drain a server."""
        return await drained(await trio.servers(stage, *QUEUE), plan.seconds)

    talks = partial(outlived, count=plan.conversations, turns=plan.turns)
    return Seen(await house.act(nodes), await house.act(servers), await house.act(talks))


def judged(seen: Seen) -> Verdict:
    """Judge all, and draw how long each took to be empty."""
    times = (
        ("node under load", seen.nodes.empty_s - seen.nodes.drained_s),
        ("server under load", seen.servers.empty_s - seen.servers.drained_s),
        ("node with conversations", seen.talks.drained_s),
    )
    groups = tuple((name, (took_s,)) for name, took_s in times)
    picture = Bars("from the order to drain until nothing is left", "seconds", ("empty",), groups)
    reports = [judge_drain(seen.nodes), judge_drain(seen.servers), judge_talks(seen.talks)]
    return verdict(reports, picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
