"""MACHINE: whether a request that met a failure gets another try.

Retries help against single deaths and make an overload worse, so they have a budget per fleet. A
refusal for lack of room is no failure: it costs nothing, and is bounded by the bounces that the
settings allow one request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

from roost.core.ids import NodeId
from roost.errors import Failure, Fault
from roost.fleet.calls import Call
from roost.fleet.settings import FleetSettings

Verdict = Literal["answer", "wait", "elsewhere", "again"]

DEATHS = frozenset({"runtime_died", "node_lost"})
"""Failures that a request may have caused itself."""
LOSSES = DEATHS | {"draining"}
"""Failures behind the first byte after which somebody else may go on: the node is no more, or told
to be no more."""
_NO_ROOM = frozenset({"node_busy", "draining", "starting"})
_BUCKETS = 10


def verdict(failure: Failure, *, answered: bool) -> Verdict:
    """What a failed attempt calls for, budget aside.

    `answer`: the client hears of it, because the failure would repeat, or because a byte of the
    answer is out and a second attempt could contradict it. `wait`: the node had no room.
    """
    if answered:
        return "answer"
    if failure.reason in _NO_ROOM:
        return "wait"
    peer = failure.kind.fault is Fault.PEER
    return "elsewhere" if peer and failure.retryable else "answer"


class RetryBudget:
    """At most max(floor, ratio x requests) retries in any window, over the whole fleet.

    Retries are remembered one by one, requests in whole buckets of a tenth of the window. A bucket
    that is only partly inside the window is not counted, which errs towards fewer retries.
    """

    def __init__(self, ratio: float, floor: int, window_s: float) -> None:
        self._ratio = ratio
        self._floor = floor
        self._window_s = window_s
        self._bucket_s = window_s / _BUCKETS
        self._retries: deque[float] = deque()
        self._requests: deque[tuple[int, int]] = deque()

    def note_request(self, now: float) -> None:
        """A request arrived."""
        bucket = int(now // self._bucket_s)
        if self._requests and self._requests[-1][0] == bucket:
            self._requests[-1] = (bucket, self._requests[-1][1] + 1)
        else:
            self._requests.append((bucket, 1))
            self._expire(now)

    def spend(self, now: float) -> bool:
        """Take one retry out of the budget; False if there is none left."""
        self._expire(now)
        requests = sum(count for _, count in self._requests)
        if len(self._retries) >= max(self._floor, int(self._ratio * requests)):
            return False
        self._retries.append(now)
        return True

    def _expire(self, now: float) -> None:
        while self._retries and self._retries[0] <= now - self._window_s:
            self._retries.popleft()
        oldest = int(now // self._bucket_s) - _BUCKETS
        while self._requests and self._requests[0][0] <= oldest:
            self._requests.popleft()


class Recovery:
    """Applies verdict, limits and budget to one request at a time, and keeps its record."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._budget = RetryBudget(
            settings.retry_ratio, settings.retry_floor, settings.retry_window_s
        )

    def note_request(self, now: float) -> None:
        """A request arrived: the budget grows with their number."""
        self._budget.note_request(now)

    def judge(
        self,
        call: Call,
        node: NodeId,
        failure: Failure,
        now: float,
        *,
        elsewhere: Callable[[], bool],
        again: Callable[[], bool],
    ) -> Verdict:
        """What becomes of a request whose attempt on `node` just ended in `failure`.

        `elsewhere` tells whether any node is left that has not failed it; asked after the failure
        is on record. `again` tells whether this node may have it once more, when its runtime is
        back: asked where there is nobody else.
        """
        todo = verdict(failure, answered=call.answered)
        if todo == "wait":
            call.bounces += 1
            return "wait" if call.bounces <= self._settings.busy_bounces else "answer"
        if todo == "answer":
            return "answer"
        call.failures += 1
        if failure.reason in DEATHS and call.trail and call.now_on.started is not None:
            call.kills += 1
        if call.kills >= self._settings.quarantine_kills:
            # What killed two is not given a third.
            return "answer"
        call.tried.add(node)
        if call.failures >= self._settings.retry_attempts:
            return "answer"
        # The budget comes last: a retry that has nowhere to go must not use it up.
        if elsewhere():
            return "elsewhere" if self._budget.spend(now) else "answer"
        if failure.reason != "runtime_died" or not again():
            return "answer"
        if not self._budget.spend(now):
            return "answer"
        call.tried.discard(node)
        return "again"
