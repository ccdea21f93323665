"""SHELL: `python -m roost.bench.routing`: what one routing decision costs.

A coordinator with many nodes and many known conversations gets requests; every event of each is
played, and the time of `on_request` alone is taken. Nodes report meanwhile, as they do in life.

The same load is played several times. Every decision is the same each time, so what one took at
least is what it costs; what it took beyond that, the rest of the machine did. Both are told.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import get_args

import msgspec

from roost.bench.numbers import calibration
from roost.core.events import Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView
from roost.fleet.coordinator import Coordinator
from roost.fleet.settings import FleetSettings, Policy

MODEL = ModelId("m")
SLOTS = 4
CALIBRATION_STEPS = 200_000
BAR_P99_US = 40.0


class Cost(msgspec.Struct, frozen=True):
    """Microseconds of `on_request`, and the p99 in thousand steps of the calibration loop.

    Of each decision the least of its times; `raw_p99_us` is over all times as they were.
    """

    policy: str
    p50_us: float
    p99_us: float
    p99_steps: float
    raw_p99_us: float


class Load:
    """A fleet with `nodes` nodes and `conversations` known ones, kept two thirds full."""

    def __init__(self, policy: Policy, nodes: int, conversations: int) -> None:
        settings = FleetSettings(policy, replicas=1, affinity_entries=2 * conversations)
        self._dice = random.Random(1)
        self._machine = Coordinator(settings, random.Random(2))
        self._nodes = [NodeId(f"node-{n}") for n in range(nodes)]
        self._chains: list[tuple[bytes, ...]] = []
        self._out: list[RequestId] = []
        self._most = max(1, nodes * SLOTS * 2 // 3)
        self._now = 100.0
        self._count = 0
        for node in self._nodes:
            self._machine.on_node_joined(node, node, "1", self._now)
            self._report(node)
        for n in range(conversations):
            self._chains.append((b"%016d" % (n % 97), b"%016d" % n))
            self._turn(self._chains[-1])

    def measure(self, requests: int) -> list[float]:
        """Seconds of each of so many decisions, one in two of a known conversation."""
        times = []
        for n in range(requests):
            known = self._dice.choice(self._chains)
            chain = known if n % 2 else (known[0], b"new %012d" % n)
            times.append(self._turn(chain))
        return times

    def _report(self, node: NodeId) -> None:
        self._count += 1
        view = RuntimeView(MODEL, "none", "ready", RuntimeId(f"{node}#1"), ctx=4096)
        status = NodeStatus((ModelOffer(MODEL, SLOTS, 4096),), (view,), 0, SLOTS)
        self._machine.on_node_status(node, self._count, status, self._now)

    def _turn(self, chain: tuple[bytes, ...]) -> float:
        self._now += 0.01
        self._count += 1
        # Every node reports once a second or so.
        self._report(self._nodes[self._count // 2 % len(self._nodes)])
        request = RequestId(f"r{self._count}")
        terms = Terms(request, TenantId("t"), chain, prompt_bytes=4000, max_tokens=200)
        began = perf_counter()
        self._machine.on_request(terms, MODEL, self._now)
        took = perf_counter() - began
        self._machine.on_started(request, 1, Started(1000, 500, 0), self._now)
        self._machine.on_first_token(request, 1, self._now + 0.2)
        self._out.append(request)
        if len(self._out) >= self._most:
            self._finish(self._out.pop(self._dice.randrange(len(self._out))))
        return took

    def _finish(self, request: RequestId) -> None:
        now = self._now
        self._machine.on_finished(request, 1, Finished("stop", Usage(1000, 500, 100)), "yes", now)
        self._machine.on_released(request, 1, now)


def cost(policy: Policy, nodes: int, conversations: int, requests: int, repeats: int) -> Cost:
    """Measure one policy."""
    rounds: list[list[float]] = []
    steps_us: list[float] = []
    for _ in range(repeats):
        load = Load(policy, nodes, conversations)
        load.measure(requests // 10)
        steps_us.append(calibration(perf_counter, CALIBRATION_STEPS) * 1000 / CALIBRATION_STEPS)
        rounds.append(load.measure(requests))
    least = [min(times) for times in zip(*rounds, strict=True)]
    p99_us = _percentile_us(least, 0.99)
    return Cost(
        policy,
        _percentile_us(least, 0.5),
        p99_us,
        p99_us / min(steps_us) / 1000,
        _percentile_us([time for times in rounds for time in times], 0.99),
    )


def _percentile_us(times: Sequence[float], share: float) -> float:
    return 1e6 * sorted(times)[int(share * len(times))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each policy; status 1 if the default's p99 is over the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--policy", choices=get_args(Policy), action="append")
    options = parser.parse_args(arguments)
    default = FleetSettings().policy
    met = True
    for policy in options.policy or [default]:
        one = cost(policy, options.nodes, options.conversations, options.requests, options.repeats)
        sys.stdout.write(
            f"{policy:16} p50 {one.p50_us:6.1f} us, p99 {one.p99_us:6.1f} us, "
            f"which is {one.p99_steps:.2f} thousand calibration steps; "
            f"raw p99 {one.raw_p99_us:.1f} us\n"
        )
        met = met and (policy != default or one.p99_us <= BAR_P99_US)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
