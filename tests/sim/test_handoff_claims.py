"""Prompts computed ahead in the simulator: claims that can be broken, and deaths at every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from roost.core.ids import RequestId
from roost.errors import Failure
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.fleet.retrying import DEATHS
from roost.sim.claims.checkers import check
from roost.sim.claims.handoffs import CLAIMS
from roost.sim.history import History
from roost.sim.play import Parts, Stage
from roost.sim.request_facts import Handed, Tried
from roost.sim.run import scenarios
from tests.sim.test_checkers import history

FULL = Failure("rate_limit_exceeded", "Full.", retry_after_s=1)


def handed(name: str = "r1", at_s: float = 1.0) -> Handed:
    """A prompt that was computed in a second, for somebody who has not come back yet."""
    one = Handed(RequestId(name), "key:0", "gateway/1", at_s)
    one.made_s, one.secret = at_s + 1.0, f"of {name}"
    return one


def tried(at_s: float, tenant: str = "key:0", life: str = "gateway/1", *, spent: bool) -> Tried:
    """Somebody came with the secret."""
    return Tried(at_s, tenant, life, spent)


def run_of(*those: Handed, at_rest: int = 0) -> History:
    """A run with these, in which there may be two, for 10 seconds."""
    one = history()
    one.handoffs = HandoffSettings(each_max=1, all_max=2, ttl_s=10.0)
    one.handed, one.life = [*those], "gateway/1"
    assert one.rest is not None
    one.rest.handoffs = at_rest
    return one


def _twice(one: Handed) -> History:
    one.tries = [tried(3.0, spent=True), tried(4.0, spent=True)]
    return run_of(one)


def _by_a_stranger(one: Handed) -> History:
    one.tries = [tried(3.0, "key:1", spent=True)]
    return run_of(one)


def _too_late(one: Handed) -> History:
    one.tries = [tried(12.0, spent=True)]
    return run_of(one)


def _after_a_restart(one: Handed) -> History:
    one.tries = [tried(3.0, life="gateway/2", spent=True)]
    return run_of(one)


def _sent_away(one: Handed) -> History:
    one.tries = [tried(3.0, "key:1", spent=False), tried(4.0, spent=False)]
    return run_of(one)


def _one_too_many(one: Handed) -> History:
    return run_of(one, handed("r2", 5.0))


def _refused_for_nothing(one: Handed) -> History:
    late = Handed(RequestId("r2"), "key:0", "gateway/1", 20.0, FULL)
    return run_of(one, late)


def _kept_for_nobody(one: Handed) -> History:
    return run_of(one, at_rest=1)


def _forgotten(one: Handed) -> History:
    one.at_s, one.made_s = 44.0, 45.0
    return run_of(one)


BROKEN: list[tuple[str, Callable[[Handed], History]]] = [
    ("handoffs_are_answered_once", _twice),
    ("handoffs_are_answered_once", _by_a_stranger),
    ("handoffs_are_answered_once", _too_late),
    ("handoffs_are_answered_once", _after_a_restart),
    ("handoffs_are_kept", _sent_away),
    ("handoffs_keep_to_their_room", _one_too_many),
    ("handoffs_keep_to_their_room", _refused_for_nothing),
    ("handoff_places_return", _kept_for_nobody),
    ("handoff_places_return", _forgotten),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[Handed], History]) -> None:
    """One harm, one violation, of the claim that is meant."""
    assert [violation.checker for violation in check(harm(handed()))] == [name]


def test_all_of_them_are_broken_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_what_is_allowed_breaks_nothing() -> None:
    """Strangers, whoever comes late or again, and a full house are sent away, and places return."""
    one, other, gone = handed(), handed("r2", 14.0), handed("r3", 44.0)
    one.tries = [tried(3.0, "key:1", spent=False), tried(4.0, spent=True), tried(5.0, spent=False)]
    other.tries = [tried(25.0, spent=False), tried(16.0, life="gateway/2", spent=False)]
    full = Handed(RequestId("r4"), "key:0", "gateway/1", 16.0, FULL)
    failed = Handed(RequestId("r5"), "key:0", "gateway/1", 30.0, over_s=31.0)
    assert check(run_of(one, other, full, failed, gone, at_rest=1)) == []


def steps(h: History) -> Iterator[str]:
    """Name what each handoff of a run was hit by, and at which step."""
    computed = {one.prefill: one for one in h.handed}
    for trace in h.traces.values():
        ended = {failure.reason if failure else kind for kind, failure in trace.endings}
        if trace.request in computed:
            yield from (f"prefill {why}" for why in ended)
        elif trace.turn == 2 and trace.previous in computed:
            yield from (f"decode {why}" for why in ended)
            giver = h.traces[trace.previous].opened[-1].node
            for opened in trace.opened:
                died = opened.died or (ended & DEATHS and opened is trace.opened[-1])
                who = "giver" if opened.node == giver else "taker"
                yield f"{who} {'dies' if died else 'lives'}"
                yield f"told {opened.label}"
    for one in h.handed:
        yield from ("restarted between" for again in one.tries if again.life != one.life)


@pytest.mark.slow
def test_deaths_find_handoffs_at_every_step() -> None:
    """Over some of the seeds whose claims are checked with those of all scenarios."""
    found: Counter[str] = Counter()
    for seed in range(1, 7):
        stage = Stage(scenarios()["handoffs"], "handoffs", seed, Parts(), keep_lines=False)
        stage.play()
        found.update(steps(stage.history))
    wanted = {
        *(f"prefill {why}" for why in ("gateway_lost", "node_lost", "cancelled")),
        *(f"decode {why}" for why in ("gateway_lost", "expired_handoff", "client_gone")),
        *("giver dies", "taker dies", "taker lives", "told warm", "told lost"),
        *("decode cancelled", "restarted between"),
    }
    assert wanted <= set(found), found
