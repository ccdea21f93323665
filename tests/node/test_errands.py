"""What operators may do with states: each word, what waits, how long, and what is never moved."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.ids import SessionId
from roost.core.state_views import StateResult, StateView, StateWish
from roost.node.effects import Demote, Effect, Forget, Mark, Park, Promote, Send
from roost.node.errands import (
    BUSY,
    CANNOT,
    FULL,
    IN_A_SLOT,
    LOST,
    NO_DISK,
    NO_ROOM,
    OPEN_MAX,
    slot_name,
)
from roost.node.errands import UNKNOWN as NO_STATE
from roost.node.states.session_settings import SessionSettings
from roost.wire.messages import StateOrder, StatesTold
from tests.node import test_seating as seating
from tests.node.kit import FIRST, LINK, MODEL, Node
from tests.node.test_lending import ANOTHER, LONG, lent, put_aside
from tests.node.test_lending import node as lending
from tests.node.test_outliving import (
    ALICE,
    BOB,
    DISK,
    KIN,
    MEMORY,
    SAVED,
    demoted,
    end,
    found,
    kept,
    load,
    node,
    parked,
    ready,
    replace,
)
from tests.node.test_seating import restored

SLOT = slot_name(FIRST, 0)


def order(
    node: Node, what: StateWish, *states: str, wait_s: float = 0.0, job: str = "j"
) -> list[Effect]:
    """An operator asks; what is done besides answering."""
    asked = StateOrder(job, what, states, wait_s)
    node.take(node.agent.on_state_order(LINK, asked, node.now))
    return [effect for effect in node.fresh() if not isinstance(effect, Send)]


def told(node: Node, job: str = "j") -> StatesTold | None:
    """What the operator has heard of it."""
    sends = [e.message for e in node.all if isinstance(e, Send)]
    return next((m for m in sends if isinstance(m, StatesTold) and m.job == job), None)


def result(node: Node, job: str = "j") -> StateResult:
    """What has come of the only state of an order."""
    answer = told(node, job)
    assert answer is not None, "it has been answered"
    (only,) = answer.results
    return only


def views(node: Node) -> dict[str, StateView]:
    """Everything that the node tells of."""
    order(node, "list", job="list")
    answer = told(node, "list")
    assert answer is not None
    node.all.clear()
    return {view.id: view for view in answer.states}


def aside(limits: SessionSettings = MEMORY) -> Node:
    """A node with Alice's session put aside, and Bob's in the slot."""
    one = ready(limits)
    one.open(2, tenant="b")
    effects = parked(one, one.prepared(2, *BOB)[0])
    for effect in effects:
        if isinstance(effect, Demote):
            demoted(one, effect)
    end(one, 2)
    return one


def test_everything_is_listed_without_a_word_of_it() -> None:
    """Slots and files, with what is known of each; what nobody has measured is None."""
    one = aside()
    one.now += 10.0
    listed = views(one)
    assert listed == {
        SLOT: StateView(SLOT, MODEL, "slot", "ready", listed[SLOT].tenant, 8),
        "st_1": StateView(
            *("st_1", MODEL, "ram", "ready", listed["st_1"].tenant, 8, 800),
            idle_s=10.0,
            expires_in_s=MEMORY.idle_s - 10.0,
        ),
    }
    one.gone()
    assert not views(one)["st_1"].reusable


def test_a_slot_is_saved_and_left_empty() -> None:
    """It is in a file then, and nowhere else; the answer comes when it is."""
    one = ready(MEMORY)
    (park,) = order(one, "save", SLOT)
    assert told(one) is None
    parked(one, park)
    assert result(one) == StateResult(SLOT)
    assert list(views(one)) == ["st_1"]
    order(one, "save", "st_1", job="again")
    assert result(one, "again").failure is None, "what is in a file already is saved"


def test_a_slot_in_use_is_waited_for_and_never_moved() -> None:
    """The save waits until the stream has left, and others are served meanwhile."""
    one = node(MEMORY, slots=2)
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    assert order(one, "save", SLOT, wait_s=5.0) == []
    one.open(2, tenant="b")
    assert one.prepared(2, *BOB), "the other slot is nobody else's business"
    end(one, 2)
    assert told(one) is None
    (park,) = (effect for effect in end(one, 1) if isinstance(effect, Park))
    assert park.slot == 0
    parked(one, park)
    assert result(one).failure is None


def test_the_wait_is_bounded() -> None:
    """After that it is refused, and nothing comes of it any more."""
    one = node(MEMORY)
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    order(one, "save", SLOT, wait_s=5.0)
    due = one.agent.next_tick()
    assert due is not None
    assert due <= one.now + 5.0
    one.tick(5.0)
    assert result(one).failure == BUSY
    assert [effect for effect in end(one, 1) if isinstance(effect, Park)] == []


def test_who_comes_meanwhile_goes_first() -> None:
    """A waiting save does not hold up the line: the next stream takes the slot as ever."""
    one = node(MEMORY)
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    order(one, "save", SLOT, wait_s=5.0)
    one.open(2, tenant="a")
    assert one.prepared(2, *ALICE, 20) == []
    end(one, 1)
    assert one.agent.status().runtimes[0].slots[0].busy, "the second one runs there"
    assert told(one) is None


@pytest.mark.parametrize("saved", [False, True])
def test_what_is_erased_is_in_no_copy_either(*, saved: bool) -> None:
    """A slot was copied for somebody who began like it."""
    one = lending(3)
    seating.serve(one, 1, LONG)
    seating.serve(one, 2, ANOTHER)
    (copy,) = [effect for effect in one.all if isinstance(effect, Park)]
    assert copy.shared
    state = SLOT
    if saved:
        (park,) = order(one, "save", SLOT)
        assert isinstance(park, Park)
        seating.parked(one, park)
        state = f"st_{park.session}"
    assert Forget(FIRST, copy.session) in order(one, "erase", state)


def test_erasing_is_at_once_and_for_good() -> None:
    """A file goes, a slot counts as empty; the next turn computes everything."""
    one = aside()
    assert order(one, "erase", "st_1", SLOT) == [Forget(FIRST, SessionId(1))]
    answer = told(one)
    assert answer is not None
    assert [one.failure for one in answer.results] == [None, None]
    assert views(one) == {}
    one.open(3, tenant="b")
    (run,) = one.prepared(3, *BOB, 20)
    assert not run.use.reuse  # type: ignore[union-attr]


def test_a_pin_is_kept_with_the_state() -> None:
    """On disk at once where it is there, and with the copy where that comes later."""
    one = aside(DISK)
    assert order(one, "pin", "st_1") == [Mark(SessionId(1), pinned=True)]
    assert views(one)["st_1"].pinned
    assert order(one, "unpin", "st_1") == [Mark(SessionId(1), pinned=False)]
    one = aside()
    assert order(one, "pin", "st_1") == []
    (demote,) = order(one, "demote", "st_1", job="d")
    assert isinstance(demote, Demote)
    assert demote.pinned
    order(one, "pin", SLOT, job="s")
    assert result(one, "s").failure == IN_A_SLOT


def test_a_file_leaves_memory_and_comes_back() -> None:
    """Demoted it is on disk alone, promoted in both; each answer comes when that is so."""
    one = aside()
    (demote,) = order(one, "demote", "st_1")
    assert told(one) is None
    assert demoted(one, demote) == [Forget(FIRST, SessionId(1), "ram"), *sent_last(one)]
    assert result(one).failure is None
    assert views(one)["st_1"].tier == "disk"
    (promote,) = order(one, "promote", "st_1", job="p")
    assert isinstance(promote, Promote)
    assert (promote.saved, promote.kin) == (SAVED, KIN)
    assert views(one)["st_1"].status == "moving"
    one.take(one.agent.on_promoted(promote.session, True, one.now))
    assert result(one, "p").failure is None if told(one, "p") else True
    assert views(one)["st_1"].tier == "ram"
    assert order(one, "demote", "st_1", job="again") == [Forget(FIRST, SessionId(1), "ram")]


def sent_last(node: Node) -> list[Effect]:
    """The answer that was sent last."""
    return [next(e for e in reversed(node.all) if isinstance(e, Send))]


def test_what_is_lent_leaves_memory_once_it_was_read() -> None:
    """Its operator waits for that, and is not told that it was lost."""
    one = put_aside()
    restore = lent(one, 3)
    assert order(one, "demote", f"st_{restore.session}", wait_s=9.0) == []
    (demote,) = [effect for effect in restored(one, restore) if isinstance(effect, Demote)]
    assert demote.session == restore.session
    one.take(one.agent.on_demoted(demote.session, True, one.now))
    assert Forget(FIRST, restore.session, "ram") in one.fresh()
    assert result(one).failure is None


def test_what_is_spoilt_on_its_way_is_gone_and_told() -> None:
    """A file that is not as it was written is no state any more."""
    one = aside()
    demoted(one, order(one, "demote", "st_1")[0])
    (promote,) = order(one, "promote", "st_1", job="p")
    assert isinstance(promote, Promote)
    one.take(one.agent.on_promoted(promote.session, False, one.now))
    assert result(one, "p").failure == LOST
    assert "st_1" not in views(one)
    one = aside()
    demoted(one, order(one, "demote", "st_1", job="d")[0], ok=False)
    assert result(one, "d").failure == LOST
    assert views(one)["st_1"].tier == "ram"


@pytest.mark.parametrize(
    ("what", "state", "limits", "failure"),
    [
        ("save", "sl_0", MEMORY, NO_STATE),
        ("erase", "st_9", MEMORY, NO_STATE),
        ("pin", "../../etc", MEMORY, NO_STATE),
        ("demote", "st_1", replace(MEMORY, disk_bytes=0), NO_DISK),
        ("demote", "st_1", replace(MEMORY, disk_bytes=100), NO_ROOM),
    ],
)
def test_what_cannot_be_done_is_said(
    what: StateWish, state: str, limits: SessionSettings, failure: object
) -> None:
    """With the reason, and at once."""
    one = aside(limits)
    assert order(one, what, state) == []
    assert result(one).failure == failure


def test_a_runtime_without_states_saves_nothing() -> None:
    """Its slots can be erased, and that is all."""
    one = node(MEMORY)
    one.open(1, tenant="a")
    one.loaded()
    one.prepared(1, *ALICE)
    end(one, 1)
    order(one, "save", SLOT)
    assert result(one).failure == CANNOT
    order(one, "erase", SLOT, job="e")
    assert result(one, "e").failure is None


def test_memory_that_is_taken_is_not_taken_from_others() -> None:
    """A promotion needs room that is free."""
    one = node(replace(DISK, ram_bytes=1000))
    found(one, kept(1))
    order(one, "promote", "st_1")
    assert result(one).failure == NO_ROOM


def test_what_moves_when_its_runtime_dies_is_not_lost() -> None:
    """A promotion has nothing to do with a runtime; neither has what nobody can read now."""
    one = aside()
    demoted(one, order(one, "demote", "st_1")[0])
    (promote,) = order(one, "promote", "st_1", job="p")
    assert isinstance(promote, Promote)
    one.gone()
    one.take(one.agent.on_promoted(promote.session, True, one.now))
    assert views(one)["st_1"].tier == "ram"


def test_an_erased_tenant_is_not_promoted() -> None:
    """Who is forgotten while his file is read is forgotten when it has been."""
    one = aside()
    demoted(one, order(one, "demote", "st_1")[0])
    (promote,) = order(one, "promote", "st_1", job="p")
    assert isinstance(promote, Promote)
    tenant = views(one)["st_1"].tenant
    one.take(one.agent.on_forget(tenant, one.now))
    one.fresh()
    one.take(one.agent.on_promoted(promote.session, True, one.now))
    assert any(isinstance(effect, Forget) for effect in one.fresh())
    assert "st_1" not in views(one)


def test_orders_are_few_at_a_time() -> None:
    """More than that are refused."""
    one = node(MEMORY)
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    for number in range(OPEN_MAX):
        order(one, "save", SLOT, wait_s=60.0, job=f"j{number}")
    order(one, "save", SLOT, wait_s=60.0, job="more")
    assert result(one, "more").failure == FULL


def test_nobody_is_told_who_has_left() -> None:
    """The link is gone: what was begun goes on, and nothing is said."""
    one = ready(MEMORY)
    (park,) = order(one, "save", SLOT)
    one.take(one.agent.on_link_down(LINK, one.now))
    one.fresh()
    parked(one, park)
    assert told(one) is None
    assert msgspec.structs.asdict(one.agent.status().sessions)["ram"] == 1


def test_what_waits_goes_with_the_link_that_asked_for_it() -> None:
    """A gateway that comes after it finds every place free, and nothing is erased behind its back.

    The order of another link goes on.
    """
    one = node(MEMORY)
    one.take(one.agent.on_link_up(LINK + 1, one.now))
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    asked = StateOrder("other", "save", (SLOT,), 60.0)
    one.take(one.agent.on_state_order(LINK + 1, asked, one.now))
    for number in range(1, OPEN_MAX):
        order(one, "erase", SLOT, wait_s=60.0, job=f"j{number}")
    one.take(one.agent.on_link_down(LINK, one.now))
    one.take(one.agent.on_link_up(LINK + 2, one.now))
    for number in range(1, OPEN_MAX):
        asked = StateOrder(f"n{number}", "save", (SLOT,), 60.0)
        one.take(one.agent.on_state_order(LINK + 2, asked, one.now))
    assert told(one, f"n{OPEN_MAX - 1}") is None, "it waits, and was not refused"
    one.fresh()
    (park,) = [effect for effect in one.closed(1) if isinstance(effect, Park)]
    parked(one, park)
    assert result(one, "other").failure is None
    assert told(one, "j1") is None
