"""The worker API's desk: what is left of a client that leaves at the worst moment."""

from __future__ import annotations

import asyncio
import json

import pytest

from roost.core.ids import ModelId, TenantId
from roost.core.request import Sampling
from roost.core.snapshots import ModelOffer
from roost.dialects.system1.worker import DecodeAsked, PrefillAsked
from roost.node.worker.desk import DeniedError, DeskSettings, WorkerDesk
from roost.node.worker.link import WorkerLink
from roost.node.worker.table import WorkerLimits, WorkerSession, WorkerTable
from roost.observe import logs
from roost.wire.memory import memory_pair
from tests.conftest import until

ME, MODEL = TenantId("key:me"), ModelId("m")
OFFER = ModelOffer(MODEL, 2, ctx=100, kv_token_bytes=10)


async def test_a_client_that_leaves_before_its_turn_began_leaves_nothing_busy() -> None:
    """While the node is told to forget others, the new session is nobody's to settle."""
    table = WorkerTable(WorkerLimits(1, 1000, 2000, 50, young_s=0.0))
    old = table.create(ME, "old", OFFER, 0.0)
    assert isinstance(old, WorkerSession)
    table.prefilled(old, old.turns("hi"), 5, 20)
    table.settle(old, 0.0)
    asked = asyncio.Event()

    async def forget(tenant: TenantId) -> None:
        """Wait like a node whose inbox is full."""
        asked.set()
        await asyncio.Event().wait()

    _, far = memory_pair()
    link = WorkerLink(far)
    link.offers = {MODEL: OFFER}
    link.up.set()
    desk = WorkerDesk(table, link, forget, DeskSettings(), logs.get())
    work = asyncio.create_task(desk.prefill(ME, PrefillAsked("new", "hello", MODEL, 9, "create")))
    await until(asked.is_set, what="the node is told to forget the old one")
    assert [one.busy for one in table] == [True]
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert list(table) == []


async def test_whoever_is_cancelled_leaves_what_is_to_be_forgotten_to_the_next() -> None:
    """Three sessions have ended; the first who tells the node so is cancelled at once."""
    table = WorkerTable(WorkerLimits(9, 1000, 20_000, 50, young_s=0.0))
    ended = [table.create(ME, f"s{n}", OFFER, 0.0) for n in range(3)]
    tenants = []
    for one in ended:
        assert isinstance(one, WorkerSession)
        table.prefilled(one, one.turns("hi"), 5, 20)
        table.settle(one, 0.0)
        tenants.append(one.tenant)
    asked, forgotten = asyncio.Event(), []
    full = [True]

    async def forget(tenant: TenantId) -> None:
        """Wait like a node whose inbox is full, the first time."""
        asked.set()
        if full.pop() if full else False:
            await asyncio.Event().wait()
        forgotten.append(tenant)

    _, far = memory_pair()
    desk = WorkerDesk(table, WorkerLink(far), forget, DeskSettings(), logs.get())
    for name in ("s0", "s1"):
        table.remove(ME, name)
    work = asyncio.create_task(desk.remove(ME, "s2"))
    await until(asked.is_set, what="the node is told")
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert forgotten == []
    another = table.create(ME, "another", OFFER, 1.0)
    assert isinstance(another, WorkerSession)
    table.prefilled(another, another.turns("hi"), 5, 20)
    table.settle(another, 1.0)
    assert await desk.remove(ME, "another")
    assert sorted(forgotten) == sorted([*tenants, another.tenant])


async def test_what_is_denied_is_in_the_log_in_system_1s_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A turn and an answer of sessions that are not there, by name and reason."""

    async def forget(tenant: TenantId) -> None:
        """Nothing is ever there to forget."""
        raise AssertionError(tenant)

    _, far = memory_pair()
    link = WorkerLink(far)
    link.up.set()
    desk = WorkerDesk(WorkerTable(WorkerLimits()), link, forget, DeskSettings(), logs.get())
    with pytest.raises(DeniedError):
        await desk.prefill(ME, PrefillAsked("one", "hush", MODEL, 9, "continue"))
    with pytest.raises(DeniedError):
        async with desk.decode(ME, DecodeAsked("two", 9, Sampling(), ())):
            pass
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["event"], one["session"], one["what"], one["reason"]) for one in said] == [
        ("worker_denied", "one", "prefill", "session_gone"),
        ("worker_denied", "two", "decode", "session_gone"),
    ]
    assert "hush" not in repr(said)
