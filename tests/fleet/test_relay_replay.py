"""The relay of an answer that is gone on with elsewhere: one stream to its client."""

from __future__ import annotations

import pytest

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.errors import Failure
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.relay_effects import Commit, Done, Grant, Mark, Send
from roost.fleet.streams.said import Said

DIED = Failure("runtime_died", "The runtime ended.")
MARK = Mark("replayed after runtime_died at token 2")


def relay(*, streamed: bool = True, buffer_events: int = 64) -> Relay:
    """Open a relay that keeps what it says, two tokens into its answer."""
    settings = RelaySettings(buffer_events=buffer_events)
    machine = Relay(settings, streamed=streamed, now=0.0, said=Said(100))
    machine.on_event(Started(10, 4, 0), 0.1)
    return machine


def said(machine: Relay) -> tuple[int, ...]:
    """What it has kept."""
    assert machine.said is not None
    return machine.said.ids


def test_the_stream_goes_on_with_a_mark_between() -> None:
    """Nothing is lost, nothing comes twice, and usage is that of one answer."""
    machine = relay()
    assert machine.on_event(Delta("ab", 2, ids=(1, 2)), 0.2) == [
        Commit(),
        Send((Delta("ab", 2, ids=(1, 2)),)),
    ]
    machine.on_written(0.3)
    machine.on_event(Failed(DIED), 0.4)
    assert said(machine) == (1, 2)
    assert machine.on_restart("runtime_died", 0.5) == []
    assert machine.on_event(Started(12, 9, 1), 0.6) == [Send((MARK,))]
    machine.on_written(0.7)
    assert machine.on_event(Delta("c", 1, ids=(3,)), 0.8) == [Send((Delta("c", 1, ids=(3,)),))]
    machine.on_written(0.9)
    (last,) = machine.on_event(Finished("stop", Usage(12, 9, 1)), 1.0)
    assert last == Send((Finished("stop", Usage(10, 4, 3)),))
    assert machine.on_written(1.1) == [Done()]
    assert said(machine) == (1, 2, 3)


def test_what_a_slow_reader_has_left_unread_comes_first() -> None:
    """It takes of the next attempt's credit, so that what is held stays bounded."""
    machine = relay(buffer_events=4)
    machine.on_event(Delta("a", 1, ids=(1,)), 0.2)
    machine.on_event(Delta("b", 1, ids=(2,)), 0.3)
    assert machine.on_restart("runtime_died", 0.4) == []
    assert machine.room == 3
    machine.on_events((Started(12, 9, 1), Delta("c", 1, ids=(3,))), 0.5)
    assert machine.on_written(0.6) == [
        Send((Delta("b", 1, ids=(2,)), MARK, Delta("c", 1, ids=(3,)))),
        Grant(2),
    ]


def test_credit_is_never_more_than_the_buffer() -> None:
    """What was read of the old attempt, and not granted yet, is in the new one's beginning."""
    machine = relay(buffer_events=8)
    machine.on_event(Delta("a", 1, ids=(1,)), 0.2)
    machine.on_written(0.3)
    machine.on_restart("node_lost", 0.4)
    assert machine.room == 8
    grants = []
    for token in (2, 3, 4, 5):
        effects = machine.on_event(Delta("x", 1, ids=(token,)), 0.6) + machine.on_written(0.7)
        grants += [effect for effect in effects if isinstance(effect, Grant)]
    assert grants == [Grant(4)]


def test_a_collected_answer_goes_on_as_well() -> None:
    """One body, without a mark in it."""
    machine = relay(streamed=False)
    machine.on_event(Delta("ab", 2, ids=(1, 2)), 0.2)
    assert machine.on_restart("runtime_died", 0.5) == []
    machine.on_event(Delta("c", 1, ids=(3,)), 0.6)
    effects = machine.on_event(Finished("length", Usage(12, 0, 1)), 0.7)
    assert effects == [Commit(), Send((Delta("abc", 3), Finished("length", Usage(10, 4, 3))))]


def test_a_node_that_refuses_to_go_on_leaves_no_mark() -> None:
    """Two dispatches, one of which begins: one mark."""
    machine = relay()
    machine.on_event(Delta("ab", 2, ids=(1, 2)), 0.2)
    machine.on_written(0.3)
    machine.on_event(Failed(DIED), 0.4)
    assert machine.on_restart("runtime_died", 0.5) == []
    assert machine.on_restart("runtime_died", 0.6) == []
    assert machine.on_event(Started(12, 9, 1), 0.7) == [Send((MARK,))]


def test_two_deaths_make_one_answer() -> None:
    """The second seam is as good as the first."""
    machine = relay()
    for at, token in enumerate((1, 2, 3)):
        machine.on_event(Delta("x", 1, ids=(token,)), at + 0.1)
        machine.on_written(at + 0.2)
        machine.on_restart("node_lost", at + 0.3)
        machine.on_event(Started(10 + token, 0, 0), at + 0.4)
        machine.on_written(at + 0.5)
    (last,) = machine.on_event(Finished("stop", Usage(13, 0, 4)), 9.0)
    assert last == Send((Finished("stop", Usage(10, 4, 7)),))


def test_a_gap_in_what_was_said_is_never_gone_on_with() -> None:
    """Whoever tried it would contradict, or repeat, what the client has."""
    machine = relay()
    machine.on_event(Delta("a", 1), 0.2)
    with pytest.raises(AssertionError, match="not known what was said"):
        machine.on_restart("runtime_died", 0.5)


def test_before_the_first_text_everything_begins_anew() -> None:
    """An ordinary retry, whatever the request allows."""
    machine = relay()
    assert machine.on_restart("runtime_died", 0.5) == []
    machine.on_event(Started(10, 0, 0), 0.6)
    assert machine.whole(Usage(10, 0, 5)) == Usage(10, 0, 5)
