"""The ledger: what fits, who would go, when, and who never does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import RuntimeId
from roost.node.models.ledger import Ledger, Room, RoomSettings

A, B, C = RuntimeId("a"), RuntimeId("b"), RuntimeId("c")


def _ledger(max_runtimes: int = 0, max_bytes: int = 0, min_resident_s: float = 5.0) -> Ledger:
    return Ledger(RoomSettings(max_runtimes, max_bytes, min_resident_s))


def _resident(ledger: Ledger, runtime: RuntimeId, need_bytes: int, now: float) -> None:
    """A load of no time."""
    ledger.enter(runtime, need_bytes, now)
    ledger.settled(runtime, now)


def test_without_limits_everything_fits() -> None:
    """0 is no limit, neither of number nor of bytes."""
    ledger = _ledger()
    for number in range(100):
        ledger.enter(RuntimeId(str(number)), 10**12, 0.0)
    assert ledger.room(10**12, (), 0.0) == Room()


def test_the_least_recently_used_of_the_idle_goes() -> None:
    """Use counts, not age; who is pinned stays, whatever its use."""
    ledger = _ledger(max_runtimes=2)
    _resident(ledger, A, 0, 0.0)
    _resident(ledger, B, 0, 1.0)
    assert ledger.room(0, (), 10.0) == Room("", (A,))
    ledger.used(A, 11.0)
    assert ledger.room(0, (), 12.0) == Room("", (B,))
    assert ledger.room(0, (B,), 12.0) == Room("", (A,))
    assert ledger.room(0, (A, B), 12.0) == Room("busy")


def test_a_load_is_never_called_off_for_another() -> None:
    """A runtime that is still loading is not ready to go."""
    ledger = _ledger(max_runtimes=1)
    ledger.enter(A, 0, 0.0)
    assert ledger.room(0, (), 100.0) == Room("busy")
    assert ledger.resident_s(A, 100.0) is None
    assert ledger.evict_in_s(A, 100.0) is None


def test_a_runtime_stays_at_least_as_long_as_its_load_took() -> None:
    """The setting is the least; after a slow load the while is longer."""
    ledger = _ledger(max_runtimes=1)
    ledger.enter(A, 0, 0.0)
    ledger.settled(A, 20.0)
    assert ledger.evict_in_s(A, 21.0) == 19.0
    assert ledger.room(0, (), 21.0) == Room("young", (A,), 40.0)
    assert ledger.room(0, (), 40.0) == Room("", (A,))
    assert (ledger.resident_s(A, 21.0), ledger.idle_s(A, 21.0)) == (1.0, 1.0)


def test_what_is_on_its_way_out_is_waited_for() -> None:
    """Nobody else has to go where the room that becomes free is enough."""
    ledger = _ledger(max_runtimes=2)
    _resident(ledger, A, 0, 0.0)
    _resident(ledger, B, 0, 0.0)
    ledger.leaving(A)
    assert ledger.room(0, (), 10.0) == Room("leaving")
    assert ledger.evict_in_s(A, 10.0) is None
    ledger.leave(A)
    assert ledger.room(0, (), 10.0) == Room()


def test_bytes_decide_who_goes_and_nobody_goes_in_vain() -> None:
    """A small one that is used least is spared where a large one has to go anyway."""
    ledger = _ledger(max_bytes=100)
    _resident(ledger, A, 10, 0.0)
    _resident(ledger, B, 80, 1.0)
    assert ledger.room(10, (), 10.0) == Room()
    assert ledger.room(15, (), 10.0) == Room("", (A,))
    assert ledger.room(50, (), 10.0) == Room("", (B,))
    assert ledger.room(95, (), 10.0) == Room("", (A, B))
    assert ledger.room(101, (), 10.0) == Room("too_large")
    assert not ledger.fits_alone(101)


def test_unknown_runtimes_are_ignored() -> None:
    """Reports about what is gone change nothing."""
    ledger = _ledger(max_runtimes=1)
    ledger.used(C, 1.0)
    ledger.leaving(C)
    ledger.leave(C)
    assert ledger.idle_s(C, 1.0) is None
    assert ledger.room(0, (), 1.0) == Room()


RESIDENTS = st.lists(
    st.tuples(st.integers(0, 60), st.booleans(), st.booleans(), st.floats(0, 20)), max_size=6
)


@given(residents=RESIDENTS, need_bytes=st.integers(0, 120), most=st.integers(0, 4))
def test_whoever_goes_was_free_to_and_it_is_enough(
    residents: list[tuple[int, bool, bool, float]], need_bytes: int, most: int
) -> None:
    """Whatever is resident: who goes is idle, ready and old enough, and then the next one fits."""
    ledger, pinned, old = _ledger(most, 100), set(), set()
    for number, (size, busy, leaving, ready_s) in enumerate(residents):
        name = RuntimeId(str(number))
        _resident(ledger, name, size, ready_s)
        if busy:
            pinned.add(name)
        if leaving:
            ledger.leaving(name)
        elif not busy and ready_s + 5.0 <= 20.0:
            old.add(name)
    room = ledger.room(need_bytes, pinned, 20.0)
    if room.why == "":
        assert set(room.evict) <= old
        for name in room.evict:
            ledger.leave(name)
        # Others may have been on their way out already.
        assert ledger.room(need_bytes, pinned, 20.0) in (Room(), Room("leaving"))
    else:
        assert not (room.evict and room.at_s is None)
