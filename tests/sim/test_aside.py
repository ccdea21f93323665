"""Claims about conversations that are put aside: each finds the history that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, SessionId
from roost.sim.claims import aside as aside_claims
from roost.sim.claims.checkers import check
from roost.sim.history import History
from roost.sim.node_facts import Kept, Move, Run, Trouble
from roost.sim.request_facts import Opened, Trace

N = NodeId("n")
LIFE, RUNTIME = "n/1", RuntimeId("m#1")


def run(name: str, began_s: float, *, slot: int = 0, reuse: bool = False) -> Run:
    """A stream of a second on this node."""
    return Run(
        RequestId(name), N, slot, began_s, began_s + 1.0, LIFE, RUNTIME, reuse, ready_s=began_s
    )


def move(kind: str, began_s: float, *, slot: int = 0, ok: bool = True) -> Move:
    """A move of the first session that took a tenth of a second."""
    return Move(kind, LIFE, RUNTIME, slot, SessionId(1), began_s, began_s + 0.1, ok)


def trace(name: str, at_s: float, tenant: str = "a") -> Trace:
    """A request that was served whole by this node."""
    one = Trace(RequestId(name), ModelId("m"), 1, at_s, ("x ",), "x ", True)
    one.tenant, one.held_tokens, one.over_s = tenant, 50, at_s + 1.0
    one.endings = [("complete", None)]
    one.opened = [Opened(at_s, 1, N, "warm", "home", 0.1, False, 1, 2, 0, epoch=1)]
    one.opened[0].over_s = at_s + 1.0
    return one


def history() -> History:
    """Two turns of a conversation on one slot, with somebody else's between them."""
    one = History(queue_length=9, queue_wait_s=10.0, ended_s=50.0)
    traces = [trace("r1", 1.0), trace("r2", 3.0, "b"), trace("r3", 6.0)]
    traces[2].previous, traces[2].cached_tokens, traces[2].turn = RequestId("r1"), 50, 2
    one.traces = {each.request: each for each in traces}
    one.runs = [run("r1", 1.0), run("r2", 3.2), run("r3", 6.5, reuse=True)]
    one.moves = [
        move("park", 3.0),
        move("restore", 6.2),
        move("forget", 6.3, slot=-1),
    ]
    one.aside = [Kept(LIFE, 10, 0, 1, 100, 100, 9, tokens_min=8, told=(0, 0), at_rest=(0, 0))]
    return one


def _runs_meanwhile(one: History) -> None:
    one.runs.append(Run(RequestId("r1"), N, 0, 2.9, 3.05, LIFE, RUNTIME))


def _back_twice(one: History) -> None:
    one.moves.append(move("restore", 9.0))


def _kept_in_its_file(one: History) -> None:
    one.moves.pop()


def _from_nowhere(one: History) -> None:
    one.moves = [move("restore", 6.2), move("forget", 6.3, slot=-1)]


def _too_much(one: History) -> None:
    one.aside[0].ram_bytes = 101


def _too_many(one: History) -> None:
    one.aside[0].files = 10


def _miscounted(one: History) -> None:
    one.aside[0].at_rest = (7, 0)


def _of_another(one: History) -> None:
    one.traces[RequestId("r3")].tenant = "c"


def _computed_again(one: History) -> None:
    one.traces[RequestId("r3")].cached_tokens = 49


BROKEN: list[tuple[str, Callable[[History], None]]] = [
    ("idle_slots_are_moved", _runs_meanwhile),
    ("one_place_each", _back_twice),
    ("one_place_each", _kept_in_its_file),
    ("one_place_each", _from_nowhere),
    ("kept_within_limits", _too_much),
    ("kept_within_limits", _too_many),
    ("kept_as_told", _miscounted),
    ("own_conversations_come_back", _of_another),
    ("context_survives", _computed_again),
]


def found(one: History) -> set[str]:
    """The claims about what is put aside that this history breaks."""
    names = {name for name, _, _ in aside_claims.CLAIMS}
    return {violation.checker for violation in check(one)} & names


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    one = history()
    harm(one)
    assert found(one) == {name}


def test_a_good_history_breaks_nothing() -> None:
    """Nor does one in which a move failed, or something died."""
    assert found(history()) == set()
    failed = history()
    failed.moves[1].ok = failed.runs[-1].reuse = False
    _computed_again(failed)
    assert found(failed) == set()
    troubled = history()
    troubled.troubles = [Trouble(N, "kill_runtime", 0.0, 1.0)]
    _computed_again(troubled)
    _kept_in_its_file(troubled)
    assert found(troubled) == set()


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in aside_claims.CLAIMS}
