"""Who makes room for what is put aside, in memory and on disk: nobody, where it would not do."""

from __future__ import annotations

import msgspec

from roost.backends.base import SavedState
from roost.core.ids import ModelId, RuntimeId, SessionId, TenantId
from roost.node.effects import Demote, Effect, Forget, Park
from roost.node.slots import Content, pack
from roost.node.states.parked import Kept
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions

RUNTIME = RuntimeId("m#1")
KIN = "k"
LIMITS = SessionSettings(ram_bytes=1000, disk_bytes=0, tokens_min=4)


def content(tokens: int) -> Content:
    """A slot with so many tokens, all of them known."""
    return Content(0, TenantId("t"), pack(range(tokens)), tokens)


def with_parked(
    count: int, limits: SessionSettings = LIMITS, tokens: int = 99
) -> tuple[Sessions, list[Effect]]:
    """So many of these are in memory, at a byte a token; and what has come of it."""
    sessions, effects = Sessions(limits), list[Effect]()
    sessions.on_states(RUNTIME, 1, KIN)
    for at_s in range(1, count + 1):
        effects += put(sessions, tokens, float(at_s))
    return sessions, effects


def put(sessions: Sessions, tokens: int, now: float) -> list[Effect]:
    """Put one more aside; what has come of that."""
    effects = sessions.park(RUNTIME, content(tokens), now)
    for effect in effects:
        if isinstance(effect, Park):
            saved = SavedState(tokens, tokens)
            effects = [*effects, *sessions.on_parked(effect.session, saved, now)]
    return effects


def named(sessions: Sessions) -> list[int]:
    """Who is put aside, the longest unused first."""
    return [one.session for one in sessions]


def kept(session: int, size_bytes: int, *, pinned: bool = False) -> Kept:
    """One that an earlier life has left on disk."""
    known = pack(range(session, session + 4))
    saved = SavedState(4, size_bytes)
    return Kept(SessionId(session), KIN, TenantId("t"), known, saved, 10.0, pinned, ModelId("m"))


def test_what_fits_nowhere_drives_nobody_out() -> None:
    """A slot that is larger than the whole memory is lost, and nothing else is."""
    sessions, _ = with_parked(3)
    assert put(sessions, 2000, 9.0) == []
    assert named(sessions) == [1, 2, 3]
    assert sessions.forgotten == 0


def test_who_is_pinned_is_room_that_cannot_be_had() -> None:
    """Those who may go are not let go of where they alone are too few."""
    sessions, _ = with_parked(3, tokens=300)
    for one in list(sessions)[:2]:
        sessions.pin(one, pinned=True)
    assert put(sessions, 450, 9.0) == []
    assert named(sessions) == [1, 2, 3]
    assert Forget(RUNTIME, SessionId(3)) in put(sessions, 350, 9.0)
    assert named(sessions) == [1, 2, 4]


def test_what_is_on_disk_as_well_is_room_however_it_is_pinned() -> None:
    """Its bytes in memory can be had, and it is still there afterwards."""
    limits = msgspec.structs.replace(LIMITS, disk_bytes=1000, persistence="disk")
    sessions, effects = with_parked(1, limits, tokens=400)
    demoted = next(effect for effect in effects if isinstance(effect, Demote))
    sessions.on_demoted(demoted.session, ok=True, now=2.0)
    (one,) = sessions
    sessions.pin(one, pinned=True)
    assert one.is_shadowed
    assert Park(RUNTIME, 0, SessionId(2)) in put(sessions, 900, 3.0)
    assert (one.ram_bytes, one.disk_bytes) == (0, 400)
    assert next(iter(sessions)) is one


def test_a_copy_that_fits_nowhere_drives_no_copy_out() -> None:
    """A beginning that others still read is room that cannot be had for the next one."""
    sessions, _ = with_parked(1)
    for tokens in (300, 100):
        (written,) = sessions.seed(RUNTIME, content(tokens), 2.0)
        assert isinstance(written, Park)
        sessions.on_seeded(written.session, SavedState(tokens, tokens))
    first = next(iter(sessions.seeds))
    sessions.seeds.take(first, 3.0)
    assert sessions.seed(RUNTIME, content(250), 4.0) == []
    assert [one.session for one in sessions.seeds] == [3, 2]
    assert named(sessions) == [1]


def test_the_disk_is_not_emptied_for_what_it_cannot_hold() -> None:
    """Beside one that is pinned there is room for a small one, and not for a large one instead."""
    limits = msgspec.structs.replace(LIMITS, disk_bytes=1000, persistence="disk")
    sessions = Sessions(limits)
    sessions.on_kept([kept(1, 900, pinned=True), kept(2, 50)], 0.0)
    sessions.on_states(RUNTIME, 1, KIN)
    assert put(sessions, 200, 1.0) == [Park(RUNTIME, 0, SessionId(3))]
    for _ in range(3):
        assert sessions.tidy(2.0) == []
    assert named(sessions) == [1, 2, 3]
    effects = put(sessions, 80, 3.0)
    assert Forget(RUNTIME, SessionId(2)) in effects
    assert [e.session for e in effects if isinstance(e, Demote)] == [4]
