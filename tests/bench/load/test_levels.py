"""One level after the other, and the most that a server carries."""

from __future__ import annotations

from roost.bench.load.levels import BOUNDS, Step, Where, capacity, sweep
from roost.bench.load.plan import Closed, Manner, Open, Plan
from roost.bench.load.search import Search
from roost.bench.load.summary import Slo
from roost.bench.load.workload import Workload
from tests.bench.load.stub import Part, serving

PLAN = Plan(Closed(1, 8, 60), Workload(("m",)), Manner(), Slo())


async def test_levels_are_played_in_order() -> None:
    """Rates and users; whoever watches hears of each."""
    seen: list[Step] = []
    loads: list[Open | Closed] = [Open(100, 0.05, "constant"), Closed(2, 6, 60)]
    async with serving(Part()) as (_, target):
        steps = await sweep(Where(target, None, 0.0), PLAN, loads, 2.0, seen.append)
    assert [step.level for step in steps] == [100, 2.0]
    assert [step.result.figures.ok for step in steps] == [5, 6]
    assert seen == steps


async def test_a_sweep_ends_where_too_much_is_refused() -> None:
    """The level that reaches the share is the last."""
    loads = [Closed(1, 4, 60) for _ in range(3)]
    parts = [*[Part()] * 4, Part(status=429), *[Part()] * 3]
    async with serving(*parts) as (stub, target):
        steps = await sweep(Where(target, None, 0.0), PLAN, loads, 0.25, lambda _: None)
    assert [step.result.figures.shed for step in steps] == [0, 1]
    assert len(stub.asked) == 8


async def test_the_capacity_is_where_refusals_begin() -> None:
    """A server with room for three refuses the fourth; both bounds are found at three."""
    async with serving(Part(first_s=0.02), room=3) as (_, target):
        search = Search(tuple(BOUNDS), 8, 1, 1)
        where = Where(target, None, 0.0)
        told = await capacity(where, PLAN, search, BOUNDS, lambda _: None)
    assert told.users == {"admission": 3, "slo": 3}
    assert told.unbroken == ()
    assert [step.level for step in told.steps][:3] == [1, 2, 4]


async def test_what_was_never_broken_is_not_known() -> None:
    """The highest level is a least value then, and said to be one."""
    async with serving(Part()) as (_, target):
        search = Search(tuple(BOUNDS), 2, 1, 1)
        where = Where(target, None, 0.0)
        told = await capacity(where, PLAN, search, BOUNDS, lambda _: None)
    assert told.users == {"admission": 2, "slo": 2}
    assert told.unbroken == ("admission", "slo")
