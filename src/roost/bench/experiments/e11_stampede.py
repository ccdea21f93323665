"""SHELL: E11: many clients at once for a model that nobody runs."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills.stampede import (
    GAP_MS,
    PIECES,
    REAL_TOKENS,
    SLOTS,
    Stampede,
    judge,
    stampeded,
)
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve

ABOUT = About(
    name="E11",
    title="Cold stampede",
    question="""
Many clients ask at the same moment for a model that is loaded nowhere. How many loads does that
make?""",
    method=f"""
A gateway and a node of {SLOTS} slots that has loaded nothing; all clients ask at once for answers
of {PIECES} pieces, {GAP_MS:g} ms apart. The queue is long enough for all.

The same with the real model, whose load takes as long as a load takes, and {REAL_TOKENS} tokens an
answer.""",
    accept="""
One load, one runtime, and every client gets a whole answer.""",
    shows="""
That loads are shared however many ask, and that waiting for one is no error.""",
    hides="""
A stampede on several nodes: the gateway's machines are tested for that in simulation.

What happens when the queue is shorter than the crowd: the rest is refused, as in E1.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How many ask at once."""

    clients: int = 64
    real_clients: int = 16


class Seen(msgspec.Struct, frozen=True):
    """A stampede on a scripted model, and one on a real one."""

    scripted: Stampede
    real: Stampede


async def run(house: House, plan: Plan) -> Seen:
    """Ask both."""
    return Seen(
        await house.act(partial(stampeded, clients=plan.clients)),
        await house.act_real(partial(stampeded, clients=plan.real_clients)),
    )


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw when the answers were over."""
    real = judge(seen.real)
    named = msgspec.structs.replace(real, drill=f"{real.drill}, real model")
    curves = tuple(
        Curve(name, tuple((ended_s, n + 1.0) for n, ended_s in enumerate(_ends(one))))
        for name, one in (("scripted", seen.scripted), ("real model", seen.real))
    )
    picture = Lines("answers that were over", "seconds", "answers", curves)
    return verdict([judge(seen.scripted), named], picture)


def _ends(seen: Stampede) -> list[float]:
    return sorted(answer.ended_s for answer in seen.answers if answer.end == "complete")


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
