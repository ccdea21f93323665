"""States over the control plane: who may, what is shown, and that nothing goes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from roost.cli import main
from roost.core.ids import ModelId, TenantId
from roost.core.snapshots import NodeStatus, SessionsView
from roost.core.state_views import StateResult, StateView
from roost.errors import Failure
from roost.wire.messages import StateOrder, StatesTold
from tests.conftest import until
from tests.gateway.conftest import Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status
from tests.gateway.test_operations import by_name
from tests.gateway.test_pulling import joined

IN_USE = Failure("state_busy", "the state was in use")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys."""
    async with staged(authorise=by_name) as made:
        yield made


def keeping() -> NodeStatus:
    """The report of a node that understands questions about states."""
    return msgspec.structs.replace(status(), sessions=SessionsView(persistence="disk"))


def state(number: int, *, idle_s: float = 100.0, pinned: bool = False) -> StateView:
    """A state that is put aside."""
    view = StateView(f"st_{number}", MODEL, "ram", "ready", TenantId("t_0"), 8, 1000, idle_s, 500.0)
    return msgspec.structs.replace(view, pinned=pinned)


class Keeping:
    """Answers as a node with these states would; what it was told to do is in `done`."""

    def __init__(self, *states: StateView) -> None:
        self.states = {one.id: one for one in states}
        self.failing: set[str] = set()
        self.done: list[tuple[str, str]] = []

    def __call__(self, order: StateOrder) -> StatesTold:
        """Answer."""
        if order.what == "list":
            return StatesTold(order.job, tuple(self.states.values()))
        results = []
        for name in order.states:
            self.done.append((order.what, name))
            results.append(StateResult(name, IN_USE if name in self.failing else None))
            if order.what == "erase" and name not in self.failing:
                self.states.pop(name, None)
        return StatesTold(order.job, results=tuple(results))


async def with_states(stage: Stage, *states: StateView, name: str = "n1") -> Keeping:
    """Let a node join that keeps these."""
    node: Puppet = await joined(stage, name, keeping())
    node.on_state_order = made = Keeping(*states)
    return made


async def call(
    stage: Stage, method: str, path: str, body: object = None, who: str = "root"
) -> Reply:
    """Ask below /roost/v1/states."""
    return await ask(
        stage.port, method, f"/roost/v1/states{path}", body, authorization=f"Bearer {who}"
    )


def data(reply: Reply) -> dict[str, object]:
    """Take an answer out of its envelope."""
    assert reply.status == 200, reply.body
    return cast("dict[str, object]", msgspec.json.decode(reply.body)["data"])


def ids(reply: Reply, name: str = "states") -> list[str]:
    """The ids that a list has."""
    rows = cast("list[dict[str, str] | str]", data(reply)[name])
    return [one if isinstance(one, str) else one["id"] for one in rows]


async def test_what_all_nodes_keep_is_listed(stage: Stage) -> None:
    """With every fact that is known, by node, model and tier, a page at a time."""
    await with_states(stage, *(state(number) for number in range(1, 4)))
    other = msgspec.structs.replace(state(1), model=ModelId("other"), tier="disk", size_bytes=None)
    await with_states(stage, other, name="n2")
    reply = await call(stage, "GET", "")
    assert ids(reply) == ["n1.st_1", "n1.st_2", "n1.st_3", "n2.st_1"]
    assert ids(await call(stage, "GET", "?node=n2")) == ["n2.st_1"]
    assert ids(await call(stage, "GET", "?model=other")) == ["n2.st_1"]
    assert ids(await call(stage, "GET", "?tier=ram&limit=2")) == ["n1.st_1", "n1.st_2"]
    page = data(await call(stage, "GET", "?tier=ram&limit=2&after=n1.st_2"))
    assert (page["next"], page["silent"]) == (None, [])
    shown = data(await call(stage, "GET", "/n1.st_2"))
    assert shown["tenant"] == "t_0"
    assert shown["bytes"] == 1000
    assert cast("int", shown["expires_unix_ms"]) - cast("int", shown["last_accessed_unix_ms"]) in (
        *(600_000, 599_999, 600_001),
    )
    assert data(await call(stage, "GET", "/n2.st_1"))["bytes"] is None


async def test_only_operators_see_states(stage: Stage) -> None:
    """Others learn nothing, whatever they ask."""
    keeping_ = await with_states(stage, state(1))
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/n1.st_1", None),
        ("POST", "/n1.st_1/actions", {"action": "pin", "dry_run": False}),
        ("POST", "/prune", {"selector": {"kind": "all", "confirm": True}, "dry_run": False}),
    ):
        assert (await call(stage, method, path, body, who="ann")).status == 403
    assert keeping_.done == []


async def test_nothing_is_done_by_default(stage: Stage) -> None:
    """An action says what it would be done to; only `dry_run: false` does it."""
    node = await with_states(stage, state(1))
    told = data(await call(stage, "POST", "/n1.st_1/actions", {"action": "evict"}))
    assert (told["dry_run"], told["done"]) == (True, False)
    assert node.done == []
    told = data(
        await call(stage, "POST", "/n1.st_1/actions", {"action": "evict", "dry_run": False})
    )
    assert (told["dry_run"], told["done"]) == (False, True)
    assert node.done == [("erase", "st_1")]
    again = await call(stage, "POST", "/n1.st_1/actions", {"action": "evict", "dry_run": False})
    assert again.status == 404


@pytest.mark.parametrize(
    ("said", "told"),
    [
        *(("pin", "pin"), ("unpin", "unpin"), ("save", "save"), ("restore", "promote")),
        *(("promote", "promote"), ("demote", "demote"), ("evict", "erase"), ("erase", "erase")),
    ],
)
async def test_every_action_has_its_word(stage: Stage, said: str, told: str) -> None:
    """System 3's words and roost's own."""
    node = await with_states(stage, state(1))
    await call(stage, "POST", "/n1.st_1/actions", {"action": said, "dry_run": False})
    assert node.done == [(told, "st_1")]


async def test_what_a_node_refuses_is_passed_on(stage: Stage) -> None:
    """A state in use is a conflict, and may be asked for again."""
    node = await with_states(stage, state(1))
    node.failing = {"st_1"}
    reply = await call(stage, "POST", "/n1.st_1/actions", {"action": "save", "dry_run": False})
    error = msgspec.json.decode(reply.body)["error"]
    assert (reply.status, error["code"], error["retryable"]) == (409, "conflict", True)


async def test_a_prune_shows_what_would_go(stage: Stage) -> None:
    """Pinned ones stay and are named; nothing goes before that is said."""
    node = await with_states(stage, state(1), state(2, pinned=True), state(3, idle_s=5.0), state(4))
    node.failing = {"st_4"}
    old = {"kind": "filter", "tier": "ram", "older_than_unix_ms": 2**53}
    told = data(await call(stage, "POST", "/prune", {"selector": old}))
    assert told["selected"] == ["n1.st_1", "n1.st_3", "n1.st_4"]
    assert told["skipped"] == [{"id": "n1.st_2", "why": "pinned"}]
    assert (told["bytes"], told["erased"], node.done) == (3000, [], [])
    everything = {"selector": {"kind": "all", "confirm": True}, "dry_run": False}
    told = data(await call(stage, "POST", "/prune", everything))
    assert told["erased"] == ["n1.st_1", "n1.st_3"]
    assert told["failed"] == [{"id": "n1.st_4", "why": IN_USE.message}]
    assert sorted(node.states) == ["st_2", "st_4"]
    named = {"selector": {"kind": "ids", "ids": ["n1.st_2", "n9.st_1"]}}
    assert data(await call(stage, "POST", "/prune", named))["selected"] == []


async def test_many_states_go_in_several_messages(stage: Stage) -> None:
    """No message names more than a bounded number."""
    node = await with_states(stage, *(state(number) for number in range(250)))
    everything = {"selector": {"kind": "all", "confirm": True}, "dry_run": False}
    told = data(await call(stage, "POST", "/prune", everything))
    assert len(cast("list[str]", told["erased"])) == 250
    assert node.states == {}


async def test_who_cannot_answer_is_named(stage: Stage) -> None:
    """A node that leaves in between is silent; an older one is not asked at all."""
    await with_states(stage, state(1))
    leaving = await joined(stage, "n2", keeping())
    older = await joined(stage, "n3", status())
    listing = asyncio.create_task(call(stage, "GET", ""))
    await until(lambda: bool(leaving.state_orders), what="it is asked")
    leaving.leave()
    assert data(await listing)["silent"] == ["n2"]
    assert older.state_orders == []
    assert (await call(stage, "GET", "?node=n3")).status == 400
    assert (await call(stage, "GET", "?node=n9")).status == 404
    assert (await call(stage, "GET", "/n3.st_1")).status == 404


async def test_one_state_is_unknown_or_its_node_is_silent(stage: Stage) -> None:
    """What is not there is not found; of a node that leaves in between that is not known."""
    await with_states(stage, state(1))
    assert (await call(stage, "GET", "/n1.st_2")).status == 404
    leaving = await joined(stage, "n2", keeping())
    showing = asyncio.create_task(call(stage, "GET", "/n2.st_1"))
    await until(lambda: bool(leaving.state_orders), what="it is asked")
    leaving.leave()
    reply = await showing
    assert reply.status == 502
    assert "has left" in msgspec.json.decode(reply.body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/n1.st_1/actions", {"action": "burn"}),
        ("/n1.st_1/actions", {"action": "pin", "wait_s": -1}),
        ("/n1.st_1/actions", {"action": "pin", "wait_s": 1e9}),
        ("/n1.st_1/actions", {"action": "promote", "target_tier": "vram"}),
        ("/n1.st_1/actions", {"action": "pin", "target_tier": "ram"}),
        ("/n1.st_1/actions", []),
        ("/n1.st_1/actions", "pin"),
        ("/prune", {"selector": {"kind": "all"}}),
        ("/prune", {"selector": {"kind": "filter"}}),
        ("/prune", {"selector": {"kind": "ids"}}),
        ("/prune", {"selector": {"kind": "ids", "ids": ["x"] * 101}}),
        ("/prune", {"selector": {"kind": "some"}}),
        ("/prune", {}),
    ],
)
async def test_a_question_that_is_none_is_refused(stage: Stage, path: str, body: object) -> None:
    """400 with the field, in the envelope, and no node is asked to do anything."""
    node = await with_states(stage, state(1))
    reply = await call(stage, "POST", path, body)
    assert reply.status == 400
    assert msgspec.json.decode(reply.body)["error"]["code"] in ("invalid_request", "unsupported")
    assert node.done == []


@pytest.mark.parametrize("query", ["?limit=0", "?limit=101", "?limit=x", "?limit=²", "?color=red"])
async def test_a_list_has_its_limits(stage: Stage, query: str) -> None:
    """A page is bounded, and what is no part of a list is said."""
    assert (await call(stage, "GET", query.encode().decode("latin-1"))).status == 400


@pytest.mark.parametrize("path", ["/..", "/n1.st_1/x", "/%2e%2e%2f%2e%2e", "/n1.", "/.st_1", "/n1"])
async def test_no_id_is_part_of_a_path(stage: Stage, path: str) -> None:
    """What no node has told is not found, whatever it looks like."""
    node = await with_states(stage, state(1))
    body = {"action": "erase", "dry_run": False}
    assert (await call(stage, "POST", f"{path}/actions", body)).status == 404
    assert node.done == []


async def states(stage: Stage, *words: str) -> int:
    """Run `roost states` against this gateway."""
    given = ("--url", f"http://127.0.0.1:{stage.port}", "--api-key", "root")
    return await asyncio.to_thread(main.run, ["states", *words, *given])


async def test_the_verb_shows_and_does(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """List, show, pin and the rest; what deletes needs --yes."""
    node = await with_states(stage, *(state(number) for number in range(1, 103)))
    assert await states(stage) == 0
    assert len(capsys.readouterr().out.splitlines()) == 102
    assert await states(stage, "show", "n1.st_7") == 0
    assert "n1.st_7" in capsys.readouterr().out
    assert await states(stage, "pin", "n1.st_7", "n1.st_8") == 0
    assert node.done == [("pin", "st_7"), ("pin", "st_8")]
    assert await states(stage, "erase", "n1.st_7") == 0
    assert "--yes" in capsys.readouterr().out
    assert await states(stage, "erase", "n1.st_7", "--yes") == 0
    assert await states(stage, "prune", "--older-than", "50") == 0
    assert "101 would be erased" in capsys.readouterr().out
    assert await states(stage, "prune", "--all", "--yes", "--json") == 0
    assert len(msgspec.json.decode(capsys.readouterr().out)["erased"]) == 101
    assert await states(stage, "list") == 0
    assert "no state" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [("pin",), ("list", "x"), ("prune",), ("prune", "x", "--all"), ("show",)],
)
async def test_a_verb_that_says_nothing_is_refused(stage: Stage, words: tuple[str, ...]) -> None:
    """Status 2, before anything is asked."""
    assert await states(stage, *words) == 2


async def test_one_of_many_that_fails_is_told(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are done, and the status says that not all were."""
    node = await with_states(stage, state(1), state(2))
    node.failing = {"st_1"}
    assert await states(stage, "save", "n1.st_1", "n1.st_2") == 1
    assert IN_USE.message in capsys.readouterr().out
    assert [name for _, name in node.done] == ["st_1", "st_2"]
