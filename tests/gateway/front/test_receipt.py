"""Deadlines and the age of unsent bytes, with a clock cranked by hand."""

from __future__ import annotations

from math import inf

from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.receipt import Phase, Receipt, Stall

LIMITS = FrontLimits(
    head_s=10, body_s=60, idle_s=75, linger_s=2, head_max_bytes=100, body_max_bytes=1000
)


def test_head_deadline_is_absolute() -> None:
    """The first byte starts the clock, and no later one moves it."""
    receipt = Receipt(LIMITS, 0.0)
    assert (receipt.phase, receipt.deadline) == (Phase.IDLE, 10.0)
    receipt.on_bytes(1, 5.0)
    assert (receipt.phase, receipt.deadline) == (Phase.HEAD, 15.0)
    for second in range(6, 15):
        receipt.on_bytes(1, float(second))
    assert receipt.deadline == 15.0


def test_a_request_and_the_next() -> None:
    """Head, body, reply and idling have their own deadlines; the reply has none."""
    receipt = Receipt(LIMITS, 0.0)
    receipt.on_bytes(50, 1.0)
    receipt.on_head(2.0)
    assert (receipt.phase, receipt.deadline) == (Phase.BODY, 62.0)
    receipt.on_complete()
    assert (receipt.phase, receipt.deadline) == (Phase.BUSY, inf)
    receipt.on_idle(100.0)
    assert (receipt.phase, receipt.deadline) == (Phase.IDLE, 175.0)
    receipt.on_linger(103.0)
    assert (receipt.phase, receipt.deadline) == (Phase.LINGER, 105.0)


def test_sizes() -> None:
    """A head over its limit is named as such, and framing that outweighs a body as too large."""
    receipt = Receipt(LIMITS, 0.0)
    receipt.on_bytes(100, 0.0)
    assert receipt.oversize() is None
    receipt.on_bytes(1, 0.0)
    failure = receipt.oversize()
    assert failure is not None
    assert failure.reason == "headers_too_large"
    receipt.on_head(0.0)
    receipt.on_bytes(2000 + LIMITS.pipelined_bytes, 0.0)
    assert receipt.oversize() is None
    receipt.on_bytes(1, 0.0)
    failure = receipt.oversize()
    assert failure is not None
    assert failure.reason == "body_too_large"


def test_pausing_stops_the_clock() -> None:
    """While we do not read, the client is not late."""
    receipt = Receipt(LIMITS, 0.0)
    receipt.on_head(0.0)
    receipt.on_paused()
    assert receipt.deadline == inf
    receipt.on_resumed(500.0)
    assert receipt.deadline == 560.0
    receipt.on_complete()
    receipt.on_resumed(600.0)
    assert receipt.deadline == inf


def test_draining_shortens_idling_alone() -> None:
    """An idle connection has a moment left; a request in progress keeps its deadline."""
    receipt = Receipt(LIMITS, 0.0)
    receipt.on_draining(1.0)
    assert receipt.deadline == 3.0
    receipt.on_draining(2.5)
    assert receipt.deadline == 3.0
    receipt.on_bytes(1, 2.9)
    receipt.on_draining(3.0)
    assert receipt.deadline == 12.9


def test_stall_ages_the_oldest_byte() -> None:
    """A client that takes nothing is stuck after the write deadline."""
    stall = Stall(10.0)
    assert not stall.on_sweep(1000, 400, 0.0)
    assert not stall.on_sweep(2000, 1400, 9.0)
    assert stall.on_sweep(2000, 1400, 10.5)


def test_trickle_does_not_hide_old_bytes() -> None:
    """Taking a byte a second is not enough: the bytes pending at the mark are still there."""
    stall = Stall(10.0)
    late = [stall.on_sweep(1000, 500 - second, float(second)) for second in range(12)]
    assert late == [False] * 11 + [True]


def test_slow_but_steady_reader_is_fine() -> None:
    """Who takes what was pending before the deadline is never stuck, however long it goes on."""
    stall = Stall(10.0)
    for step in range(100):
        now = step * 5.0
        assert not stall.on_sweep(1000 + step * 100, 90, now)


def test_empty_buffer_resets() -> None:
    """Nothing pending, nothing old."""
    stall = Stall(1.0)
    assert not stall.on_sweep(10, 10, 0.0)
    assert not stall.on_sweep(10, 0, 5.0)
    assert not stall.on_sweep(20, 10, 6.0)
