"""Sessions of the worker API: reservations, eviction, replacement, and that nothing is lost."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import ModelId, TenantId
from roost.core.request import Message
from roost.core.snapshots import ModelOffer
from roost.node.worker.table import WorkerLimits, WorkerSession, WorkerTable

ME, YOU = TenantId("key:me"), TenantId("key:you")
MODEL = ModelId("m")
OFFER = ModelOffer(MODEL, 2, ctx=100, kv_token_bytes=10)
LIMITS = WorkerLimits(3, 1000, 2000, 50, idle_s=300.0, lifetime_s=1000.0, young_s=10.0)


def made(table: WorkerTable, name: str, tokens: int, now: float, owner: TenantId = ME) -> None:
    """Create a session with so many tokens in it."""
    session = table.create(owner, name, OFFER, now)
    assert isinstance(session, WorkerSession)
    assert table.prefilled(session, session.turns("hi"), tokens, 20) == tokens
    table.settle(session, now)


def begun(got: WorkerSession | str) -> WorkerSession:
    """Say that this is no denial."""
    assert isinstance(got, WorkerSession), got
    return got


def loose(table: WorkerTable) -> list[WorkerSession]:
    """Take all whose KV is to be forgotten."""
    return list(iter(table.take_loose, None))


def test_a_failed_continue_gives_back_what_it_had_reserved() -> None:
    """The budget is taken at once and returned whole; the session is as it was."""
    table = WorkerTable(LIMITS)
    made(table, "a", 30, 0.0)
    session = begun(table.resume(ME, "a", MODEL, 1.0))
    assert session.kv_bytes == 500
    assert table.resume(ME, "a", MODEL, 1.0) == "session_busy"
    table.settle(session, 2.0)
    assert (session.kv_bytes, session.tokens, session.messages) == (
        *(300, 30, (Message("user", "hi"),)),
    )


def test_a_failed_create_leaves_nothing() -> None:
    """What was never prefilled is gone, and its KV is to be forgotten."""
    table = WorkerTable(LIMITS)
    session = begun(table.create(ME, "a", OFFER, 0.0))
    table.settle(session, 1.0)
    assert table.get(ME, "a") is None
    assert (table.take_loose(), table.take_loose()) == (session, None)


def test_budgets() -> None:
    """Context, KV of a session, and KV of all: each has its own word."""
    table = WorkerTable(LIMITS)
    made(table, "a", 50, 0.0)
    assert table.resume(ME, "a", MODEL, 1.0) == "session_full"
    assert table.resume(ME, "a", ModelId("x"), 1.0) == "model_mismatch"
    assert table.resume(YOU, "a", MODEL, 1.0) == "session_gone", "another's does not exist"
    small = WorkerTable(msgspec.structs.replace(LIMITS, session_kv_bytes=9))
    assert small.create(ME, "a", OFFER, 0.0) == "session_kv_cache_too_large"
    bound = WorkerTable(msgspec.structs.replace(LIMITS, session_kv_bytes=200))
    session = begun(bound.create(ME, "a", OFFER, 0.0))
    assert (bound.budget(session), bound.is_bound_by_kv(session)) == (20, True)
    tight = WorkerTable(msgspec.structs.replace(LIMITS, kv_bytes=900))
    made(tight, "a", 45, 0.0)
    assert tight.create(ME, "b", OFFER, 5.0) == "total_kv_cache_exceeded", "a is too young to go"
    begun(tight.create(ME, "b", OFFER, 20.0))
    assert tight.get(ME, "a") is None, "the least recently used has made room"


def test_a_decode_takes_no_more_than_its_prefill_allows() -> None:
    """The smaller of the two limits is what is reserved for the answer."""
    for asked, reserved in ((500, 20), (5, 5)):
        table = WorkerTable(LIMITS)
        made(table, "a", 10, 0.0)
        assert begun(table.decode(ME, "a", asked, 1.0)).kv_bytes == (10 + reserved) * 10


def test_nobody_goes_for_a_session_that_does_not_fit_even_so() -> None:
    """Whether there is room is known before anybody is evicted."""
    table = WorkerTable(msgspec.structs.replace(LIMITS, sessions_max=2, kv_bytes=900))
    made(table, "old", 1, 0.0)
    made(table, "large", 45, 95.0)
    assert table.create(ME, "new", OFFER, 100.0) == "total_kv_cache_exceeded"
    assert [one.name for one in table] == ["old", "large"]
    assert loose(table) == []
    begun(table.create(ME, "new", OFFER, 110.0))
    assert [one.name for one in loose(table)] == ["old", "large"]


def test_who_is_busy_is_never_evicted() -> None:
    """However old and however great the pressure."""
    table = WorkerTable(msgspec.structs.replace(LIMITS, sessions_max=1))
    made(table, "a", 10, 0.0)
    session = begun(table.decode(ME, "a", 5, 1.0))
    assert table.create(ME, "b", OFFER, 9000.0) == "max_sessions_exceeded"
    assert table.sweep(9000.0) == 0
    table.settle(session, 9001.0)
    assert table.sweep(9001.0) == 1, "its lifetime is over"


def test_a_session_ends_after_a_while_without_use() -> None:
    """Idle for too long, and not a moment before."""
    table = WorkerTable(LIMITS)
    made(table, "a", 10, 0.0)
    assert table.sweep(299.0) == 0
    assert table.sweep(300.0) == 1
    assert [one.name for one in loose(table)] == ["a"]


def test_replaced_in_mid_work() -> None:
    """The old one's work counts for nothing, and ends without touching the new one."""
    table = WorkerTable(LIMITS)
    old = begun(table.create(ME, "a", OFFER, 0.0))
    new = begun(table.create(ME, "a", OFFER, 1.0))
    assert table.prefilled(old, (Message("user", "x"),), 5, 5) is None
    table.settle(old, 2.0)
    assert table.get(ME, "a") is new
    assert loose(table) == [old]
    assert old.tenant != new.tenant


def test_what_was_said_makes_the_next_turn() -> None:
    """Answers stand between prompts; prompts without an answer become one message."""
    table = WorkerTable(LIMITS)
    made(table, "a", 5, 0.0)
    session = begun(table.decode(ME, "a", 5, 1.0))
    assert session.turns("more") == (Message("user", "hi\n\nmore"),)
    table.spoke(session, "yes", 2, (7, 8))
    assert (session.answer_state, session.tokens) == ("open", 7)
    table.settle(session, 2.0)
    assert [m.role for m in session.turns("more")] == ["user", "assistant", "user"]
    begun(table.decode(ME, "a", 5, 3.0))
    table.spoke(session, "!", 1, ())
    table.settle(session, 4.0)
    assert table.decode(ME, "a", 5, 5.0) == "nothing_to_decode", "its ids are not known"


def ask(table: WorkerTable, step: str, name: str, now: float) -> WorkerSession | str:
    """Begin one of the three things that a session can be busy with."""
    if step == "create":
        return table.create(ME, name, OFFER, now)
    if step == "resume":
        return table.resume(ME, name, MODEL, now)
    return table.decode(ME, name, 10, now)


STEP = st.tuples(
    st.sampled_from(["create", "resume", "decode", "finish", "fail", "remove", "sweep"]),
    st.sampled_from("abcd"),
    st.integers(0, 60),
)


class World:
    """A table, whoever is at work in it, and all that were and ended."""

    def __init__(self) -> None:
        self.table = WorkerTable(LIMITS)
        self.working: dict[str, WorkerSession] = {}
        self.seen: set[int] = set()
        self.loose: list[int] = []

    def take(self, step: str, name: str, amount: int, now: float) -> None:
        """Let something happen."""
        if step in ("create", "resume", "decode"):
            self._begin(ask(self.table, step, name, now), now)
        elif step in ("finish", "fail"):
            self._finish(name, amount if step == "finish" else None, now)
        elif step == "remove":
            self.table.remove(ME, name)
        else:
            self.table.sweep(now)
        self.loose += [one.number for one in loose(self.table)]

    def _begin(self, got: WorkerSession | str, now: float) -> None:
        if isinstance(got, str):
            return
        old = self.working.get(got.name)
        if old is not None:
            self.table.settle(old, now)
        self.working[got.name] = got
        self.seen.add(got.number)

    def _finish(self, name: str, tokens: int | None, now: float) -> None:
        session = self.working.pop(name, None)
        if session is None:
            return
        if tokens is not None:
            self.table.prefilled(session, session.turns("x"), min(tokens, 50), 10)
        self.table.settle(session, now)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_limits_hold_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    """Bytes and sessions stay in limits, busy ones stay, and each that ended is loose once."""
    world, now = World(), 0.0
    for step, name, amount in steps:
        now += amount
        world.take(step, name, amount, now)
        alive = list(world.table)
        assert len(alive) <= LIMITS.sessions_max
        assert sum(one.kv_bytes for one in alive) <= LIMITS.kv_bytes
        assert all(s.gone or world.table.get(ME, s.name) is s for s in world.working.values())
    assert len(world.loose) == len(set(world.loose))
    known = {one.number for one in (*world.working.values(), *world.table)}
    assert world.seen == set(world.loose) | known
