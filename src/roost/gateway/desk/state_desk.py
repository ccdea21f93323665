"""SHELL: operators see what nodes keep of conversations, and have something done with it.

Nodes are asked over their links, all at once; one that does not answer in time is named, and the
others' answers are given without it. Only what nodes told is shown, and never anything of a prompt.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from roost.core.state_views import IDS_MAX, StateResult, StateWish
from roost.errors import Failure, RoostError
from roost.gateway.control_words import ROOT
from roost.gateway.desk.endpoints import answered, linked, spoken
from roost.gateway.desk.state_words import (
    ACTIONS,
    Act,
    Found,
    Prune,
    act_of,
    listing_of,
    page_of,
    parts_of,
    prune_of,
    selected,
    shown,
    why_kept,
)
from roost.wire.messages import StateOrder, StatesTold

if TYPE_CHECKING:
    from roost.core.ids import NodeId
    from roost.fleet.watching.views import NodeView
    from roost.gateway.mind import Mind
    from roost.gateway.node_link import NodeLink
    from roost.gateway.routes import Call, Routes

ANSWER_S = 5.0
"""For a node to answer, beyond what it was told to wait."""
NO_STATE = Failure("not_found", "No node that is here has a state of this id.")
NO_WORDS = Failure("unsupported", "The node keeps no states of its own, or is an older one.")
SILENT = Failure("node_lost", "The node has left, or did not say in time what came of it.")

Told: TypeAlias = "dict[NodeId, StatesTold | None]"
Done: TypeAlias = "Callable[[Told], None]"


class StateDesk:
    """Passes questions on and waits for the answers; `close` stops the clock."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        self._loop = asyncio.get_running_loop()
        self._timers: set[asyncio.TimerHandle] = set()

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", f"{ROOT}states", spoken(self._list, admins=True))
        routes.add("GET", f"{ROOT}states/{{rest}}", spoken(self._show, admins=True))
        routes.add("POST", f"{ROOT}states/{{rest}}", spoken(self._change, admins=True))

    def close(self) -> None:
        """Wait for nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _list(self, call: Call) -> None:
        """GET /roost/v1/states: a page of what there is; `?node=&model=&tier=&limit=&after=`."""
        asked = listing_of(call.exchange.query)
        nodes = self._nodes(asked.node)

        def done(told: Told) -> None:
            page, after = page_of(_found(told), asked)
            now_ms = _unix_ms()
            states = [shown(one, now_ms) for one in page]
            answered(call, {"states": states, "next": after, "silent": _silent(told)})

        self._ask_all(nodes, done)

    def _show(self, call: Call) -> None:
        """GET /roost/v1/states/{id}: one of them."""
        self._with(call, call.rest, lambda one: answered(call, shown(one, _unix_ms())))

    def _change(self, call: Call) -> None:
        """POST /roost/v1/states/prune and …/{id}/actions."""
        if call.rest == "prune":
            self._prune(call, prune_of(call.exchange.take_body()))
            return
        name, _, last = call.rest.rpartition("/")
        if last != "actions":
            raise RoostError(NO_STATE)
        act = act_of(call.exchange.take_body())
        self._with(call, name, partial(self._act, call, act))

    def _act(self, call: Call, act: Act, one: Found) -> None:
        told = {"id": one.id, "action": act.action, "dry_run": act.dry_run}
        if act.dry_run:
            answered(call, {**told, "done": False, "state": shown(one, _unix_ms())})
            return

        def done(results: dict[str, StateResult | None]) -> None:
            result = results[one.id]
            failure = SILENT if result is None else result.failure
            if failure is None:
                self._log(act.action, 1)
                answered(call, {**told, "done": True})
            else:
                call.exchange.fail(failure)

        self._order(ACTIONS[act.action], [one], act.wait_s, done)

    def _prune(self, call: Call, prune: Prune) -> None:
        def listed(told: Told) -> None:
            meant = selected(_found(told), prune.selector, _unix_ms())
            going = [one for one in meant if not why_kept(one)]
            kept = [{"id": one.id, "why": why_kept(one)} for one in meant if why_kept(one)]
            size_bytes = sum(one.view.size_bytes or 0 for one in going)
            said: dict[str, object] = {
                "dry_run": prune.dry_run,
                "selected": [one.id for one in going],
                "skipped": kept,
                "bytes": size_bytes,
                "silent": _silent(told),
            }
            if prune.dry_run or not going:
                answered(call, {**said, "erased": [], "failed": []})
            else:
                self._order("erase", going, 0.0, partial(self._pruned, call, said))

        self._ask_all(self._nodes(prune.node), listed)

    def _pruned(
        self, call: Call, said: dict[str, object], results: dict[str, StateResult | None]
    ) -> None:
        whys = {
            name: SILENT if result is None else result.failure for name, result in results.items()
        }
        erased = [name for name, failure in whys.items() if failure is None]
        failed = [
            {"id": name, "why": failure.message}
            for name, failure in whys.items()
            if failure is not None
        ]
        self._log("prune", len(erased))
        answered(call, {**said, "erased": erased, "failed": failed})

    # Asking nodes.

    def _nodes(self, wanted: str) -> list[NodeId]:
        """The nodes to ask; raises `not_found` or `unsupported` for one that cannot be."""
        if wanted in ("", "all"):
            fleet = self._mind.coordinator.fleet()
            return [one.id for one in fleet if one.id in self._mind.links and _keeps(one)]
        _, node = linked(self._mind, wanted)
        if not _keeps(node):
            raise RoostError(NO_WORDS)
        return [node.id]

    def _with(self, call: Call, name: str, use: Callable[[Found], None]) -> None:
        """Find one state and go on with it."""
        node, state = parts_of(name)

        def done(told: Told) -> None:
            answer = told[node]
            if answer is None:
                call.exchange.fail(SILENT)
                return
            view = next((one for one in answer.states if one.id == state), None)
            if view is None:
                call.exchange.fail(NO_STATE)
            else:
                use(Found(node, view))

        if node not in self._nodes(""):
            raise RoostError(NO_STATE)
        self._ask_all([node], done)

    def _ask_all(self, nodes: Iterable[NodeId], done: Done) -> None:
        asked = [(node, StateOrder(secrets.token_hex(6), "list")) for node in nodes]
        _Round(self, asked, done).begin(0.0)

    def _order(
        self,
        what: StateWish,
        states: Iterable[Found],
        wait_s: float,
        done: Callable[[dict[str, StateResult | None]], None],
    ) -> None:
        """Have nodes do this with their states, a bounded number in each message."""
        of_node: defaultdict[NodeId, list[str]] = defaultdict(list)
        for one in states:
            of_node[one.node].append(one.view.id)
        asked = [
            (node, StateOrder(secrets.token_hex(6), what, tuple(ids[at : at + IDS_MAX]), wait_s))
            for node, ids in of_node.items()
            for at in range(0, len(ids), IDS_MAX)
        ]
        results: dict[str, StateResult | None] = {
            f"{node}.{name}": None for node, order in asked for name in order.states
        }

        def gather(node: NodeId, told: StatesTold) -> None:
            for result in told.results:
                results[f"{node}.{result.id}"] = result

        _Round(self, asked, lambda _told: done(results), gather).begin(wait_s)

    def link_of(self, node: NodeId) -> NodeLink | None:
        """The way to a node, if there is one."""
        return self._mind.links.get(node)

    def later(self, seconds: float, what: Callable[[], None]) -> asyncio.TimerHandle:
        """Have this called unless it is cancelled, or the desk closes before."""
        timer = self._loop.call_later(seconds, what)
        self._timers.add(timer)
        return timer

    def over(self, timer: asyncio.TimerHandle) -> None:
        """This timer is of no use any more."""
        timer.cancel()
        self._timers.discard(timer)

    def _log(self, what: str, states: int) -> None:
        self._mind.log.info("states_changed", what=what, states=states)


class _Round:
    """One question to several nodes: done when all have answered or left, or it takes too long."""

    def __init__(
        self,
        desk: StateDesk,
        asked: list[tuple[NodeId, StateOrder]],
        done: Done,
        gather: Callable[[NodeId, StatesTold], None] | None = None,
    ) -> None:
        self._desk = desk
        self._asked = asked
        self._done = done
        self._gather = gather
        self._left = len(asked)
        self._told: Told = {node: None for node, _ in asked}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait_s: float) -> None:
        """Ask."""
        self._timer = self._desk.later(wait_s + ANSWER_S, self._end)
        for node, order in self._asked:
            link = self._desk.link_of(node)
            if link is None:
                self._hear(node, None)
            else:
                link.ask(order, partial(self._hear, node))
        if not self._asked:
            self._end()

    def _hear(self, node: NodeId, told: StatesTold | None) -> None:
        if self._timer is None:
            return
        if told is not None:
            self._told[node] = told
            if self._gather is not None:
                self._gather(node, told)
        self._left -= 1
        if self._left == 0:
            self._end()

    def _end(self) -> None:
        timer, self._timer = self._timer, None
        if timer is None:
            return
        self._desk.over(timer)
        for node, order in self._asked:
            link = self._desk.link_of(node)
            if link is not None:
                link.unask(order.job)
        self._done(self._told)


def _keeps(node: NodeView) -> bool:
    return node.sessions is not None and bool(node.sessions.persistence)


def _found(told: Told) -> list[Found]:
    return [
        Found(node, view) for node, one in told.items() if one is not None for view in one.states
    ]


def _silent(told: Told) -> list[NodeId]:
    return [node for node, one in told.items() if one is None]


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
