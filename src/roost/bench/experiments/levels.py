"""SHELL: closed loops at several levels on a server that was started for them, for experiments."""

from __future__ import annotations

import asyncio

import msgspec

from roost.bench.drills.stage import FleetView, Running
from roost.bench.load.machine import Server
from roost.bench.load.measure import measure
from roost.bench.load.plan import Closed, Manner, Plan
from roost.bench.load.sample import Sample
from roost.bench.load.summary import Slo, Summary
from roost.bench.load.workload import Workload
from roost.bench.processes import programs
from roost.gateway.upstream.targets import parse_target

DURATION_S = 300.0


class Level(msgspec.Struct, frozen=True):
    """One level: its figures and samples, and how the server looked before and after.

    `programs` counts the processes that run a model.
    """

    users: int
    figures: Summary
    samples: tuple[Sample, ...]
    prompts_sha256: str
    before: FleetView
    after: FleetView
    server_before: Server | None
    server_after: Server | None
    programs: int


class Asked(msgspec.Struct, frozen=True):
    """What is asked for at a level: of whom, how often, and how long prompts and answers are."""

    requests: int
    max_tokens: int
    words: int = 20
    timeout_s: float = 120.0


async def level(
    server: Running, models: tuple[str, ...], users: int, asked: Asked, seed: int
) -> Level:
    """Let so many users ask in turn; answers are as long as they may be."""
    work = Workload(models, words=asked.words, max_tokens=asked.max_tokens, seed=seed)
    manner = Manner(seed=seed, timeout_s=asked.timeout_s, more=(("ignore_eos", True),))
    # Who never asks is no user.
    requests = max(asked.requests, users)
    plan = Plan(Closed(users, requests, DURATION_S), work, manner, Slo())
    before = await server.view()
    target = parse_target(f"server=http://127.0.0.1:{server.port}", 1)
    result, played = await measure(target, plan, "")
    after = await server.settled()
    return Level(
        users=users,
        figures=result.figures,
        samples=tuple(_rounded(sample) for sample in played.samples),
        prompts_sha256=str(result.workload["prompts_sha256"]),
        before=before,
        after=after,
        server_before=result.server_before,
        server_after=result.server_after,
        programs=len(await asyncio.to_thread(programs, server.process.pid)),
    )


def _rounded(sample: Sample) -> Sample:
    """Keep times to a tenth of a millisecond."""
    return msgspec.structs.replace(
        sample,
        due_s=round(sample.due_s, 4),
        late_s=round(sample.late_s, 4),
        e2e_s=round(sample.e2e_s, 4),
        ttft_s=None if sample.ttft_s is None else round(sample.ttft_s, 4),
        gaps_s=tuple(round(gap_s, 4) for gap_s in sample.gaps_s),
        queue_s=None if sample.queue_s is None else round(sample.queue_s, 4),
    )
