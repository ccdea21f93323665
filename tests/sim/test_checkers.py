"""Every checker finds the history that breaks its claim, and accepts one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.events import Usage
from roost.core.fence import Epoch, Fence
from roost.core.ids import ModelId, NodeId, RequestId
from roost.errors import Failure
from roost.sim.claims import allowances as allowance_claims
from roost.sim.claims import aside as aside_claims
from roost.sim.claims import handoffs as handoff_claims
from roost.sim.claims import homes as home_claims
from roost.sim.claims import leaving as leave_claims
from roost.sim.claims import room as room_claims
from roost.sim.claims import sharing as share_claims
from roost.sim.claims import shortening as short_claims
from roost.sim.claims import staying as stay_claims
from roost.sim.claims import vectors as vector_claims
from roost.sim.claims.checkers import CHECKERS, check
from roost.sim.history import History, Rest
from roost.sim.node_facts import Ownership, Run, Trouble
from roost.sim.request_facts import Opened, Repeat, Trace

ROOM_CLAIMS = {name for name, _, _ in room_claims.CLAIMS}
TALK_CLAIMS = {
    "turns_take_turns",
    "conversations_never_fork",
    "ends_are_kept",
    "drops_are_told",
}
"""Broken in `test_talk_claims`."""
A, B = NodeId("a"), NodeId("b")
LOST = Failure("node_lost", "Lost.")


def opened(at_s: float = 1.0, attempt: int = 1, node: NodeId = A) -> Opened:
    """A dispatch with nothing wrong about it."""
    return Opened(at_s, attempt, node, "cold", "no_home", 0.1, False, 1, 2, 0, epoch=attempt)


def trace(name: str = "r1", at_s: float = 1.0) -> Trace:
    """A request that was served whole."""
    one = Trace(RequestId(name), ModelId("m"), 1, at_s, ("aa ", "bb "), "aa bb ", True)
    one.first_byte_s, one.over_s = at_s + 0.5, at_s + 1.0
    one.opened, one.endings = [opened(at_s)], [("complete", None)]
    one.opened[0].over_s = at_s + 1.0
    return one


def history(*traces: Trace) -> History:
    """A run in which all went well."""
    one = History(queue_length=2, queue_wait_s=10.0, retry_floor=1, retry_ratio=0.1)
    one.retry_window_s, one.ended_s, one.probed_s = 10.0, 50.0, 40.0
    one.traces = {each.request: each for each in (traces or (trace(),))}
    one.runs = [Run(each.request, A, 0, each.arrived_s, each.over_s) for each in traces]
    one.rest = Rest(0, 0, 0, 1, 1, 0, 0, alive=1, nodes=1)
    return one


def two_turns() -> tuple[Trace, Trace]:
    """Two turns of one conversation, the second one warm."""
    first, second = trace("r1", 1.0), trace("r2", 5.0)
    second.turn, second.previous, second.cached_tokens = 2, first.request, 9
    second.opened[0].placement, second.opened[0].why = "warm", "home"
    return first, second


def _no_ending(h: History, t: Trace) -> None:
    t.endings = []


def _two_endings(h: History, t: Trace) -> None:
    t.endings *= 2


def _swapped(h: History, t: Trace) -> None:
    t.text, t.saw_last_event, t.endings = "bb aa ", False, [("broken", LOST)]
    h.troubles = [Trouble(A, "kill_node", 0.0)]


def _cut_clean(h: History, t: Trace) -> None:
    t.text = "aa "


def _late_attempt(h: History, t: Trace) -> None:
    t.opened.append(opened(1.8, 2, B))
    t.opened[0].over_s = 1.7


def _overlap(h: History, t: Trace) -> None:
    t.first_byte_s = 3.0
    t.opened.append(opened(1.8, 2, B))


def _lease_left(h: History, t: Trace) -> None:
    h.rest = Rest(0, 0, 1, 1, 1, 0, 0, 1, 1)


def _slot_left(h: History, t: Trace) -> None:
    h.rest = Rest(0, 0, 0, 1, 1, 1, 0, 1, 1)


def _over_limit(h: History, t: Trace) -> None:
    t.opened[0].held = 3


def _silent(h: History, t: Trace) -> None:
    t.opened[0].silent_s = 2.5


def _draining(h: History, t: Trace) -> None:
    t.opened[0].draining = True


def _left_there(h: History, t: Trace) -> None:
    t.opened[0].lost_after_s = 9.0


def _runs_on(h: History, t: Trace) -> None:
    h.runs = [Run(t.request, A, 0, 1.0, 9.0)]


def _queue_long(h: History, t: Trace) -> None:
    h.queue_peak = 3


def _queue_slow(h: History, t: Trace) -> None:
    t.arrived_s = -20.0


def _overlooked(h: History, t: Trace) -> None:
    t.overlooked = B


def _too_many_retries(h: History, t: Trace) -> None:
    t.retries = [1.2, 1.3]


def _in_place(h: History, t: Trace) -> None:
    t.retries, t.first_byte_s = [1.2], None
    t.opened[0].over_s = 1.2
    t.opened.append(opened(1.3, 2, A))


def _node_missing(h: History, t: Trace) -> None:
    h.rest = Rest(0, 0, 0, 1, 1, 0, 0, 0, 1)


def _probe_failed(h: History, t: Trace) -> None:
    h.probed_s = 0.5
    t.endings = [("client_gone", None)]


def _no_hint(h: History, t: Trace) -> None:
    t.endings = [("rejected", Failure("queue_full", "Full."))]
    t.saw_last_event = False


def _no_cause(h: History, t: Trace) -> None:
    t.endings, t.saw_last_event = [("broken", LOST)], False


def _defect(h: History, t: Trace) -> None:
    h.defects = ["spoke out of turn"]


def _over_cap(h: History, t: Trace) -> None:
    h.max_decodes, t.opened[0].fleet_held = 4, 5


def _crowd(h: History, t: Trace, tenant: str, class_: str, count: int) -> None:
    """Let so many others be served while the trace waits."""
    t.opened[0].at_s = t.arrived_s + 0.4
    for n in range(count):
        other = trace(f"x{n}", t.arrived_s + 0.1)
        other.tenant, other.class_ = tenant, class_
        h.traces[other.request] = other


def _passed_by_one(h: History, t: Trace) -> None:
    t.tenant = "key:new"
    _crowd(h, t, "key:flood", "interactive", 4)


def _starved(h: History, t: Trace) -> None:
    t.class_ = "bulk"
    _crowd(h, t, "", "interactive", 17)


def _passed_by_bulk(h: History, t: Trace) -> None:
    _crowd(h, t, "", "bulk", 3)


def _cancel_unheard(h: History, t: Trace) -> None:
    t.cancelled_s = t.arrived_s + 0.1


def _third_victim(h: History, t: Trace) -> None:
    t.first_byte_s, t.retries = 4.0, []
    h.troubles = [Trouble(A, "kill_node", 0.0)]
    t.opened = [opened(1.0 + n, 1 + n, node) for n, node in enumerate((A, B, NodeId("c")))]
    for one in t.opened:
        one.started = one.died = True
        one.over_s = one.at_s + 0.5


def _all_at_once(h: History, t: Trace) -> None:
    t.opened[0].bereaved = 3


def _tripped(h: History, t: Trace) -> None:
    h.openings, h.faults = [(A, t.model, 2.0)], [(B, 1.0), (A, 3.0)]


def _still_open(h: History, t: Trace) -> None:
    h.openings, h.faults = [(A, t.model, 2.0)], [(A, 2.0), (A, 3.0)]
    # Ten seconds behind the second failure it may be tried again.
    more = [trace(f"again-{at_s:g}", at_s) for at_s in (12.9, 13.0, 15.0)]
    h.traces |= {one.request: one for one in more}
    h.runs = [Run(each.request, A, 0, each.arrived_s, each.over_s) for each in h.traces.values()]


def _turned_away(h: History, t: Trace) -> None:
    t.tenant, t.over_s, t.opened = "key:new", t.arrived_s, []
    t.text, t.saw_last_event, t.first_byte_s = "", False, None
    h.runs = []
    t.endings = [("rejected", Failure("queue_full", "Full.", retry_after_s=1))]
    for n in range(3):
        other = trace(f"x{n}", t.arrived_s - 0.2)
        other.tenant = "key:flood"
        other.opened[0].at_s = t.arrived_s + 0.3
        h.traces[other.request] = other


def _no_newer(h: History, t: Trace) -> None:
    t.first_byte_s = 3.0
    t.opened.append(opened(2.5, 2, B))
    t.opened[0].epoch = t.opened[1].epoch


def _beside_a_newer(h: History, t: Trace) -> None:
    older, newer = (Fence("k", Epoch(1, counter, "g")) for counter in (1, 2))
    h.owners = [Ownership(A, older, 1.0), Ownership(A, newer, 2.0, 3.0)]


def _for_an_older(h: History, t: Trace) -> None:
    fence = Fence("k", Epoch(1, 1, "g"))
    h.owners = [Ownership(A, fence, 1.0, 2.0), Ownership(A, fence, 2.0, 3.0)]


def _replayed_behind(h: History, t: Trace) -> None:
    t.replays = True
    t.opened.append(opened(2.5, 2, B))
    t.opened[1].resumes_at, t.opened[1].heard = 1, 2


def _replayed_unasked(h: History, t: Trace) -> None:
    t.opened.append(opened(2.5, 2, B))
    t.opened[1].resumes_at = t.opened[1].heard = 2


def _replayed_elsewhere(h: History, t: Trace) -> None:
    _replayed_unasked(h, t)
    t.replays, t.opened[1].digest = True, "other"


def _told_of_who_refused(h: History, t: Trace) -> None:
    t.marks = 1


def _longer_first(h: History, t: Trace) -> None:
    other = trace("r2", t.arrived_s)
    h.traces[other.request] = other
    for one, tokens in ((t, 1), (other, 2)):
        again = opened(2.5 - tokens / 10, 2, B)
        again.resumes_at = again.heard = tokens
        one.replays, one.opened[0].lost_after_s, one.opened[0].over_s = True, 0.1, 1.9
        one.opened.append(again)


def _miscounted(h: History, t: Trace) -> None:
    t.told = Usage(0, 0, 1)


def _under_a_key(h: History, t: Trace, at_s: float) -> Trace:
    """Another request under the same key."""
    other = trace("r2", at_s)
    for one in (t, other):
        one.tenant, one.key, one.fingerprint = "key:a", "k", b"body"
    h.key_ttl_s, h.traces[other.request] = 10.0, other
    return other


def _beside_itself(h: History, t: Trace) -> None:
    _under_a_key(h, t, t.arrived_s + 0.5)


def _run_again(h: History, t: Trace) -> None:
    _under_a_key(h, t, t.arrived_s + 10.5)


def _told_of_another(h: History, t: Trace) -> None:
    t.tenant, t.key, t.fingerprint = "key:a", "k", b"body"
    h.repeats = [Repeat(RequestId("r9"), "key:b", "k", b"body", 9.0, t.request, t.text)]


def _told_a_refusal(h: History, t: Trace) -> None:
    t.key, t.fingerprint = "k", b"body"
    t.endings, t.saw_last_event, t.text = [("client_gone", None)], False, ""
    h.repeats = [Repeat(RequestId("r9"), "", "k", b"body", 9.0, t.request, "")]


def _given_twice(h: History, t: Trace) -> None:
    t.received = [(0, "aa "), (0, "aa "), (1, "bb ")]


def _skipped(h: History, t: Trace) -> None:
    t.received = [(0, "aa "), (2, "bb ")]


def _short(h: History, t: Trace) -> None:
    t.received, t.read_whole = [(0, "aa ")], True


BROKEN: list[tuple[str, Callable[[History, Trace], None]]] = [
    ("one_ending", _no_ending),
    ("one_ending", _two_endings),
    ("tokens_contiguous", _swapped),
    ("no_silent_truncation", _cut_clean),
    ("no_retry_after_first_byte", _late_attempt),
    ("one_live_attempt", _overlap),
    ("leases_return", _lease_left),
    ("slots_return", _slot_left),
    ("places_within_limits", _over_limit),
    ("no_work_into_silence", _silent),
    ("no_work_for_draining", _draining),
    ("loss_is_noticed", _left_there),
    ("cancelled_work_stops", _runs_on),
    ("queue_bounded", _queue_long),
    ("queue_bounded", _queue_slow),
    ("places_are_used", _overlooked),
    ("retry_budget", _too_many_retries),
    ("retries_go_elsewhere", _in_place),
    ("fleet_recovers", _node_missing),
    ("fleet_recovers", _probe_failed),
    ("refusals_say_when", _no_hint),
    ("failures_have_causes", _no_cause),
    ("machines_agree", _defect),
    ("caps_hold", _over_cap),
    ("newcomers_are_served", _passed_by_one),
    ("classes_take_turns", _starved),
    ("better_classes_first", _passed_by_bulk),
    ("cancelled_requests_end", _cancel_unheard),
    ("no_third_victim", _third_victim),
    ("survivors_are_spared", _all_at_once),
    ("breakers_have_causes", _tripped),
    ("breakers_close", _still_open),
    ("floods_give_way", _turned_away),
    ("replays_go_on", _replayed_behind),
    ("replays_go_on", _replayed_unasked),
    ("replays_go_on", _replayed_elsewhere),
    ("replays_are_told", _told_of_who_refused),
    ("usage_adds_up", _miscounted),
    ("shorter_first", _longer_first),
    ("one_owner", _no_newer),
    ("one_owner", _beside_a_newer),
    ("one_owner", _for_an_older),
    ("one_run_per_key", _beside_itself),
    ("one_run_per_key", _run_again),
    ("repeats_get_their_own_answer", _told_of_another),
    ("repeats_get_their_own_answer", _told_a_refusal),
    ("returned_readers_miss_nothing", _given_twice),
    ("returned_readers_miss_nothing", _skipped),
    ("returned_readers_miss_nothing", _short),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History, Trace], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    one = trace()
    run = history(one)
    harm(run, one)
    assert {violation.checker for violation in check(run)} == {name}


def test_a_good_history_breaks_nothing() -> None:
    """The checkers are not merely severe."""
    assert check(history()) == []
    later = trace()
    run = history(later)
    _under_a_key(run, later, later.arrived_s + 11.5)
    _still_open(run, later)
    run.closings = [(A, later.model, 16.0)]
    later.received = [(0, "aa "), (-1, ""), (4, "x"), (5, "bb ")]
    assert check(run) == []
    assert check(history(*two_turns())) == []


def test_every_checker_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    elsewhere = {"ties_are_shared", *TALK_CLAIMS, *ROOM_CLAIMS}
    elsewhere |= {name for name, _, _ in (*aside_claims.CLAIMS, *home_claims.CLAIMS)}
    elsewhere |= {name for name, _, _ in (*short_claims.CLAIMS, *leave_claims.CLAIMS)}
    elsewhere |= {name for name, _, _ in (*share_claims.CLAIMS, *stay_claims.CLAIMS)}
    elsewhere |= {name for name, _, _ in (*allowance_claims.CLAIMS, *vector_claims.CLAIMS)}
    elsewhere |= {name for name, _, _ in handoff_claims.CLAIMS}
    assert {checker.name for checker in CHECKERS} == {name for name, _ in BROKEN} | elsewhere
    assert len({checker.claim for checker in CHECKERS}) == len(CHECKERS)


@pytest.mark.parametrize(("ties", "violated"), [(15, False), (40, True)])
def test_ties_need_numbers(ties: int, violated: bool) -> None:
    """A node left out a few times had bad luck; left out always, it was left out."""
    traces = [trace(f"r{n}", float(n)) for n in range(ties)]
    for one in traces:
        one.opened[0].idle_rivals = 2
    found = [violation.checker for violation in check(history(*traces))]
    assert found == (["ties_are_shared"] if violated else [])


def test_trouble_excuses_only_its_node_and_time() -> None:
    """A failure needs a cause on a node that the request was on, while it was there."""
    one = trace()
    one.endings, one.saw_last_event = [("broken", LOST)], False
    run = history(one)
    run.troubles = [Trouble(B, "kill_node", 0.0), Trouble(A, "kill_node", 30.0)]
    assert [violation.checker for violation in check(run)] == ["failures_have_causes"]
    run.troubles = [Trouble(A, "kill_node", 0.0, 1.5)]
    assert check(run) == []
