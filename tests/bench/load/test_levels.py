"""One level after the other, and the most that a server carries."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from roost.bench.load.levels import BOUNDS, PHYSICAL, Step, Where, capacity, physical_excess, sweep
from roost.bench.load.plan import Closed, Manner, Open, Plan
from roost.bench.load.pressure import Gauge, Pressure
from roost.bench.load.sample import Outcome, Played, Sample
from roost.bench.load.search import Search
from roost.bench.load.summary import Slo, Summary, summary
from roost.bench.load.workload import Workload
from roost.gateway.upstream.targets import Target
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
    """A server with room for three refuses the fourth; bounds of refusals are found at three."""
    async with serving(Part(first_s=0.02), room=3) as (_, target):
        search = Search((*BOUNDS, PHYSICAL), 8, 1, 1)
        where = Where(target, None, 0.0)
        told = await capacity(where, PLAN, search, BOUNDS, lambda _: None)
    assert told.users == {"admission": 3, "slo": 3, "physical": 8}
    assert told.unbroken == ("physical",)
    assert [step.level for step in told.steps][:3] == [1, 2, 4]


async def test_everybody_who_is_counted_asks_again() -> None:
    """Of few requests more are made, so that a level has as many users at a time as it says."""
    plan = msgspec.structs.replace(PLAN, load=Closed(1, 2, 60))
    async with serving(Part(first_s=0.02), room=3) as (_, target):
        search = Search((*BOUNDS, PHYSICAL), 8, 1, 1)
        told = await capacity(Where(target, None, 0.0), plan, search, BOUNDS, lambda _: None)
    assert told.users["admission"] == 3
    asked = {step.level: step.result.figures for step in told.steps}
    assert {users: one.ok + one.shed for users, one in asked.items()} == {
        users: 2 * users for users in asked
    }


async def test_what_was_never_broken_is_not_known() -> None:
    """The highest level is a least value then, and said to be one."""
    async with serving(Part()) as (_, target):
        search = Search((*BOUNDS, PHYSICAL), 2, 1, 1)
        where = Where(target, None, 0.0)
        told = await capacity(where, PLAN, search, BOUNDS, lambda _: None)
    assert told.users == {"admission": 2, "slo": 2, "physical": 2}
    assert told.unbroken == ("admission", "slo", "physical")


def summed(ok: int, failed: int, shed: int) -> Summary:
    """A level with so many answers of each kind."""
    kinds: tuple[tuple[Outcome, int], ...] = (("ok", ok), ("failed", failed), ("shed", shed))
    samples = [Sample("m", 0.0, 0.0, 0.1, kind) for kind, count in kinds for _ in range(count)]
    return summary(Played(tuple(samples), 0, 1.0), Slo())


@pytest.mark.parametrize(
    ("counts", "pressure", "broken"),
    [
        ((4, 0, 0), Pressure(), False),
        ((4, 0, 0), Pressure(89.9, 10.0), False),
        ((4, 0, 0), Pressure(90.0, 10.0), True),
        ((4, 0, 0), Pressure(None, 95.0), True),
        ((3, 1, 0), Pressure(), True),
        ((4, 1, 0), Pressure(), False),
        ((2, 1, 1), Pressure(), False),
    ],
)
def test_a_server_is_beyond_what_it_can_do_when_full_or_losing_without_a_word(
    counts: tuple[int, int, int], pressure: Pressure, broken: bool
) -> None:
    """Nine tenths full is broken, and so is a quarter that is lost while nobody is refused."""
    assert (physical_excess(summed(*counts), pressure) > 0) is broken


async def test_a_server_that_fills_up_is_looked_at_while_it_is_loaded() -> None:
    """The most that was seen counts; a server that has no such page has no such figure."""
    shown = iter((10.0, 96.5, 20.0))
    looked = asyncio.Event()

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell how full it is, or nothing after the last time."""
        await reader.readuntil(b"\r\n\r\n")
        pct = next(shown, None)
        if pct is None:
            looked.set()
        cluster = {"session_capacity_pct": pct, "kv_cache_capacity_pct": None}
        body = json.dumps({"cluster": cluster}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async def loaded() -> str:
        """Be a load until the server was looked at often enough."""
        await looked.wait()
        return "done"

    async with await asyncio.start_server(page, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        gauge = Gauge(Target("s", "127.0.0.1", port), None, 0.001)
        assert await gauge.during(loaded()) == ("done", Pressure(96.5, None))
    async with serving(Part()) as (_, target):
        silent = Gauge(target, None, 0.001)
        result, pressure = await silent.during(asyncio.sleep(0, "over"))
    assert (result, pressure) == ("over", Pressure())
