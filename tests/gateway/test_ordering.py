"""Orders about models: who may, what a node is told, when the answer comes, and the verbs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from roost.cli import main
from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import LoadView, NodeStatus, OrderView, RuntimeView
from roost.errors import Failure
from roost.wire.messages import Order
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status
from tests.gateway.test_operations import by_name
from tests.gateway.test_pulling import joined

IN_USE = Failure("model_in_use", "2 requests run on the model")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys, and a model by two names."""
    generation = msgspec.structs.replace(SETTINGS.generation, aliases={"short": MODEL})
    settings = msgspec.structs.replace(SETTINGS, generation=generation)
    async with staged(settings, authorise=by_name) as made:
        yield made


def able(*views: OrderView) -> NodeStatus:
    """The report of a node that takes orders, with nothing loaded."""
    return msgspec.structs.replace(status(), orders=views, runtimes=())


async def post(
    stage: Stage, verb: str, body: object, *, node: str = "n1", who: str = "root"
) -> Reply:
    """Give an order, as an operator or as somebody else."""
    path = f"/roost/v1/nodes/{node}/{verb}"
    return await ask(stage.port, "POST", path, body, authorization=f"Bearer {who}")


async def ordered(node: Puppet, count: int = 1) -> Order:
    """Wait until the node has been told so often, and return the last."""
    await until(lambda: len(node.orders) >= count, what="the node is told")
    return node.orders[count - 1]


async def test_done_is_answered_when_the_node_says_so(stage: Stage) -> None:
    """200 with what was done; the node got the model's own name and what was asked."""
    node = await joined(stage, "n1", able())
    body = {"model": "short", "force": True, "wait_s": 2.5}
    reply = asyncio.create_task(post(stage, "unload", body))
    told = await ordered(node)
    assert told == Order(told.job, MODEL, "unload", force=True, wait_s=2.5)
    node.report(able(OrderView(told.job, MODEL, "unload")))
    node.report(able(OrderView(told.job, MODEL, "unload", done=True)))
    answered = await reply
    assert answered.status == 200
    expected = {"node": "n1", "job": told.job, "model": MODEL, "what": "unload", "done": True}
    assert answered.json() == expected


async def test_a_refusal_has_the_status_of_its_reason(stage: Stage) -> None:
    """409 for a model in use, with the node's words."""
    node = await joined(stage, "n1", able())
    reply = asyncio.create_task(post(stage, "unload", {"model": MODEL}))
    told = await ordered(node)
    node.report(able(OrderView(told.job, MODEL, "unload", failure=IN_USE)))
    answered = await reply
    assert (answered.status, b"2 requests run" in answered.body) == (409, True)


async def test_who_waits_too_long_is_given_the_job(stage: Stage) -> None:
    """202, and the fleet's view goes on telling of it."""
    node = await joined(stage, "n1", able())
    answered = await post(stage, "load", {"model": MODEL, "answer_s": 0})
    told = await ordered(node)
    assert answered.status == 202
    assert answered.json()["job"] == told.job
    view = OrderView(told.job, MODEL, "load", done=True)
    node.report(able(view))
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: fleet()[0].orders == (view,), what="its end is shown")


async def test_a_node_that_leaves_is_not_waited_for(stage: Stage) -> None:
    """502: nobody knows what became of it."""
    node = await joined(stage, "n1", able())
    reply = asyncio.create_task(post(stage, "load", {"model": MODEL}))
    await ordered(node)
    node.leave()
    answered = await reply
    assert (answered.status, b"has left" in answered.body) == (502, True)


async def test_only_who_understands_it_is_told(stage: Stage) -> None:
    """A node of an older version hears nothing, and keeps its link."""
    node = await joined(stage, "old", msgspec.structs.replace(status(), orders=None))
    refused = await post(stage, "pin", {"model": MODEL}, node="old")
    assert (refused.status, b"older" in refused.body) == (400, True)
    assert (await post(stage, "pin", {"model": MODEL}, node="none")).status == 404
    assert node.orders == []
    assert stage.gateway.mind.links


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"model": 5},
        {"model": ""},
        {"model": "a\nb"},
        {"model": "x" * 513},
        {"model": MODEL, "force": "yes"},
        {"model": MODEL, "wait_s": -1},
        {"model": MODEL, "wait_s": 601},
        {"model": MODEL, "answer_s": 1e300},
    ],
)
async def test_what_is_no_order(stage: Stage, body: object) -> None:
    """The field is named where there is one, and the node hears nothing."""
    node = await joined(stage, "n1", able())
    assert (await post(stage, "load", body)).status == 400
    assert node.orders == []


async def test_only_operators_may(stage: Stage) -> None:
    """A tenant's key is not enough, and does not even tell whether there is such a node."""
    node = await joined(stage, "n1", able())
    for name in ("n1", "none"):
        for verb in ("load", "unload", "pin", "unpin"):
            reply = await post(stage, verb, {"model": MODEL}, node=name, who="ann")
            assert reply.status == 403
    assert node.orders == []


# --- the verbs


async def typed(stage: Stage, *words: str) -> int:
    """Run a command line against this gateway, as the operator."""
    given = ("--url", f"http://127.0.0.1:{stage.port}", "--api-key", "root")
    return await asyncio.to_thread(main.run, ["models", *words, *given])


def running(model: ModelId = MODEL, **more: object) -> RuntimeView:
    """A runtime of a model."""
    return RuntimeView(model, "puppet", "ready", RuntimeId("r1"), **more)  # type: ignore[arg-type]


async def test_load_shows_progress_and_ends_with_the_load(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines on stderr while it loads, one on stdout when it is there; status 0."""
    node = await joined(stage, "n1", able())
    code = asyncio.create_task(typed(stage, "load", MODEL))
    told = await ordered(node)
    view = RuntimeView(MODEL, "puppet", "loading", RuntimeId("r1"), progress=0.4)
    under_way = able(OrderView(told.job, MODEL, "load"))
    node.report(msgspec.structs.replace(under_way, runtimes=(view,)))
    shown = ""

    def told_of() -> bool:
        nonlocal shown
        shown += capsys.readouterr().err
        return "n1: loading 40%" in shown

    await until(told_of, what="the progress is shown")
    node.report(able(OrderView(told.job, MODEL, "load", done=True)))
    assert await code == 0
    assert capsys.readouterr().out == f"n1: {MODEL} is loaded\n"


async def test_unload_that_is_refused_says_why(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, the node's own words on stderr."""
    node = await joined(stage, "n1", able())
    code = asyncio.create_task(typed(stage, "unload", MODEL, "--wait", "1.5", "--node", "n1"))
    told = await ordered(node)
    assert (told.what, told.wait_s, told.force) == ("unload", 1.5, False)
    node.report(able(OrderView(told.job, MODEL, "unload", failure=IN_USE)))
    assert await code == 1
    assert "n1: 2 requests run on the model" in capsys.readouterr().err


async def test_which_nodes_are_told(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """All on request; where it runs otherwise; a load goes where it costs least."""
    has = msgspec.structs.replace(able(), runtimes=(running(),))
    first, second = await joined(stage, "n1", able()), await joined(stage, "n2", has)
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: len(fleet()) == 2, what="both are there")

    async def answered(node: Puppet, count: int, report: NodeStatus) -> None:
        told = await ordered(node, count)
        view = OrderView(told.job, MODEL, told.what, done=True)
        node.report(msgspec.structs.replace(report, orders=(view,)))

    code = asyncio.create_task(typed(stage, "unload", MODEL))
    await answered(second, 1, able())
    assert await code == 0
    assert first.orders == []
    assert await typed(stage, "unload", MODEL) == 0
    assert "not loaded anywhere" in capsys.readouterr().out
    assert await typed(stage, "pin", MODEL) == 2
    assert "--node" in capsys.readouterr().err
    code = asyncio.create_task(typed(stage, "pin", MODEL, "--node", "all"))
    await answered(first, 1, able())
    await answered(second, 2, able())
    assert await code == 0
    # On the first nobody can make room, on the second nobody has to.
    crowd = LoadView(MODEL, (), "busy")
    first.report(msgspec.structs.replace(able(), loads=(crowd,)))
    second.report(msgspec.structs.replace(able(), loads=()))
    await until(lambda: all(not one.runtimes for one in fleet()), what="both have reported")
    code = asyncio.create_task(typed(stage, "load", MODEL))
    await answered(second, 3, able())
    assert await code == 0
    assert len(first.orders) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("load",), "needs the name of a model"),
        (("load", "nothing"), "No node that is here has a model nothing"),
        (("load", MODEL, "--node", "nobody"), "No node of this id"),
    ],
)
async def test_what_is_wrong_is_said(
    stage: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    """A line that names it, and a status that is not 0."""
    await joined(stage, "n1", able())
    try:
        code = await typed(stage, *words)
    except SystemExit as error:
        code = int(error.code or 0)
    assert code in (1, 2)
    assert said in capsys.readouterr().err
