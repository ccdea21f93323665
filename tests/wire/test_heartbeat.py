"""Heartbeats: pings at their time, round trips measured, silence noticed."""

from __future__ import annotations

from roost.wire.heartbeat import Heartbeat, LinkSettings
from roost.wire.messages import Ping

SETTINGS = LinkSettings(ping_s=1.0, dead_s=15.0)


def test_a_ping_is_due_once_per_interval() -> None:
    """Before the interval nothing is due, then one ping, then nothing until the next."""
    heart = Heartbeat(SETTINGS, 100.0)
    assert heart.due_ping(100.9) is None
    assert heart.next_tick() == 101.0
    assert heart.due_ping(101.0) == Ping(1)
    assert heart.due_ping(101.5) is None
    assert heart.due_ping(102.0) == Ping(2)


def test_a_late_tick_sends_one_ping() -> None:
    """Pings that were missed are not made up for."""
    heart = Heartbeat(SETTINGS, 0.0)
    assert heart.due_ping(9.0) == Ping(1)
    assert heart.due_ping(9.5) is None
    assert heart.next_tick() == 10.0


def test_the_interval_may_change() -> None:
    """After `start` the peer's interval counts."""
    heart = Heartbeat(SETTINGS, 0.0)
    heart.start(0.25, 0.5)
    assert heart.next_tick() == 0.75


def test_the_round_trip_is_measured_by_number() -> None:
    """An answer belongs to its own ping and to no other; numbers nobody waits for are refused."""
    heart = Heartbeat(SETTINGS, 0.0)
    heart.due_ping(1.0)
    heart.due_ping(2.0)
    assert heart.on_pong(1, 2.5)
    assert heart.rtt_s == 1.5
    assert not heart.on_pong(1, 2.6)
    assert not heart.on_pong(3, 2.6)
    assert heart.on_pong(2, 2.75)
    assert heart.rtt_s == 0.75


def test_a_peer_that_never_answers_costs_nothing() -> None:
    """Only the newest pings are remembered; late answers are legal but unmeasured."""
    heart = Heartbeat(SETTINGS, 0.0)
    for second in range(1, 1001):
        assert heart.due_ping(float(second)) == Ping(second)
    assert heart.on_pong(1, 1000.5)
    assert heart.rtt_s is None
    assert heart.on_pong(1000, 1000.5)
    assert heart.rtt_s == 0.5


def test_silence_is_death_and_any_sound_is_life() -> None:
    """The age counts from the last thing heard, whatever it was."""
    heart = Heartbeat(SETTINGS, 0.0)
    assert not heart.is_dead(14.9)
    assert heart.is_dead(15.0)
    heart.on_heard(14.0)
    assert heart.heard_age_s(20.0) == 6.0
    assert not heart.is_dead(28.9)
    assert heart.is_dead(29.0)


def test_own_sleep_is_no_silence_of_the_peer() -> None:
    """A tick that is 20 s late means that nothing could be heard: the age is what it was before."""
    heart = Heartbeat(SETTINGS, 0.0)
    heart.on_heard(0.5)
    heart.forgive_own_sleep(21.0)
    assert heart.heard_age_s(21.0) == 0.5
    assert not heart.is_dead(21.0)
    heart.due_ping(21.0)
    heart.forgive_own_sleep(22.5)
    assert heart.heard_age_s(22.5) == 2.0, "a tick that is a little late forgives nothing"


def test_waking_up_leaves_time_to_read() -> None:
    """However little of the silence was left before the sleep, what came meanwhile is read first.

    The peer had been silent for nearly `dead_s` when this end fell asleep.
    """
    heart = Heartbeat(SETTINGS, 0.0)
    for second in range(1, 15):
        assert heart.due_ping(float(second)) is not None
    heart.forgive_own_sleep(40.0)
    assert not heart.is_dead(40.0)
    assert heart.is_dead(40.5)
