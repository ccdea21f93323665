"""Parked sessions in numbers: the work of one does not grow with the square of them."""

from __future__ import annotations

from time import process_time

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId, TenantId
from roost.node.slots import Content
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions

RUNTIME = RuntimeId("m#1")
CONTENT = Content(0, TenantId("t"), b"", 100)


def parked(count: int) -> float:
    """Park so many, then return how many seconds the next ones take at best."""
    limits = SessionSettings(ram_bytes=2**40, disk_bytes=0, parked_max=2 * count)
    sessions, best_s = Sessions(limits), float("inf")
    sessions.on_states(RUNTIME, 1)
    for number in range(1, count + 11):
        began_s = process_time()
        sessions.park(RUNTIME, CONTENT, float(number))
        sessions.on_parked(SessionId(number), SavedState(100, 100), float(number))
        if number > count:
            best_s = min(best_s, process_time() - began_s)
    assert sessions.view().ram == count + 10
    return best_s


def test_ten_times_the_sessions_are_not_a_hundred_times_the_work() -> None:
    """The agent does this between two events of all streams: they would wait for it."""
    assert parked(400) < 40 * parked(40)
