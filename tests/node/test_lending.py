"""What an idle slot or a file begins with is copied for another prompt, not computed again."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import Prepared, SavedState, SlotUse
from roost.core.events import Started
from roost.core.ids import SessionId, TenantId
from roost.node.effects import Demote, Effect, Forget, Park, Restore, Run
from roost.node.floor.seating import Seating
from roost.node.floor.writes import Writes
from roost.node.settings import AgentSettings
from roost.node.slots import Content, pack
from roost.node.states.parked import LOOKS, Parked, nearest
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions
from roost.node.stream import Stream
from tests.node.kit import ANSWER, FIRST, MODEL, Node, key, offer, open_message, request
from tests.node.test_seating import LIMITS, TOKEN_BYTES, answer, end, parked, restored, serve, turn

BEGINNING = tuple(range(100, 110))
LONG = (*BEGINNING, *range(200, 230))
"""A conversation of which less than half is what others begin with, too."""
ANOTHER = (*BEGINNING, 1, 2, 3)
STRANGER = tuple(range(300, 320))
SHARED = msgspec.structs.replace(LIMITS, shared_tokens_min=8)


def node(slots: int, limits: SessionSettings = SHARED) -> Node:
    """A node whose one runtime has so many slots, whose content can be put aside and copied."""
    made = Node(AgentSettings("tiny", sessions=limits, max_in_flight=9), offer(MODEL, slots))
    made.take(made.agent.on_states(FIRST, TOKEN_BYTES, made.now))
    return made


def ran(effects: list[Effect]) -> Run:
    """The only run of these."""
    (run,) = [effect for effect in effects if isinstance(effect, Run)]
    return run


def put_aside() -> Node:
    """A node with one slot, which a stranger has; the long conversation is in memory."""
    one = node(1)
    serve(one, 1, LONG)
    serve(one, 2, STRANGER)
    return one


def lent(one: Node, stream: int, tokens: tuple[int, ...] = ANOTHER) -> Restore:
    """Bring a stream to where its slot is filled from a copy."""
    (park,) = turn(one, stream, tokens)
    assert isinstance(park, Park)
    (restore,) = parked(one, park, SavedState(20, 2000))
    assert isinstance(restore, Restore)
    return restore


def test_what_is_put_aside_is_lent_to_another_prompt() -> None:
    """The slot is filled from its file, which stays for the conversation that it is."""
    one = put_aside()
    restore = lent(one, 3)
    assert restore.copies
    assert ran(restored(one, restore)).use == SlotUse(0, reuse=True)
    end(one, 3)
    (park,) = turn(one, 4, (*LONG, 4, 5))
    assert isinstance(park, Park)
    (back,) = parked(one, park)
    assert isinstance(back, Restore)
    assert back.session == restore.session
    assert not back.copies
    assert restored(one, back)[0] == Forget(FIRST, back.session)


def test_an_idle_slot_is_copied_for_another_prompt() -> None:
    """It goes on with what it holds, and whoever comes next finds the copy."""
    one = node(3)
    serve(one, 1, LONG)
    (park,) = turn(one, 2, ANOTHER)
    assert park == Park(FIRST, 0, SessionId(1), shared=True)
    (restore,) = parked(one, park)
    assert isinstance(restore, Restore)
    assert (restore.slot, restore.copies) == (1, True)
    assert ran(restored(one, restore)).use == SlotUse(1, reuse=True)
    (again,) = turn(one, 3, (*BEGINNING, 7, 8, 9))
    assert isinstance(again, Restore)
    assert (again.slot, again.session) == (2, restore.session)
    assert ran(turn(one, 4, (*LONG, 4, 5))).use == SlotUse(0, reuse=True)


def test_whoever_wants_a_slot_waits_until_it_is_written() -> None:
    """Its own conversation, and another prompt with its beginning; a stranger does not wait."""
    one = node(4)
    serve(one, 1, LONG)
    (park,) = turn(one, 2, ANOTHER)
    assert isinstance(park, Park)
    assert turn(one, 3, (*LONG, 4, 5)) == []
    assert turn(one, 4, (*BEGINNING, 7, 8, 9)) == []
    assert ran(turn(one, 5, STRANGER)).use.slot == 1
    effects = parked(one, park)
    assert ran(effects).key == key(3)
    assert ran(effects).use == SlotUse(0, reuse=True)
    assert [effect.slot for effect in effects if isinstance(effect, Restore)] == [2, 3]


def test_nobody_waits_for_what_will_not_be_lent() -> None:
    """Where nothing is copied, only a conversation's own next turn waits until it is in a file."""
    one = node(2, msgspec.structs.replace(SHARED, shared_wait_s=0.0))
    serve(one, 1, LONG)
    serve(one, 2, STRANGER)
    (park,) = turn(one, 3, STRANGER[::-1])
    assert isinstance(park, Park)
    effects = turn(one, 4, ANOTHER)
    assert [type(effect) for effect in effects] == [Park]
    answer(one, effects)
    end(one, 4)
    assert turn(one, 5, (*LONG, 4, 5)) == []


def test_nobody_waits_for_a_slot_twice() -> None:
    """If it cannot be written, the stream computes, and the slot is as it was."""
    one = node(2)
    serve(one, 1, LONG)
    (park,) = turn(one, 2, ANOTHER)
    assert isinstance(park, Park)
    one.take(one.agent.on_parked(FIRST, park.session, None, one.now))
    forget, run = one.fresh()
    assert forget == Forget(FIRST, park.session)
    assert isinstance(run, Run)
    assert run.use == SlotUse(1, reuse=False)
    end(one, 2)
    assert ran(turn(one, 3, (*LONG, 4))).use == SlotUse(0, reuse=True)


def test_who_leaves_while_a_slot_is_written_leaves_it_free() -> None:
    """And the copy is there for others."""
    one = node(2)
    serve(one, 1, LONG)
    (park,) = turn(one, 2, ANOTHER)
    assert isinstance(park, Park)
    one.cancel(2)
    assert parked(one, park) == []
    assert one.is_at_rest()
    (restore,) = turn(one, 3, ANOTHER)
    assert isinstance(restore, Restore)


def test_nothing_is_lent_to_another_tenant() -> None:
    """Neither from a slot nor from a file."""
    one = node(2)
    serve(one, 1, LONG, "alice")
    assert ran(turn(one, 2, ANOTHER, "mallory")).use == SlotUse(1, reuse=False)
    two = put_aside()
    (park,) = turn(two, 3, ANOTHER, "mallory")
    assert isinstance(park, Park)
    assert not ran(parked(two, park)).use.reuse


def test_little_is_computed_rather_than_copied() -> None:
    """A beginning under the limit is not worth the moves."""
    one = node(2)
    serve(one, 1, LONG)
    assert ran(turn(one, 2, (*BEGINNING[:7], 1, 2))).use == SlotUse(1, reuse=False)


def test_a_model_that_cannot_go_back_is_lent_nothing() -> None:
    """Once a copy was of no use, whoever comes computes."""
    one = put_aside()
    long = (*BEGINNING, *range(400, 430))
    assert ran(restored(one, lent(one, 3, long))).use.reuse
    one.event(3, Started(len(long), 0, 0), *ANSWER[1:])
    one.closed(3)
    serve(one, 4, STRANGER)
    (park,) = turn(one, 5, ANOTHER)
    assert isinstance(park, Park)
    assert [type(effect) for effect in parked(one, park)] == [Run]


def test_who_returns_while_it_is_lent_has_it_and_the_file_stays_for_the_reader() -> None:
    """It is read twice at once, and goes with the last of them."""
    one = node(2)
    serve(one, 1, LONG)
    for stream, tenant in ((2, "u"), (3, "v")):
        serve(one, stream, STRANGER, tenant)
    (park,) = turn(one, 4, ANOTHER)
    assert isinstance(park, Park)
    (copy,) = parked(one, park)
    assert isinstance(copy, Restore)
    assert copy.copies
    (park,) = turn(one, 5, (*LONG, 4, 5))
    assert isinstance(park, Park)
    (whole,) = parked(one, park)
    assert isinstance(whole, Restore)
    assert (whole.session, whole.copies) == (copy.session, False)
    assert [type(effect) for effect in restored(one, whole)] == [Run]
    assert restored(one, copy)[0] == Forget(FIRST, copy.session)


def test_what_another_prompt_would_cut_short_is_lent_and_not_moved() -> None:
    """However much of a conversation is its beginning, it is whole for its own next turn."""
    one = node(1)
    mine = (*LONG[:10], *range(200, 208))
    serve(one, 1, mine)
    serve(one, 2, STRANGER)
    restore = lent(one, 3)
    assert restore.copies
    restored(one, restore)
    end(one, 3)
    (park,) = turn(one, 4, (*mine, 4, 5))
    (back,) = [effect for effect in answer(one, [park]) if isinstance(effect, Restore)]
    assert (back.session, back.copies) == (restore.session, False)


def test_what_could_not_be_lent_once_is_kept_for_its_own() -> None:
    """No other prompt asks for it any more; its conversation does."""
    one = put_aside()
    restore = lent(one, 3)
    assert not ran(restored(one, restore, ok=False)).use.reuse
    end(one, 3)
    (park,) = turn(one, 4, (*BEGINNING, 8, 9))
    assert isinstance(park, Park)
    effects = parked(one, park)
    assert restore.session not in [e.session for e in effects if isinstance(e, Restore)]
    end(one, 4)
    (park,) = turn(one, 5, (*LONG, 4, 5))
    (back,) = [e for e in answer(one, [park]) if isinstance(e, Restore)]
    assert back.session == restore.session


def test_what_is_lent_is_not_forgotten_for_want_of_room() -> None:
    """Neither for another one, nor because it was not used for long; afterwards it may be."""
    one = put_aside()
    restore = lent(one, 3)
    one.tick(2 * LIMITS.idle_s)
    assert Forget(FIRST, restore.session) not in one.fresh()
    assert ran(restored(one, restore)).use.reuse
    assert Forget(FIRST, restore.session) in one.tick(1.0)


def test_a_runtime_that_dies_with_what_it_was_lent_has_it_forgotten() -> None:
    """It may be what has ended it."""
    one = put_aside()
    restore = lent(one, 3)
    assert Forget(FIRST, restore.session) in one.gone()


def test_what_is_copied_to_disk_meanwhile_stays_for_its_reader() -> None:
    """Its file in memory goes once it has been read, although there is another one by then."""
    sessions = Sessions(msgspec.structs.replace(SHARED, ram_bytes=1500))
    sessions.on_states(FIRST, TOKEN_BYTES)
    (park,) = sessions.park(FIRST, content(1), 0.0)
    assert isinstance(park, Park)
    (demote,) = sessions.on_parked(park.session, SavedState(11, 1100), 0.0)
    assert isinstance(demote, Demote)
    (one,) = sessions
    sessions.lend(one)
    assert sessions.on_demoted(park.session, ok=True, now=1.0) == []
    assert one.to_slot(0, copies=True).tier == "ram"
    assert sessions.on_lent(one, ok=True) == []
    assert sessions.tidy(2.0) == [Forget(FIRST, park.session, "ram")]


@pytest.mark.parametrize("is_whole_back", [True, False])
def test_what_goes_while_it_is_copied_to_disk_stays_for_its_reader(*, is_whole_back: bool) -> None:
    """Its conversation has it again, or an operator erases it; then the disk is done."""
    sessions = Sessions(msgspec.structs.replace(SHARED, ram_bytes=1500))
    sessions.on_states(FIRST, TOKEN_BYTES)
    (park,) = sessions.park(FIRST, content(1), 0.0)
    assert isinstance(park, Park)
    sessions.on_parked(park.session, SavedState(11, 1100), 0.0)
    (one,) = sessions
    sessions.lend(one)
    if is_whole_back:
        sessions.take(one)
        assert sessions.on_restored(park.session, ok=True) == []
    else:
        assert sessions.erase(one) == []
    assert sessions.on_demoted(park.session, ok=True, now=1.0) == []
    assert sessions.on_lent(one, ok=True) == [Forget(FIRST, park.session)]
    assert (sessions.view().ram_bytes, sessions.view().disk_bytes) == (0, 0)


def test_as_many_are_kept_as_may_be_whatever_else_is_written() -> None:
    """The last one that has room stays, and a copy for others is none of them."""
    sessions = Sessions(msgspec.structs.replace(SHARED, parked_max=2))
    sessions.on_states(FIRST, TOKEN_BYTES)
    for number in (1, 2):
        (park,) = sessions.park(FIRST, content(number), 0.0)
        assert isinstance(park, Park)
        assert sessions.on_parked(park.session, SavedState(11, 1100), 0.0) == []
    (seed,) = sessions.seed(FIRST, content(3), 0.0)
    assert isinstance(seed, Park)
    assert sessions.on_seeded(seed.session, SavedState(11, 1100)) == []
    forget, _ = sessions.park(FIRST, content(4), 0.0)
    assert forget == Forget(FIRST, SessionId(1))


def test_no_seed_goes_for_one_that_has_no_room() -> None:
    """Or a slot would be filled from one that has just been forgotten for nothing."""
    sessions = Sessions(msgspec.structs.replace(SHARED, ram_bytes=10_000, disk_bytes=0))
    sessions.on_states(FIRST, TOKEN_BYTES)
    (first,) = sessions.seed(FIRST, content(1), 0.0)
    assert isinstance(first, Park)
    assert sessions.on_seeded(first.session, SavedState(11, 1100)) == []
    (park,) = sessions.park(FIRST, msgspec.structs.replace(content(2), held=80), 0.0)
    assert isinstance(park, Park)
    assert sessions.seed(FIRST, msgspec.structs.replace(content(3), held=45), 1.0) == []
    assert [one.session for one in sessions.seeds] == [first.session]
    sessions.on_parked(park.session, None, 2.0)
    forget, more = sessions.seed(FIRST, msgspec.structs.replace(content(3), held=45), 2.0)
    assert (forget, type(more)) == (Forget(FIRST, first.session), Park)


def seated(slots: int) -> tuple[Seating, Sessions]:
    """Where ten tokens take as long to compute as a hundred to move."""
    sessions = Sessions(SHARED)
    sessions.on_states(FIRST, TOKEN_BYTES)
    seating = Seating(FIRST, slots, sessions)
    seating.worth.on_prefill(100, 100.0)
    seating.worth.on_move(1000, 1.0)
    return seating, sessions


def leave(seating: Seating, slot: int, held: int) -> None:
    """Have a slot hold so many tokens, of which the first are what others begin with."""
    tokens = (*BEGINNING, *range(1000 * slot + 1000, 1000 * slot + 1013))
    seating.slots.seat(slot, pack(tokens), TenantId("t"))
    seating.slots.free(slot, tokens, held)


def comer(number: int) -> Stream:
    """A stream that begins like others."""
    stream = Stream(key(number), open_message(number, tenant="t"), 9, 0.0)
    stream.move("loaded")
    stream.move("prepared")
    stream.prepared = Prepared(request(), (*BEGINNING, number), limit=9)
    return stream


def come(seating: Seating, stream: Stream) -> list[Effect]:
    """It needs a slot."""
    seating.enqueue(stream)
    return seating.step(0.0)


def test_a_large_seed_does_not_hide_a_small_one() -> None:
    """Or a slot would be written for each that comes, and read by nobody."""
    seating, sessions = seated(3)
    (large,) = sessions.seed(FIRST, msgspec.structs.replace(content(1), held=100), 0.0)
    assert isinstance(large, Park)
    sessions.on_seeded(large.session, SavedState(100, 10_000))
    leave(seating, 0, 23)
    (park,) = come(seating, comer(1))
    assert isinstance(park, Park)
    seating.on_parked(park.session, SavedState(23, 2300), 0.0)
    for effects in (seating.step(0.0), come(seating, comer(2))):
        (restore,) = effects
        assert isinstance(restore, Restore)
        assert restore.session == park.session


def test_a_slot_is_not_written_twice_for_others() -> None:
    """Not even if what was written of it turned out to be too large to be read."""
    seating, _ = seated(3)
    leave(seating, 0, 23)
    first = comer(1)
    (park,) = come(seating, first)
    assert isinstance(park, Park)
    seating.on_parked(park.session, SavedState(23, 20_000), 0.0)
    assert ran(seating.step(0.0)).use.slot == 1
    seating.on_closed(first)
    assert [type(effect) for effect in come(seating, comer(2))] == [Run]


def test_of_equal_slots_the_smallest_is_copied() -> None:
    """One that is too large for a seed is no reason to copy none."""
    seating, _ = seated(4)
    for slot, held in enumerate((600, 23, 30)):
        leave(seating, slot, held)
    (park,) = come(seating, comer(1))
    assert isinstance(park, Park)
    assert park.slot == 1


def test_only_the_last_used_are_compared() -> None:
    """However many conversations begin alike, and of equal ones the smallest is read."""
    many = [
        Parked(SessionId(n), FIRST, content(n), 0.0, 9, place="ram", saved=SavedState(9, n))
        for n in range(1, 3 * LOOKS)
    ]
    found = nearest(many, pack(ANOTHER), 8)
    assert found is not None
    assert (found[0].session, found[1]) == (2 * LOOKS, len(BEGINNING))
    assert nearest(many, pack(STRANGER), 8) is None
    assert nearest(many, pack(BEGINNING[:5]), 8) is None


def content(number: int) -> Content:
    """What one of many conversations holds."""
    return Content(0, TenantId("t"), pack((*BEGINNING, number)), 11)


def test_a_stream_that_ends_waits_for_no_write() -> None:
    """Nothing is kept of it."""
    writes = Writes()
    stream = Stream(key(1), open_message(1), 9, 0.0)
    writes.begin(SessionId(1), content(1), 0.0)
    writes.wait(stream, SessionId(1))
    assert stream in writes
    assert not writes.may_wait(stream)
    writes.quit(stream)
    assert stream not in writes
    assert writes.may_wait(stream)
