"""Models that operators have nodes fetch: who may, what may be asked for, and the whole way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from roost.core.snapshots import NodeStatus, PullView
from roost.wire.messages import Pull
from tests.conftest import until
from tests.gateway.conftest import Reply, Stage, ask, staged
from tests.gateway.puppet import Puppet, status
from tests.gateway.test_operations import by_name

SOURCE = "hf:org/repo/m.gguf"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys."""
    async with staged(authorise=by_name) as made:
        yield made


def able(*views: PullView) -> NodeStatus:
    """The report of a node that takes pulls."""
    return msgspec.structs.replace(status(), pulls=views)


async def joined(stage: Stage, name: str, report: NodeStatus) -> Puppet:
    """Let a puppet join, and wait for its report."""
    node = stage.add_node(name)
    node.report_with(report)
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: any(one.id == name and one.models for one in fleet()), what="it reports")
    return node


async def post(stage: Stage, node: str, body: object, who: str = "root") -> Reply:
    """Ask for a pull onto a node, as an operator or as somebody else."""
    path = f"/roost/v1/nodes/{node}/pull"
    return await ask(stage.port, "POST", path, body, authorization=f"Bearer {who}")


async def test_a_node_is_told_and_its_reports_are_shown(stage: Stage) -> None:
    """202 with a job; what the node says of it is in the fleet's view."""
    node = await joined(stage, "n1", able())
    reply = await post(stage, "n1", {"source": SOURCE, "file": "", "accept_licence": True})
    assert reply.status == 202
    job = msgspec.json.decode(reply.body)["job"]
    await until(lambda: bool(node.pulls), what="the node is told")
    assert node.pulls == [Pull(job, SOURCE, "", True)]
    view = PullView(job, SOURCE, "downloading", 5, 10)
    node.report(able(view))
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: fleet()[0].pulls == (view,), what="its report is shown")


async def test_who_cannot_be_told(stage: Stage) -> None:
    """No such node, one of an older version or that refuses, and one that has left."""
    await joined(stage, "old", msgspec.structs.replace(status(), pulls=None))
    assert (await post(stage, "none", {"source": SOURCE})).status == 404
    refused = await post(stage, "old", {"source": SOURCE})
    assert (refused.status, b"models.pulls" in refused.body) == (400, True)
    gone = await joined(stage, "gone", able(PullView("j", SOURCE, "downloading", 5, 10)))
    gone.leave()
    await until(lambda: "gone" not in stage.gateway.mind.links, what="it has left")
    for reply in (
        await post(stage, "gone", {"source": SOURCE}),
        await delete(stage, "gone/pull/j"),
    ):
        assert (reply.status, b"has no link" in reply.body) == (404, True)
    unknown = await delete(stage, "none/pull/j")
    assert (unknown.status, b"No node of this id" in unknown.body) == (404, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"source": 5},
        {"source": "file:/etc/passwd"},
        {"source": "file:///etc/passwd"},
        {"source": "/etc/passwd"},
        {"source": "pypi:--index-url=http://evil"},
        {"source": SOURCE, "file": "x" * 2000},
        {"source": SOURCE, "file": "a\nb"},
    ],
)
async def test_what_is_no_source_for_a_node(stage: Stage, body: object) -> None:
    """Paths of its machine are none of an operator's business, and rubbish never goes there."""
    node = await joined(stage, "n1", able())
    assert (await post(stage, "n1", body)).status == 400
    assert node.pulls == []


async def test_only_operators_may(stage: Stage) -> None:
    """A tenant's key is not enough, whoever is asked for."""
    node = await joined(stage, "n1", able())
    for name in ("n1", "none"):
        assert (await post(stage, name, {"source": SOURCE}, "ann")).status == 403
    assert node.pulls == []


async def delete(stage: Stage, path: str, who: str = "root") -> Reply:
    """Have a node give a pull up."""
    at = f"/roost/v1/nodes/{path}"
    return await ask(stage.port, "DELETE", at, authorization=f"Bearer {who}")


async def test_a_pull_is_given_up(stage: Stage) -> None:
    """The node is told; what is over, unknown or somebody else's is refused."""
    views = PullView("j", SOURCE, "downloading", 5, 10), PullView("k", SOURCE, "done")
    node = await joined(stage, "n1", able(*views))
    assert (await delete(stage, "n1/pull/j", "ann")).status == 403
    for path in ("n1/pull/k", "n1/pull/none", "none/pull/j", "n1", "n1/drain"):
        assert (await delete(stage, path)).status == 404, path
    reply = await delete(stage, "n1/pull/j")
    assert reply.status == 202
    await until(lambda: node.unpulled == ["j"], what="the node is told")


async def test_a_node_of_the_version_before_is_not_told_what_it_does_not_know(stage: Stage) -> None:
    """The operator is told instead, and the node goes on."""
    node = stage.add_node("n1", version=1)
    node.report_with(able(PullView("j", SOURCE, "downloading", 5, 10)))
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: any(one.pulls for one in fleet()), what="it reports")
    reply = await delete(stage, "n1/pull/j")
    assert (reply.status, b"upgrade it" in reply.body) == (400, True)
    assert node.unpulled == []
