"""Each claim about room and loads finds the history that breaks it, and accepts its excuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import LoadView, ModelOffer, NodeStatus, RuntimeState, RuntimeView
from roost.node.models.ledger import RoomSettings
from roost.sim.claims.checkers import check
from roost.sim.claims.room import CLAIMS
from roost.sim.history import History
from roost.sim.node.outlook import Outlook, evicts, has_space, outlook, with_work
from roost.sim.node.residents import Residents
from roost.sim.node_facts import Residence, Trouble, Wish
from roost.sim.request_facts import Opened, Trace
from tests.sim.test_checkers import A, B, history, trace

M, N = ModelId("m"), ModelId("n")
C = NodeId("c")


def loads(trace_: Trace, runtimes: int = 0, *, evicting: bool = False) -> Opened:
    """Its dispatch took a load."""
    first = trace_.opened[0]
    first.loads, first.runtimes, first.evicts = True, runtimes, (N,) if evicting else ()
    return first


def resident(h: History, told_s: float | None = 9.0, together: int = 1) -> Residence:
    """A runtime that was ready at 3 and had to stay for 5 seconds."""
    one = Residence(A, M, 1.0, together, 1, 5.0, 3.0, told_s)
    h.residences = [one]
    return one


def _second_load(h: History, t: Trace) -> None:
    h.replicas = 1
    loads(t, runtimes=1)


def _nobody_waits(h: History, t: Trace) -> None:
    h.wishes = [Wish(1.0, A, M, waiting=0, under_way=0)]


def _places_are_left(h: History, t: Trace) -> None:
    h.wishes = [Wish(1.0, A, M, waiting=0, under_way=0, places=1, roomy=True)]


def _already_coming(h: History, t: Trace) -> None:
    h.wishes = [Wish(1.0, A, M, waiting=3, under_way=1)]


def _room_elsewhere(h: History, t: Trace) -> None:
    loads(t, evicting=True).roomy = (B,)


def _stopped_at_work(h: History, t: Trace) -> None:
    resident(h).busy = 2


def _stopped_early(h: History, t: Trace) -> None:
    resident(h, told_s=7.9)


def _stopped_while_loading(h: History, t: Trace) -> None:
    resident(h).ready_s = None


def _one_too_many(h: History, t: Trace) -> None:
    resident(h, None, together=2)


BROKEN: list[tuple[str, Callable[[History, Trace], None]]] = [
    ("one_load_for_all", _second_load),
    ("wishes_have_reasons", _nobody_waits),
    ("wishes_have_reasons", _places_are_left),
    ("wishes_have_reasons", _already_coming),
    ("room_before_eviction", _room_elsewhere),
    ("busy_runtimes_stay", _stopped_at_work),
    ("runtimes_stay_a_while", _stopped_early),
    ("runtimes_stay_a_while", _stopped_while_loading),
    ("nodes_keep_to_their_room", _one_too_many),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History, Trace], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    one = trace()
    run = history(one)
    harm(run, one)
    assert [violation.checker for violation in check(run)] == [name]


def test_all_of_them_are_broken_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_what_is_allowed_breaks_nothing() -> None:
    """The first load, loads without a limit, kept models, and whatever trouble explains."""
    one = trace()
    run = history(one)
    loads(one, runtimes=5, evicting=True)
    run.wishes, run.kept = [Wish(1.0, A, M, 0, 2)], frozenset({"m"})
    resident(run)
    assert check(run) == []
    run.replicas = 6
    assert check(run) == []
    resident(run, told_s=4.0).busy = 1
    run.troubles = [Trouble(A, "kill_node", 0.0, 5.0)]
    assert check(run) == []


def status(*states: tuple[ModelId, RuntimeState], room: tuple[LoadView, ...] = ()) -> NodeStatus:
    """A report of these runtimes."""
    views = tuple(RuntimeView(m, "toy", state, RuntimeId("x")) for m, state in states)
    return NodeStatus((ModelOffer(M, 2, 1),), views, 0, 2, loads=room)


@pytest.mark.parametrize(
    ("state", "sent", "expected"),
    [
        ("ready", True, "ready"),
        ("stopping", True, "stopping"),
        ("loading", False, "coming"),
        ("absent", True, "coming"),
        ("absent", False, "cold"),
    ],
)
def test_an_outsider_sees_how_far_a_runtime_is(
    state: RuntimeState, sent: bool, expected: Outlook
) -> None:
    """By the report, and by what has been sent since."""
    assert outlook(status((M, state)), M, sent=sent) == expected
    assert outlook(status((M, state)), N, sent=False) == "cold"


def test_an_outsider_sees_room_and_who_would_go() -> None:
    """A wait of known length is room, one of unknown length is none."""
    young = status(room=(LoadView(M, (N,), "young", 2.0),))
    assert (evicts(young, M), has_space(young, M)) == ((N,), True)
    assert not has_space(status(room=(LoadView(M, (), "busy"),)), M)
    assert (evicts(status(), M), has_space(status(), M)) == ((), True)


def test_where_work_may_go() -> None:
    """Where it is ready; else where enough loads are under way; else anywhere."""
    seen: dict[NodeId, Outlook] = {A: "cold", B: "coming", C: "stopping"}
    assert with_work(seen, 0) == {A, B}
    assert with_work(seen, 1) == {B}
    assert with_work(seen, 2) == {A, B}
    assert with_work({**seen, C: "ready"}, 2) == {C}


def test_residents_are_counted_until_they_are_gone() -> None:
    """Who is told to go takes room until it has; a slow load has to be paid back."""
    told: list[Residence] = []
    here = Residents(A, RoomSettings(max_runtimes=1, min_resident_s=2.0), told)
    here.loading(RuntimeId("m#1"), M, 1.0)
    here.ready(RuntimeId("m#1"), 6.0)
    here.told_to_go(RuntimeId("m#1"), 0, 20.0)
    here.loading(RuntimeId("n#2"), N, 20.0)
    here.gone(RuntimeId("m#1"))
    here.gone(RuntimeId("n#2"))
    here.loading(RuntimeId("m#3"), M, 21.0)
    assert [(one.together, one.stays_s, one.told_s) for one in told] == [
        (1, 5.0, 20.0),
        (2, 2.0, None),
        (1, 2.0, None),
    ]
