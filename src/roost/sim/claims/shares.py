"""DECIDER: claims about shares, caps, classes, cancels and requests that kill; see `checkers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from roost.core.ids import NodeId
from roost.sim.history import History
from roost.sim.request_facts import Trace

GATEWAY = NodeId("gateway")
TURNS_AHEAD = 3
"""Requests that a tenant may have served while a newcomer waits: one that was nearly due, and more
for estimates that were wrong by a request."""
CANCEL_WITHIN_S = 0.5


def caps_hold(history: History) -> Iterator[str]:
    """No moment has more streams than the caps of fleet and node allow."""
    for trace in history.traces.values():
        for opened in trace.opened:
            if 0 < history.max_decodes < opened.fleet_held:
                yield f"{trace.request} is stream {opened.fleet_held} of the fleet"
            if 0 < history.max_decodes_per_node < opened.node_held:
                yield f"{trace.request} is stream {opened.node_held} of {opened.node}"


def newcomers_are_served(history: History) -> Iterator[str]:
    """While somebody's first request waits, nobody else gets more than a few turns."""
    known: set[str] = set()
    for trace in history.traces.values():
        first = trace.tenant not in known
        known.add(trace.tenant)
        if not first or not trace.tenant or trace.class_ != "interactive":
            continue
        rivals = _served_meanwhile(history, trace)
        running = _running(history, trace)
        for tenant, count in rivals.items():
            if tenant != trace.tenant and count > TURNS_AHEAD + running[tenant]:
                yield f"{trace.request} of {trace.tenant} waited while {tenant} had {count} turns"


def _waited(history: History, trace: Trace) -> tuple[float, float]:
    ended_s = history.ended_s if trace.over_s is None else trace.over_s
    return trace.arrived_s, trace.opened[0].at_s if trace.opened else ended_s


def _served_meanwhile(history: History, trace: Trace) -> Counter[str]:
    since_s, until_s = _waited(history, trace)
    return Counter(
        other.tenant
        for other in history.traces.values()
        if other.opened
        and other.model == trace.model
        and since_s < other.opened[0].at_s < until_s
        and not other.retries
    )


def _running(history: History, trace: Trace) -> Counter[str]:
    """How many of each tenant ran when this one came: their true cost was not known yet."""
    return Counter(
        other.tenant
        for other in history.traces.values()
        if other.opened
        and other.opened[0].at_s <= trace.arrived_s
        and (other.over_s is None or other.over_s > trace.arrived_s)
    )


def classes_take_turns(history: History) -> Iterator[str]:
    """A class that waits gets one place in so many."""
    for class_ in ("agent", "bulk"):
        waiting = [t for t in history.traces.values() if t.class_ == class_ and not t.retries]
        for trace in waiting:
            since_s, until_s = _waited(history, trace)
            mine = sum(_begun_in(other, since_s, until_s) for other in waiting)
            others = sum(
                _begun_in(other, since_s, until_s)
                for other in history.traces.values()
                if other.class_ != class_ and other.model == trace.model
            )
            if others > 2 * history.class_one_in * (mine + 1):
                yield f"{trace.request} ({class_}) saw {others} others served and {mine} of its own"


def _begun_in(trace: Trace, since_s: float, until_s: float) -> bool:
    return bool(trace.opened) and since_s < trace.opened[0].at_s < until_s


def better_classes_first(history: History) -> Iterator[str]:
    """Interactive work is not passed over by more bulk work than its share of places."""
    for trace in history.traces.values():
        # A turn whose time had not come was not in this line.
        in_line = trace.conversation is None or trace.past
        if trace.class_ != "interactive" or not in_line:
            continue
        since_s, until_s = _waited(history, trace)
        begun = [o for o in history.traces.values() if _begun_in(o, since_s, until_s)]
        bulk = sum(other.class_ == "bulk" and other.model == trace.model for other in begun)
        if bulk > 1 + 2 * len(begun) / history.class_one_in:
            yield f"{trace.request} saw {bulk} bulk requests of {len(begun)} go before it"


def cancelled_requests_end(history: History) -> Iterator[str]:
    """Who is cancelled has an ending at once."""
    for trace in history.traces.values():
        if trace.cancelled_s is None:
            continue
        over_s = history.ended_s if trace.over_s is None else trace.over_s
        ill = history.troubled(GATEWAY, trace.cancelled_s, over_s)
        if over_s > trace.cancelled_s + CANCEL_WITHIN_S and not ill:
            yield f"{trace.request} went on for {over_s - trace.cancelled_s:.1f} s after its cancel"


def no_third_victim(history: History) -> Iterator[str]:
    """A request on which two runtimes died while it held a slot is not tried again."""
    for trace in history.traces.values():
        kills = 0
        for opened in trace.opened:
            if kills >= 2:
                yield f"{trace.request} was given a runtime after {kills} had died on it"
            kills += opened.died and opened.started


def survivors_are_spared(history: History) -> Iterator[str]:
    """After a death a node computes prompts for only a few of those that it hit at a time."""
    for trace in history.traces.values():
        for opened in trace.opened:
            if opened.bereaved > history.redispatch_per_node:
                yield f"{trace.request} is bereaved number {opened.bereaved} on {opened.node}"


def breakers_have_causes(history: History) -> Iterator[str]:
    """A breaker opens for failures of its node; lack of room is none."""
    for node, _, when_s in history.openings:
        if not any(failed == node and at_s <= when_s for failed, at_s in history.faults):
            yield f"the breaker of {node} opened at {when_s:.1f} s, and it had failed nothing"


def breakers_close(history: History) -> Iterator[str]:
    """Who was tried again and has served as often as that takes is trusted again."""
    for node, model, when_s in history.openings:
        ends = [at for who, what, at in history.closings if who == node and what in (model, None)]
        closed_s = min((at for at in ends if at >= when_s), default=history.ended_s)
        faults = [at for who, at in history.faults if who == node and when_s <= at <= closed_s]
        # Each failure behind the first doubles how long it stays open.
        open_s = history.breaker_open_s * 2 ** max(0, len(faults) - 1)
        tried_s = max(faults, default=when_s) + open_s
        served = sum(
            _served_by(trace, node, tried_s, closed_s)
            for trace in history.traces.values()
            if trace.model == model
        )
        if served >= history.breaker_successes:
            yield f"{node} has served {served} since {tried_s:.1f} s, and its breaker stays open"


def _served_by(trace: Trace, node: NodeId, since_s: float, until_s: float) -> bool:
    """Whether this node has been asked, and answered whole, in this span."""
    if not trace.opened or trace.over_s is None or trace.endings[0][0] != "complete":
        return False
    last = trace.opened[-1]
    return last.node == node and last.at_s >= since_s and trace.over_s < until_s


def floods_give_way(history: History) -> Iterator[str]:
    """Nobody's first request is refused for a line that somebody else has filled."""
    known: set[str] = set()
    traces = list(history.traces.values())
    for trace in traces:
        first = trace.tenant not in known
        known.add(trace.tenant)
        reasons = [failure.reason for _, failure in trace.endings if failure is not None]
        if not first or reasons != ["queue_full"] or trace.over_s is None:
            continue
        waiting = Counter(other.tenant for other in traces if _waits_at(other, trace.over_s))
        tenant, most = max(waiting.items(), key=lambda one: one[1], default=("", 0))
        if most > 2 and trace.over_s == trace.arrived_s:
            yield f"{trace.request} was refused while {tenant} had {most} waiting"


def _waits_at(trace: Trace, when_s: float) -> bool:
    since_s, until_s = trace.arrived_s, trace.opened[0].at_s if trace.opened else trace.over_s
    return since_s < when_s and (until_s is None or until_s > when_s)


def one_run_per_key(history: History) -> Iterator[str]:
    """Under a key nothing runs beside what runs, nor after what was answered, for its time."""
    last: dict[tuple[str, str], Trace] = {}
    for trace in sorted(history.traces.values(), key=lambda one: one.arrived_s):
        if not trace.key:
            continue
        before = last.get((trace.tenant, trace.key))
        last[trace.tenant, trace.key] = trace
        if before is None:
            continue
        if before.over_s is None or before.over_s > trace.arrived_s:
            yield f"{trace.request} ran under {trace.key} while {before.request} did"
        elif _told(before) and trace.arrived_s < before.over_s + history.key_ttl_s:
            yield f"{trace.request} ran under {trace.key}, which {before.request} had answered"


def repeats_get_their_own_answer(history: History) -> Iterator[str]:
    """What comes again is told of the same request of the same tenant, and of nothing else."""
    for repeat in history.repeats:
        if repeat.twin is None:
            continue
        twin = history.traces[repeat.twin]
        same = (twin.tenant, twin.key, twin.fingerprint)
        if same != (repeat.tenant, repeat.key, repeat.fingerprint):
            yield f"{repeat.request} was told of {twin.request}, which is another request"
        elif repeat.answer is None:
            continue
        elif not _told(twin) or repeat.answer != twin.text:
            yield f"{repeat.request} was given {repeat.answer!r} as the answer of {twin.request}"


def _told(trace: Trace) -> bool:
    """Whether its client was told an ending that stands: the whole answer, or how it was cut."""
    kind = trace.endings[0][0] if trace.endings else ""
    return kind == "complete" or (kind == "broken" and bool(trace.text))


def returned_readers_miss_nothing(history: History) -> Iterator[str]:
    """Who comes back has every event once and in order, or was told where some are missing."""
    for trace in history.traces.values():
        if trace.received is None:
            continue
        expected: int | None = 0
        for number, _ in trace.received:
            if number >= 0 and expected is not None and number != expected:
                yield f"{trace.request} was given event {number} and not {expected}"
                break
            expected = number + 1 if number >= 0 else None
        text = "".join(piece for _, piece in trace.received)
        told_of_gaps = any(number < 0 for number, _ in trace.received)
        if trace.read_whole and not told_of_gaps and text != trace.text:
            yield f"{trace.request} read {text!r} to its end, of {trace.text!r}"
