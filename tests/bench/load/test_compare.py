"""Two servers in turn: what the ratio is of, and that it is one for the same server."""

from __future__ import annotations

import json

from roost.bench.load.compare import Side, compare, ratios
from roost.bench.load.environment import environment
from roost.bench.load.measure import Result
from roost.bench.load.plan import Closed, Manner, Plan
from roost.bench.load.sample import Played, Sample
from roost.bench.load.summary import Slo, summary
from roost.bench.load.workload import Workload
from tests.bench.load.stub import Part, serving

PLAN = Plan(Closed(1, 2, 60), Workload(("m",)), Manner(), Slo(), warmup=1)


def block(ttft_s: float | None) -> Result:
    """Make a block of one answer."""
    sample = Sample("m", 0.0, 0.0, 2.0, "ok", ttft_s=ttft_s, completion_tokens=4)
    told = summary(Played((sample,), 0, 1.0), Slo())
    return Result(told, {}, environment("now"), None, None)


def test_the_same_is_one() -> None:
    """Blocks alike give the ratio 1, and figures that nobody told give none."""
    found = ratios([block(0.5)] * 4, [block(0.5)] * 4)
    assert found["p50_ttft_ms"].value == found["p50_ttft_ms"].low == 1.0
    assert found["tokens_per_s"].high == 1.0
    assert "p50_gap_ms" not in found
    assert "p50_ttft_ms" not in ratios([block(None)], [block(0.5)])


def test_noise_around_the_same_contains_one() -> None:
    """With the same blocks in another order the interval has 1 in it, and is no point."""
    values = [0.4, 0.5, 0.6, 0.55, 0.45, 0.5]
    found = ratios([block(v) for v in values], [block(v) for v in reversed(values)])
    assert found["p50_ttft_ms"].low < 1.0 < found["p50_ttft_ms"].high


async def test_the_slower_one_is_found_slower_and_its_losses_are_told() -> None:
    """A B B A, the same words in each pair and others in the next; the warm-up once each."""
    slow = Part(first_s=0.15)
    async with serving(Part()) as (quick_stub, quick), serving(slow) as (slow_stub, slower):
        told = await compare((Side(quick), Side(slower)), PLAN, 2, "")
    assert (len(told.first), len(told.second)) == (4, 4)
    assert told.ratios["p50_ttft_ms"].low > 1.0
    asked = [[json.dumps(body["messages"]) for body in s.asked] for s in (quick_stub, slow_stub)]
    assert asked[0] == asked[1]
    assert len(asked[0]) == len(set(asked[0])) == 1 + 4 * 2
    assert told.lost == {"first": 0, "second": 0}
    async with serving(Part(status=429)) as (_, full), serving(Part()) as (_, quick):
        told = await compare((Side(full), Side(quick)), PLAN, 1, "")
    assert told.lost == {"first": 4, "second": 0}
    assert told.ratios == {}
