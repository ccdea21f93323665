"""SHELL: E9: a conversation that outgrows the context of its model."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise

import msgspec

from roost.bench.claims import Check, Report, at_least, at_most, none_of, table
from roost.bench.drills.stage import Stage
from roost.bench.experiments.calls import Reply, call
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve

FACTS = ("My name is Ingrid Holm.", "I live at 17 Birch Lane.", "My cat Tom is 9.")
FILLER = "We talk about the sea and the wind and about long walks."
NAME = "long"
COMPACTED = "moved(compacted)"

ABOUT = About(
    name="E9",
    title="A conversation longer than the context",
    question="""
A conversation goes on beyond what its model can hold. Is it refused, does it change, and what does
it forget?""",
    method=f"""
One named conversation with `roost serve`, whose model has a small context. Its first {len(FACTS)}
turns tell facts, with a filler behind each; the others say nothing new.

Once with the scripted backend, one token a byte, and once with the real model. Summaries are the
extractive ones, which is the default.""",
    accept="""
Every turn is answered, no 409 among them; all turns are in one conversation, word for word; no
prompt is larger than the context although all that was said is; and the facts are in what the model
is given in place of the past.""",
    shows="""
That a client needs to know nothing of contexts: it sends its next turn, and the label of the reply
alone tells that the past was made shorter.""",
    hides="""
Whether the model makes use of the facts: that depends on the model, and this one is small.

Facts that a summary of so many tokens has no room for.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """How many turns, and the contexts of both models in tokens."""

    turns: int = 18
    ctx: int = 1024
    real_ctx: int = 320
    real_tokens: int = 4


class Turn(msgspec.Struct, frozen=True):
    """One turn: its status, the reason of a refusal, and how it was served."""

    status: int
    reason: str
    placement: str = ""
    prompt_tokens: int = 0


class Talk(msgspec.Struct, frozen=True):
    """All turns, and what is kept of them: messages, `verbatim` ones of the user, a summary."""

    ctx: int
    turns: tuple[Turn, ...]
    messages: int
    verbatim: int
    facts: tuple[str, ...]
    summary: str


class Seen(msgspec.Struct, frozen=True):
    """The talk with the scripted backend, and the one with the real model."""

    scripted: Talk
    real: Talk


class _Served(msgspec.Struct):
    placement: str = ""
    prompt_tokens: int = 0


class _Last(msgspec.Struct):
    roost: _Served


class _Message(msgspec.Struct):
    role: str
    content: str


class _Summary(msgspec.Struct):
    text: str = ""


class _Shown(msgspec.Struct):
    messages: tuple[_Message, ...] = ()
    summary: _Summary | None = None


async def run(house: House, plan: Plan) -> Seen:
    """Talk with both."""
    scripted = partial(_talk, turns=plan.turns, ctx=plan.ctx, most=48)
    real = partial(_talk, turns=plan.turns, ctx=plan.real_ctx, most=plan.real_tokens)
    return Seen(await house.act(scripted), await house.act_real(real))


async def _talk(stage: Stage, turns: int, ctx: int, most: int) -> Talk:
    server = stage.serve("server", "--slots", "1", "--ctx", str(ctx))
    await server.serves()
    said = [f"{fact} {FILLER}" for fact in FACTS]
    said += [f"Go on, part {number}." for number in range(len(said), turns)]
    seen = []
    for words in said:
        asked = {"conversation_id": NAME, "prompt": words, "model": stage.model}
        body = {**asked, "max_tokens": most, "temperature": 0}
        seen.append(_turn(await call(server.port, "/coordinator/infer", body)))
    shown = msgspec.json.decode(
        (await call(server.port, f"/roost/v1/conversations/{NAME}")).raw, type=_Shown
    )
    kept = [message.content for message in shown.messages if message.role == "user"]
    return Talk(
        ctx=ctx,
        turns=tuple(seen),
        messages=len(shown.messages),
        verbatim=sum(a == b for a, b in zip(kept, said, strict=False)),
        facts=FACTS,
        summary=shown.summary.text if shown.summary else "",
    )


def _turn(reply: Reply) -> Turn:
    if reply.status != 200:
        return Turn(reply.status, reply.reason)
    events = [line[6:] for line in reply.raw.split(b"\n") if line.startswith(b"data: ")]
    last = json.loads(events[-1])
    if "error" in last:
        return Turn(reply.status, str(last["error"]))
    served = msgspec.convert(last, _Last).roost
    return Turn(reply.status, "", served.placement, served.prompt_tokens)


def judge(seen: Talk, name: str) -> Report:
    """Check that nothing was refused, lost or changed."""
    turns = seen.turns
    refused = [turn for turn in turns if turn.status != 200 or turn.reason]
    prompts = [turn.prompt_tokens for turn in turns]
    grown = prompts[0] + sum(max(0, b - a) for a, b in pairwise(prompts))
    missing = [fact for fact in seen.facts if fact not in seen.summary]
    compacted = sum(turn.placement == COMPACTED for turn in turns)
    checks = (
        none_of("turns that were not answered", len(refused)),
        none_of("409", sum(turn.status == 409 for turn in turns)),
        Check(
            "all turns are in one conversation, word for word",
            (seen.messages, seen.verbatim) == (2 * len(turns), len(turns)),
            f"{seen.verbatim} of {len(turns)}, {seen.messages} messages",
        ),
        at_least("all that was said, in contexts", grown / seen.ctx, 1.0),
        at_most("largest prompt, in contexts", max(prompts) / seen.ctx, 1.0),
        at_least("turns whose past was made shorter", compacted, 1),
        Check("facts in the summary", not missing, "; ".join(missing) or f"all {len(seen.facts)}"),
    )
    cells = ((t.status, t.placement, t.prompt_tokens) for t in turns)
    rows = [[str(n), *map(str, row)] for n, row in enumerate(cells, 1)]
    figures = {"turns": float(len(turns)), "compacted": float(compacted)}
    return Report(name, (table(("turn", "status", "placement", "prompt"), rows),), figures, checks)


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw the size of prompts."""
    talks = (("scripted", seen.scripted), ("real model", seen.real))
    curves = tuple(
        Curve(name, tuple((n, t.prompt_tokens / talk.ctx) for n, t in enumerate(talk.turns, 1)))
        for name, talk in talks
    )
    picture = Lines("what the model is given, turn by turn", "turn", "contexts", curves)
    return verdict([judge(talk, f"E9 {name}") for name, talk in talks], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
