"""Claims about homes: each finds what breaks it, in quiet times and beside somebody's trouble."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import NodeId
from roost.errors import Failure
from roost.sim.claims import homes as home_claims
from roost.sim.claims.checkers import check
from roost.sim.history import History
from roost.sim.node_facts import Run, Trouble
from roost.sim.request_facts import Trace
from tests.sim.test_checkers import A, B, history, trace, two_turns

GATEWAY = NodeId("gateway")
Harm = Callable[[History, Trace], None]


def _coming_home() -> tuple[History, Trace]:
    """A first turn of 100 tokens, and a second one that finds 90 of them."""
    first, second = two_turns()
    first.prompt_tokens, second.cached_tokens = 100, 90
    second.opened[0].label, second.opened[0].started = "warm", True
    return history(first, second), second


def _leave_unasked(_: History, turn: Trace) -> None:
    turn.opened[0].placement, turn.opened[0].why = "moved", "home_unusable"
    turn.opened[0].node, turn.opened[0].label, turn.opened[0].lost_tokens = B, "moved", 10


def _find_little(_: History, turn: Trace) -> None:
    turn.cached_tokens = 49
    turn.opened[0].label, turn.opened[0].lost_tokens = "lost", 51


def _call_little_warm(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.cached_tokens = 49


def _call_a_past_cold(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.opened[0].label = "cold"


def _call_home_moved(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.opened[0].label, turn.opened[0].lost_tokens = "moved", 10


def _tell_no_cost(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.opened[0].node, turn.opened[0].label = B, "moved"


def _tell_too_much(h: History, turn: Trace) -> None:
    _tell_no_cost(h, turn)
    turn.opened[0].lost_tokens = 11


def _insist_in_vain(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.insists, turn.opened[0].node = True, B


def _insist_and_compute(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(A, "kill_node", 0.0, 1.0)]
    turn.insists, turn.cached_tokens = True, 49
    turn.opened[0].label, turn.opened[0].lost_tokens = "lost", 51


def _gone(_: History, turn: Trace) -> None:
    turn.insists, turn.opened, turn.first_byte_s = True, [], None
    turn.text, turn.saw_last_event = "", False
    turn.endings = [("rejected", Failure("session_gone", "Gone."))]


def _gone_beside_trouble(h: History, turn: Trace) -> None:
    h.troubles = [Trouble(B, "kill_node", 0.0, 1.0)]
    _gone(h, turn)


BROKEN: list[tuple[str, Harm]] = [
    ("second_turn_is_warm", _leave_unasked),
    ("second_turn_is_warm", _find_little),
    ("labels_are_true", _call_little_warm),
    ("labels_are_true", _call_a_past_cold),
    ("labels_are_true", _call_home_moved),
    ("losses_are_counted", _tell_no_cost),
    ("losses_are_counted", _tell_too_much),
    ("homes_are_kept", _insist_in_vain),
    ("homes_are_kept", _insist_and_compute),
    ("homes_are_kept", _gone),
    ("homes_are_kept", _gone_beside_trouble),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Harm) -> None:
    """One harm, one violation, of the claim that is meant; trouble elsewhere excuses nothing."""
    run, turn = _coming_home()
    harm(run, turn)
    assert {violation.checker for violation in check(run)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in home_claims.CLAIMS}


@pytest.mark.parametrize("harm", [_leave_unasked, _find_little, _gone])
@pytest.mark.parametrize("whose", [A, GATEWAY])
def test_trouble_at_home_excuses_a_loss_that_is_told(harm: Harm, whose: NodeId) -> None:
    """A home that was killed has lost what it held, and a gateway what it knew."""
    run, turn = _coming_home()
    harm(run, turn)
    run.troubles = [Trouble(whose, "kill_node", 0.0, 1.0)]
    assert check(run) == []


@pytest.mark.parametrize("harm", [_find_little, _gone])
def test_somebody_else_on_the_node_excuses_a_loss_that_is_told(harm: Harm) -> None:
    """KV is not promised against whoever needs the place."""
    run, turn = _coming_home()
    harm(run, turn)
    other = trace("r0", 2.5)
    run.traces[other.request] = other
    run.runs.append(Run(other.request, A, 1, 2.5, 3.5))
    assert check(run) == []


def test_a_good_history_breaks_nothing() -> None:
    """Coming home is fine, and so is to leave a busy home, or one that was lost, and say so."""
    run, turn = _coming_home()
    assert check(run) == []
    turn.opened[0].placement, turn.opened[0].why = "moved", "home_busy"
    turn.opened[0].node, turn.opened[0].label, turn.opened[0].lost_tokens = B, "moved", 10
    assert check(run) == []
