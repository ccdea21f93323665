"""DECIDER: what must be true of every run, whatever went wrong in it: one claim each.

Checkers read the history and nothing else. Each is proved able to fail by a defective machine in
the tests. A claim that holds only while a node is well asks the history whether it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from roost.errors import Fault
from roost.sim.claims import allowances as allowance_claims
from roost.sim.claims import aside as aside_claims
from roost.sim.claims import handoffs as handoff_claims
from roost.sim.claims import homes as home_claims
from roost.sim.claims import leaving as leave_claims
from roost.sim.claims import losses as loss_claims
from roost.sim.claims import room as room_claims
from roost.sim.claims import shares as claims
from roost.sim.claims import sharing as share_claims
from roost.sim.claims import shortening as short_claims
from roost.sim.claims import staying as stay_claims
from roost.sim.claims import talks as talk_claims
from roost.sim.claims import vectors as vector_claims
from roost.sim.history import History
from roost.sim.request_facts import Trace

STOP_WITHIN_S = 1.0
LOSS_SEEN_S = 5.0
SLACK_S = 1.0


class Violation(msgspec.Struct, frozen=True):
    """One broken claim."""

    checker: str
    what: str


class Checker(msgspec.Struct, frozen=True):
    """A claim about every run, and how to find what breaks it."""

    name: str
    claim: str
    find: Callable[[History], Iterator[str]]


def check(history: History) -> list[Violation]:
    """Every violation of every claim."""
    return [Violation(checker.name, what) for checker in CHECKERS for what in checker.find(history)]


def _one_ending(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        if len(trace.endings) != 1:
            kinds = [kind for kind, _ in trace.endings]
            yield f"{trace.request} has {len(kinds)} endings: {kinds}"


def _tokens_contiguous(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        # What was dropped on purpose is another claim's business.
        if not trace.dropped and not "".join(trace.oracle).startswith(trace.text):
            yield f"{trace.request} received {trace.text!r}, not a prefix of its answer"


def _no_silent_truncation(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        clean = trace.saw_last_event or any(kind == "complete" for kind, _ in trace.endings)
        whole = trace.dropped or trace.text == "".join(trace.oracle)
        if clean and not (whole and trace.saw_last_event):
            tokens = len(trace.text.split())
            yield f"{trace.request} ended cleanly after {tokens} of {len(trace.oracle)} tokens"


def _no_retry_after_first_byte(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            late = trace.first_byte_s is not None and opened.at_s > trace.first_byte_s
            if late and not opened.resumes_at:
                yield f"{trace.request} attempt {opened.attempt} began after its first byte"


def _one_live_attempt(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for one, other in pairwise(trace.opened):
            if one.over_s is None or one.over_s > other.at_s:
                yield f"{trace.request} attempt {other.attempt} began while {one.attempt} ran"


def _leases_return(history: History) -> Iterator[str]:
    rest = history.rest
    if rest is not None and (rest.leases or rest.waiting or rest.running):
        yield f"left at rest: {rest.leases} leases, {rest.waiting} waiting, {rest.running} running"


def _slots_return(history: History) -> Iterator[str]:
    rest = history.rest
    if rest is not None and (rest.busy_slots or rest.live_streams or rest.opened != rest.released):
        yield (
            f"left on nodes: {rest.busy_slots} busy slots, {rest.live_streams} streams, "
            f"{rest.opened} opened and {rest.released} released"
        )


def _places_within_limits(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.held > opened.limit:
                yield (
                    f"{trace.request} is stream {opened.held} of {opened.limit} on {opened.node}"
                )


def _no_work_into_silence(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            # Silence that the gateway slept through is not the node's.
            if opened.silent_s >= 2.0 and not _gateway_ill(history, trace):
                yield f"{trace.request} went to {opened.node}, silent for {opened.silent_s:.1f} s"


def _no_work_for_draining(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.draining:
                yield f"{trace.request} went to {opened.node}, which drains"


def _loss_is_noticed(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for opened in trace.opened:
            silent_s = opened.lost_after_s or 0.0
            if silent_s > LOSS_SEEN_S + SLACK_S and not _gateway_ill(history, trace):
                yield f"{trace.request} was left on {opened.node}, silent for {silent_s:.1f} s"


def _cancelled_work_stops(history: History) -> Iterator[str]:
    for run in history.runs:
        trace = history.traces[run.request]
        if trace.over_s is None:
            continue
        until_s = history.ended_s if run.ended_s is None else run.ended_s
        well = not history.troubled(run.node, trace.over_s - SLACK_S, until_s)
        if until_s > trace.over_s + STOP_WITHIN_S and well:
            yield f"{run.request} ran on {run.node} {until_s - trace.over_s:.1f} s after its end"


def _queue_bounded(history: History) -> Iterator[str]:
    if history.queue_peak > history.queue_length:
        yield f"{history.queue_peak} waited, {history.queue_length} may"
    for trace in history.traces.values():
        begun_s = trace.opened[0].at_s if trace.opened else trace.over_s
        waited_s = (history.ended_s if begun_s is None else begun_s) - trace.arrived_s
        if waited_s > history.queue_wait_s + SLACK_S and not _gateway_ill(history, trace):
            yield f"{trace.request} waited {waited_s:.1f} s"


def _places_are_used(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        if trace.overlooked is not None:
            yield f"{trace.request} waited although {trace.overlooked} had room"


def _retry_budget(history: History) -> Iterator[str]:
    retries = sorted(when for trace in history.traces.values() for when in trace.retries)
    for now in retries:
        since_s = now - history.retry_window_s
        count = sum(since_s < when <= now for when in retries)
        arrived = sum(since_s < when <= now for when in history.arrivals)
        if count > max(history.retry_floor, history.retry_ratio * arrived):
            yield f"{count} retries in the window up to {now:.1f} s, with {arrived} requests"
    for trace in history.traces.values():
        if len(trace.retries) > 2:
            yield f"{trace.request} was retried {len(trace.retries)} times"


def _retries_go_elsewhere(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for one, other in pairwise(trace.opened):
            failed = any(one.at_s <= when <= other.at_s for when in trace.retries)
            if failed and one.node == other.node and other.why != "runtime_back":
                yield f"{trace.request} was retried on {one.node}, which had just failed it"


def _fleet_recovers(history: History) -> Iterator[str]:
    rest = history.rest
    if rest is None or history.probed_s is None:
        return
    if rest.alive != rest.nodes:
        yield f"{rest.alive} of {rest.nodes} nodes are alive after everything has healed"
    for trace in history.traces.values():
        ended = [kind for kind, _ in trace.endings]
        probed = trace.arrived_s >= history.probed_s and not trace.own
        if probed and ended != ["complete"]:
            yield f"{trace.request}, asked after everything had healed, ended in {ended}"


def _refusals_say_when(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for _, failure in trace.endings:
            if failure is None or failure.kind.fault is not Fault.CAPACITY:
                continue
            if failure.status in {429, 503} and failure.retry_after_s is None:
                yield f"{trace.request} was refused with {failure.reason} and no time to return"


def _failures_have_causes(history: History) -> Iterator[str]:
    for trace in history.traces.values():
        for _, failure in trace.endings:
            if failure is None or failure.kind.fault is not Fault.PEER:
                continue
            until_s = trace.over_s or history.ended_s
            nodes = {opened.node for opened in trace.opened}
            if not any(history.troubled(node, trace.arrived_s, until_s) for node in nodes):
                yield f"{trace.request} failed with {failure.reason} on healthy {sorted(nodes)}"


def _ties_are_shared(history: History) -> Iterator[str]:
    ties = [
        trace.opened[0]
        for trace in history.traces.values()
        if trace.opened and trace.opened[0].idle_rivals >= 2
    ]
    rivals = max((opened.idle_rivals for opened in ties), default=0)
    wins = Counter(opened.node for opened in ties if opened.idle_rivals == rivals)
    # Fewer ties than this could leave a node out by bad luck; more of them cannot.
    if rivals and rivals * (1 - 1 / rivals) ** wins.total() < 1e-6 and len(wins) < rivals:
        yield f"of {rivals} equal nodes only {sorted(wins)} ever won a tie"


def _machines_agree(history: History) -> Iterator[str]:
    yield from history.defects


def _gateway_ill(history: History, trace: Trace) -> bool:
    until_s = history.ended_s if trace.over_s is None else trace.over_s
    return history.troubled(claims.GATEWAY, trace.arrived_s, until_s)


CHECKERS = (
    Checker("one_ending", "Every request ends exactly once.", _one_ending),
    Checker(
        "tokens_contiguous",
        "What a client received begins its answer: no gap, no repetition, nobody else's token.",
        _tokens_contiguous,
    ),
    Checker(
        "no_silent_truncation",
        "What ends cleanly is the whole answer.",
        _no_silent_truncation,
    ),
    Checker(
        "no_retry_after_first_byte",
        "Once a byte of the answer went out, no second attempt begins, except to go on with it.",
        _no_retry_after_first_byte,
    ),
    Checker(
        "one_live_attempt",
        "A request's next attempt begins only when the one before is over.",
        _one_live_attempt,
    ),
    Checker("leases_return", "At rest nothing is leased, waits or runs.", _leases_return),
    Checker("slots_return", "At rest every slot is free and every stream released.", _slots_return),
    Checker(
        "places_within_limits",
        "No node has more streams of a model than it said it can take.",
        _places_within_limits,
    ),
    Checker(
        "no_work_into_silence",
        "No work goes to a node that has been silent for two seconds.",
        _no_work_into_silence,
    ),
    Checker("no_work_for_draining", "A draining node gets no new work.", _no_work_for_draining),
    Checker(
        "loss_is_noticed",
        "A request on a silent node is taken away from it after five seconds.",
        _loss_is_noticed,
    ),
    Checker(
        "cancelled_work_stops",
        "A healthy node computes nothing for a request that is over.",
        _cancelled_work_stops,
    ),
    Checker(
        "queue_bounded",
        "The line is no longer, and waiting in it no more, than the settings say.",
        _queue_bounded,
    ),
    Checker(
        "places_are_used",
        "Nobody waits while a healthy node has room.",
        _places_are_used,
    ),
    Checker(
        "retry_budget",
        "Retries stay within the fleet's budget and the request's.",
        _retry_budget,
    ),
    Checker(
        "retries_go_elsewhere",
        "No request is retried on the node that failed it, but for a lone one with a new runtime.",
        _retries_go_elsewhere,
    ),
    Checker(
        "fleet_recovers",
        "When everything has healed every node is back and every request succeeds.",
        _fleet_recovers,
    ),
    Checker(
        "refusals_say_when",
        "Who is refused for lack of capacity is told when to return.",
        _refusals_say_when,
    ),
    Checker(
        "failures_have_causes",
        "A request fails by a node's fault only if one of its nodes was in trouble.",
        _failures_have_causes,
    ),
    Checker("ties_are_shared", "Equally idle nodes share the work.", _ties_are_shared),
    Checker(
        "machines_agree",
        "Nobody breaks the link's protocol or its own limits, or believes what is out of date.",
        _machines_agree,
    ),
    Checker("caps_hold", "The caps of fleet and node hold at every moment.", claims.caps_hold),
    Checker(
        "newcomers_are_served",
        "While a tenant's first request waits, no other tenant gets more than a few turns.",
        claims.newcomers_are_served,
    ),
    Checker(
        "classes_take_turns",
        "However much of a better class waits, a class that waits gets its places.",
        claims.classes_take_turns,
    ),
    Checker(
        "better_classes_first",
        "Bulk work goes before interactive work only in its few places.",
        claims.better_classes_first,
    ),
    Checker(
        "cancelled_requests_end",
        "A request that is cancelled ends at once.",
        claims.cancelled_requests_end,
    ),
    Checker(
        "no_third_victim",
        "What killed two runtimes is not given a third.",
        claims.no_third_victim,
    ),
    Checker(
        "survivors_are_spared",
        "After a death its requests fall on each survivor a few at a time.",
        claims.survivors_are_spared,
    ),
    Checker(
        "breakers_have_causes",
        "A breaker opens only for failures of its node, never for lack of room.",
        claims.breakers_have_causes,
    ),
    Checker(
        "breakers_close",
        "A node that has served again as often as that takes has its breaker closed.",
        claims.breakers_close,
    ),
    Checker(
        "turns_take_turns",
        "Turns of a named conversation never overlap, and begin in the order in which they came.",
        talk_claims.turns_take_turns,
    ),
    Checker(
        "ends_are_kept",
        "The end of a named conversation's turn is told when it is on disk.",
        talk_claims.ends_are_kept,
    ),
    Checker(
        "drops_are_told",
        "What is missing of an answer was the oldest, and was counted.",
        talk_claims.drops_are_told,
    ),
    Checker(
        "floods_give_way",
        "A tenant's first request is not refused for a line that another one has filled.",
        claims.floods_give_way,
    ),
    Checker(
        "one_run_per_key",
        "Under a key nothing runs beside what runs, nor after what was answered.",
        claims.one_run_per_key,
    ),
    Checker(
        "repeats_get_their_own_answer",
        "What comes again under a key is told of the same request, or of none.",
        claims.repeats_get_their_own_answer,
    ),
    Checker(
        "returned_readers_miss_nothing",
        "A client that comes back has every event once, or knows which it has missed.",
        claims.returned_readers_miss_nothing,
    ),
    *(Checker(*claim) for claim in (*loss_claims.CLAIMS, *leave_claims.CLAIMS)),
    *(Checker(*claim) for claim in (*aside_claims.CLAIMS, *home_claims.CLAIMS)),
    *(Checker(*claim) for claim in (*room_claims.CLAIMS, *short_claims.CLAIMS)),
    *(Checker(*claim) for claim in (*share_claims.CLAIMS, *stay_claims.CLAIMS)),
    *(Checker(*claim) for claim in (*allowance_claims.CLAIMS, *vector_claims.CLAIMS)),
    *(Checker(*claim) for claim in handoff_claims.CLAIMS),
)
