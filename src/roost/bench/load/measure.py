"""WIRING: plays a plan against a server and returns everything that a result file holds."""

from __future__ import annotations

import datetime as dt
import random
import ssl
from functools import partial

import msgspec

from roost.bench.load import environment as machine
from roost.bench.load.client import Client
from roost.bench.load.machine import Environment, Server
from roost.bench.load.plan import Closed, Plan, asks_of, due_of, hashed
from roost.bench.load.player import Player, Seen
from roost.bench.load.sample import Played, Sample
from roost.bench.load.summary import Summary, summary
from roost.bench.load.workload import texts
from roost.core.hosts import is_loopback
from roost.gateway.upstream.targets import Target


class Result(msgspec.Struct, frozen=True):
    """One load: its figures, what was asked, where, and how the server looked before and after.

    `server_*` is None where it does not run on this machine or cannot be looked at.
    """

    figures: Summary
    workload: dict[str, object]
    environment: Environment
    server_before: Server | None
    server_after: Server | None

    def flat(self, samples: tuple[Sample, ...] = ()) -> dict[str, object]:
        """Return it as one JSON object with the figures on top, and with raw samples if given."""
        figures: dict[str, object] = msgspec.to_builtins(self.figures)
        rest: dict[str, object] = msgspec.to_builtins(self)
        del rest["figures"]
        raw = {"samples": msgspec.to_builtins(samples)} if samples else {}
        return {**figures, **rest, **raw}


async def measure(
    target: Target,
    plan: Plan,
    flags: str,
    seen: Seen = lambda _: None,
    tls: ssl.SSLContext | None = None,
) -> tuple[Result, Played]:
    """Play the plan; `flags` is how it was asked for."""
    before = machine.environment(dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
    port = target.port if is_loopback(target.host.strip("[]")) else None
    server_before = machine.server_behind(port) if port else None
    client = Client(target, plan.manner, tls)
    load, dice_of = plan.load, random.Random
    ask = asks_of(plan, dice_of)
    due = [] if isinstance(load, Closed) else due_of(load, random.Random(f"{plan.work.seed} due"))
    try:
        await _warm(client, plan)
        player = Player(client, seen)
        if isinstance(load, Closed):
            played = await player.closed_loop(load.users, ask, load.requests, load.duration_s)
        else:
            played = await player.open_loop(due, ask, load.users_max)
    finally:
        client.close()
    count = load.requests if isinstance(load, Closed) else len(due)
    server_after = machine.server_behind(port) if port else None
    workload = {
        "url": target.url,
        "flags": flags,
        "models": plan.work.models,
        "kind": type(plan.load).__name__.lower(),
        "prompts_sha256": machine.sha256(texts(hashed(ask, count))),
        "seed": plan.work.seed,
    }
    told = summary(played, plan.slo)
    return Result(told, workload, machine.after(before), server_before, server_after), played


async def _warm(client: Client, plan: Plan) -> None:
    """Ask for what is not counted, with words that the counted ones do not have."""
    work = msgspec.structs.replace(plan.work, seed=plan.work.seed - 1_000_003)
    player = Player(client)
    if plan.warmup:
        await player.closed_loop(
            1,
            partial(work.ask, dice_of=random.Random),
            plan.warmup,
            plan.manner.timeout_s * plan.warmup,
        )
