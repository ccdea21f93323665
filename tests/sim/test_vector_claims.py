"""Vectors in the simulator: an engine that makes them, and claims that can be broken."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from roost.backends.base import Prepared, SlotUse
from roost.core.events import Finished, Started, StreamEvent, Usage, Vectors
from roost.core.ids import ModelId, StreamId
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt
from roost.node.effects import StreamKey
from roost.sim.claims.checkers import check
from roost.sim.claims.vectors import CLAIMS
from roost.sim.compute import Engine
from roost.sim.costs import Costs
from roost.sim.history import History
from roost.sim.node_facts import Trouble
from roost.sim.request_facts import Trace
from roost.sim.vectors import inputs_of, oracle_of, read
from roost.sim.world import World
from tests.sim.test_checkers import LOST, A, B, history, opened, trace

TEXTS = ("one", "two words", "three", "four of them")
KEY = StreamKey(1, StreamId(1))


@pytest.mark.parametrize("prompt", [EmbedPrompt(TEXTS), RankPrompt("which", TEXTS)])
def test_vectors_prove_which_text_they_are_made_of(prompt: EmbedPrompt | RankPrompt) -> None:
    """An engine makes them a few at a time, in order, and nothing of them stays in its slot."""
    request = GenerateRequest(ModelId("m"), prompt)
    world, events = World(Random), list[StreamEvent]()
    engine = Engine(world, "m#1", Costs())
    engine.emit = lambda _key, event: events.append(event)
    engine.open(KEY, Prepared(request, (), 0, inputs=inputs_of(request)), SlotUse(0, reuse=True))
    world.run(9.0)
    started, *parts, finished = events
    tokens = sum(map(len, inputs_of(request)))
    assert (started, finished) == (Started(tokens, 0, 0), Finished("stop", Usage(tokens, 0, 0)))
    said = [read(part) for part in parts if isinstance(part, Vectors)]
    assert [len(words) for words in said] == [3, 1]
    assert tuple(word for words in said for word in words) == oracle_of(request)
    assert len(set(oracle_of(request))) == len(TEXTS)
    assert engine.content(0) == ()


def listing(name: str = "r1", at_s: float = 1.0) -> Trace:
    """A request for vectors that was served whole."""
    one = trace(name, at_s)
    one.mode, one.opened[0].mode = "embed", "embed"
    return one


def _half(h: History, t: Trace) -> None:
    t.text, t.endings, t.saw_last_event = "aa ", [("client_gone", None)], False


def _of_another_kind(h: History, t: Trace) -> None:
    t.opened[0].mode = "generate"


def _told_of_one_death(h: History, t: Trace) -> None:
    t.text, t.endings, t.saw_last_event = "", [("rejected", LOST)], False
    h.troubles = [Trouble(A, "kill_node", 0.0)]


BROKEN: list[tuple[str, Callable[[History, Trace], None]]] = [
    ("vectors_come_whole", _half),
    ("models_do_what_they_are_for", _of_another_kind),
    ("vectors_are_made_again", _told_of_one_death),
]


def beside_another() -> tuple[History, Trace]:
    """Vectors from one node, while another one makes some too."""
    one, other = listing(), listing("r2", 9.0)
    other.opened = [opened(9.0, node=B)]
    other.opened[0].mode, other.opened[0].over_s = "embed", 10.0
    return history(one, other), one


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History, Trace], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    run, one = beside_another()
    assert check(run) == []
    harm(run, one)
    assert [violation.checker for violation in check(run)] == [name]


def test_all_of_them_are_broken_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_one_death_is_told_where_nobody_else_can_help() -> None:
    """The others were in trouble too, or there had been as many retries as may be."""
    run, one = beside_another()
    _told_of_one_death(run, one)
    run.troubles.append(Trouble(B, "kill_node", 0.0))
    assert check(run) == []
    run.troubles.pop()
    run.traces[one.request].retries = [1.5]
    assert check(run) == []
