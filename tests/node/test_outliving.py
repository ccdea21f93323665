"""What outlives its runtime, and its node: who finds it again, who does not, and when it goes."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import SavedState
from roost.core.ids import ModelId, RuntimeId, SessionId, TenantId
from roost.node.effects import Demote, Effect, Forget, Load, Park, Restore, Run, Unload
from roost.node.models.ledger import RoomSettings
from roost.node.settings import AgentSettings
from roost.node.slots import pack
from roost.node.states.parked import Kept
from roost.node.states.session_settings import SessionSettings
from tests.node.kit import ANSWER, FIRST, MODEL, OTHER, Node, offer

replace = msgspec.structs.replace
ALICE = (1, 2, 3, 4, 5, 6)
BOB = (7, 8, 9, 10, 11, 12)
KIN = "same model, same build"
SAVED = SavedState(8, 800)
MEMORY = SessionSettings(
    ram_bytes=100_000, disk_bytes=100_000, tokens_min=4, persistence="memory", idle_s=1000.0
)
DISK = replace(MEMORY, persistence="disk")
ONE_AT_A_TIME = RoomSettings(max_runtimes=1, min_resident_s=0.0)


def node(limits: SessionSettings, slots: int = 1) -> Node:
    """A node of two models, one of which may be resident at a time."""
    settings = AgentSettings("tiny", sessions=limits, max_in_flight=9, room=ONE_AT_A_TIME)
    return Node(settings, offer(MODEL, slots), offer(OTHER, slots))


def load(node: Node, runtime: str, kin: str = KIN) -> list[Effect]:
    """A runtime is up, and can put aside what its slots hold."""
    node.take(node.agent.on_states(RuntimeId(runtime), 100, node.now, kin))
    return node.loaded(runtime)


def ready(limits: SessionSettings, slots: int = 1) -> Node:
    """A node whose first runtime has answered Alice and, where there are two slots, Bob."""
    made = node(limits, slots)
    made.open(1, tenant="a")
    load(made, "m#1")
    answer(made, 1, ALICE)
    if slots > 1:
        made.open(2, tenant="b")
        answer(made, 2, BOB)
    return made


def answer(node: Node, stream: int, tokens: tuple[int, ...]) -> None:
    """A stream runs to its end."""
    (run,) = node.prepared(stream, *tokens)
    assert isinstance(run, Run)
    end(node, stream)


def end(node: Node, stream: int) -> list[Effect]:
    """A stream has said all."""
    node.event(stream, *ANSWER)
    return node.closed(stream)


def parked(node: Node, effect: Effect, saved: SavedState | None = SAVED) -> list[Effect]:
    """A slot was written, or could not be."""
    assert isinstance(effect, Park)
    node.take(node.agent.on_parked(effect.runtime, effect.session, saved, node.now))
    return node.fresh()


def demoted(node: Node, effect: Effect, *, ok: bool = True) -> list[Effect]:
    """A file was copied to disk, or could not be."""
    assert isinstance(effect, Demote)
    node.take(node.agent.on_demoted(effect.session, ok, node.now))
    return node.fresh()


def wanted(node: Node, stream: int, model: ModelId, tenant: str = "t") -> list[Effect]:
    """Ask for a model that has to be loaded; what is done about runtimes."""
    effects = node.open(stream, model=model, tenant=tenant)
    return [effect for effect in effects if isinstance(effect, Park | Unload | Load)]


def swap(node: Node, kin: str = KIN) -> Effect:
    """Evict the first model for another, bring it back; what Alice's next turn begins with."""
    (park,) = wanted(node, 8, OTHER)
    (unload,) = parked(node, park)
    assert unload == Unload(FIRST)
    (other,) = node.gone()
    assert isinstance(other, Load)
    load(node, other.runtime, "another model")
    answer(node, 8, BOB)
    (park,) = wanted(node, 9, MODEL, "a")
    parked(node, park)
    (again,) = node.gone(other.runtime)
    assert isinstance(again, Load)
    load(node, again.runtime, kin)
    return node.prepared(9, *ALICE, 20)[0]


def test_a_model_that_comes_back_has_its_conversations() -> None:
    """Its idle slots are put aside before it goes, and the next runtime of its kin reads them."""
    one = ready(MEMORY)
    restore = swap(one)
    assert isinstance(restore, Restore)
    assert (restore.runtime, restore.session, restore.kin) == ("m#3", 1, KIN)
    one.take(one.agent.on_restored(restore, True, one.now))
    assert one.agent.status().sessions.restores == 1


def test_another_kin_reads_nothing_of_it() -> None:
    """Another build of the same model computes, and what is of no living one is told."""
    one = ready(MEMORY)
    run = swap(one, "same model, another build")
    assert isinstance(run, Run)
    assert not run.use.reuse
    sessions = one.agent.status().sessions
    assert (sessions.ram, sessions.dormant) == (2, 2)


def test_nothing_outlives_what_is_ephemeral() -> None:
    """The runtime goes at once, and all that was put aside with it."""
    one = ready(replace(MEMORY, persistence="ephemeral"))
    one.open(2, tenant="b")
    (park,) = one.prepared(2, *BOB)
    parked(one, park)
    end(one, 2)
    assert wanted(one, 8, OTHER) == [Unload(FIRST)]
    assert one.gone()[0] == Forget(FIRST, SessionId(1))
    assert one.agent.status().sessions.ram == 0


def test_a_slot_that_cannot_be_written_is_not_tried_for_ever() -> None:
    """Once: then the runtime goes without."""
    one = ready(MEMORY)
    (park,) = wanted(one, 8, OTHER)
    forget, unload = parked(one, park, None)
    assert isinstance(forget, Forget)
    assert unload == Unload(FIRST)


def test_a_death_costs_what_was_being_read() -> None:
    """The file may have been the cause; what lay beside it is for the next runtime."""
    one = ready(MEMORY)
    for stream, tokens, tenant in ((2, BOB, "b"), (3, ALICE[::-1], "c")):
        one.open(stream, tenant=tenant)
        (park,) = one.prepared(stream, *tokens)
        parked(one, park)
        end(one, stream)
    one.open(4, tenant="a")
    (park,) = one.prepared(4, *ALICE, 20)
    (restore,) = parked(one, park)
    assert isinstance(restore, Restore)
    effects = one.gone()
    assert [e for e in effects if isinstance(e, Forget)] == [Forget(FIRST, SessionId(1))]
    assert one.agent.status().sessions.dormant == 2


def test_what_is_to_outlive_the_node_is_on_disk_soon() -> None:
    """A copy is made while there is room in memory, and both are there; either alone is enough."""
    one = ready(DISK)
    one.open(2, tenant="b")
    (park,) = one.prepared(2, *BOB)
    effects = parked(one, park)
    demote = next(effect for effect in effects if isinstance(effect, Demote))
    assert (demote.tenant, demote.kin, demote.known) == ("a", KIN, pack(ALICE))
    assert demoted(one, demote) == []
    sessions = one.agent.status().sessions
    assert (sessions.ram, sessions.ram_bytes, sessions.disk_bytes) == (1, 800, 800)


def test_memory_is_freed_of_what_is_on_disk_first() -> None:
    """For want of room nothing is lost that has a copy."""
    one = ready(replace(DISK, ram_bytes=2000))
    one.open(2, tenant="b")
    (park,) = one.prepared(2, *BOB)
    demote = next(effect for effect in parked(one, park) if isinstance(effect, Demote))
    demoted(one, demote)
    end(one, 2)
    one.open(3, tenant="c")
    effects = parked(one, one.prepared(3, *ALICE[::-1])[0])
    assert Forget(FIRST, SessionId(1), "ram") in effects
    assert one.agent.status().sessions.forgotten == 0


def test_a_node_that_ends_leaves_everything_on_disk() -> None:
    """Idle slots are written, then copied, one after another; only then is it over."""
    one = ready(DISK, slots=2)
    one.take(one.agent.on_drain(one.now))
    first, second = one.fresh()
    one.take(one.agent.on_shutdown(one.now))
    assert one.fresh() == [], "no runtime is stopped under what is being written"
    (copy,) = parked(one, first)
    assert one.agent.statistics().writing == 2
    (unload,) = parked(one, second)
    assert unload == Unload(FIRST)
    one.gone()
    assert one.agent.statistics().runtimes == 0
    (other,) = demoted(one, copy)
    assert demoted(one, other) == []
    assert one.agent.statistics().writing == 0
    assert one.agent.status().sessions.disk_bytes == 1600


def test_what_runs_while_a_node_drains_is_put_aside_when_it_ends() -> None:
    """A slot is written as soon as its stream has left it."""
    one = node(DISK)
    one.open(1, tenant="a")
    load(one, "m#1")
    one.prepared(1, *ALICE)
    one.take(one.agent.on_drain(one.now))
    assert one.fresh() == []
    (park,) = (effect for effect in end(one, 1) if isinstance(effect, Park))
    assert park.slot == 0


@pytest.mark.parametrize("is_asked_twice", [False, True])
def test_an_end_takes_a_bounded_time(is_asked_twice: bool) -> None:
    """After that time, or a second signal, no further copy is begun."""
    one = ready(replace(DISK, close_s=5.0), slots=2)
    one.take(one.agent.on_drain(one.now))
    parks = one.fresh()
    one.take(one.agent.on_shutdown(one.now))
    (copy,) = parked(one, parks[0])
    parked(one, parks[1])
    if is_asked_twice:
        one.take(one.agent.on_shutdown(one.now))
    else:
        one.now += 5.0
    one.fresh()
    assert demoted(one, copy) == []
    assert one.agent.statistics().writing == 0


def test_a_disk_that_fails_does_not_hold_up_the_end() -> None:
    """It is left alone, and the node ends."""
    one = ready(DISK)
    one.take(one.agent.on_drain(one.now))
    (park,) = one.fresh()
    one.take(one.agent.on_shutdown(one.now))
    copy = next(effect for effect in parked(one, park) if isinstance(effect, Demote))
    demoted(one, copy, ok=False)
    assert one.agent.statistics().writing == 0


def kept(number: int, age_s: float = 10.0, *, kin: str = KIN, pinned: bool = False) -> Kept:
    """A session of Alice's on disk."""
    tokens = (number, *ALICE)
    saved = SavedState(len(tokens), 800)
    return Kept(SessionId(number), kin, TenantId("a"), pack(tokens), saved, age_s, pinned=pinned)


def found(node: Node, *sessions: Kept) -> list[Effect]:
    """An earlier life has left these."""
    node.take(node.agent.on_kept(sessions, node.now))
    return node.fresh()


def test_a_node_that_begins_finds_what_it_has_left() -> None:
    """The first turn of a conversation is read from disk, and new files get new names."""
    one = node(DISK)
    assert found(one, kept(7)) == []
    assert one.agent.status().sessions.dormant == 1
    one.open(1, tenant="a")
    load(one, "m#1")
    (restore,) = one.prepared(1, 7, *ALICE, 20)
    assert isinstance(restore, Restore)
    assert (restore.session, restore.tier, restore.saved.tokens) == (7, "disk", 7)
    one.take(one.agent.on_restored(restore, True, one.now))
    assert Forget(FIRST, SessionId(7)) in one.effects
    end(one, 1)
    one.open(2, tenant="b")
    park = one.prepared(2, *BOB)[0]
    assert isinstance(park, Park)
    assert park.session == 8


def test_another_tenant_finds_nothing() -> None:
    """What one has left is no other's, whatever the prompt."""
    one = node(DISK)
    found(one, kept(7))
    one.open(1, tenant="b")
    load(one, "m#1")
    (run,) = one.prepared(1, 7, *ALICE, 20)
    assert isinstance(run, Run)


def test_what_is_too_much_or_too_old_goes() -> None:
    """Of too many, the longest unused go; a pin helps against that, and not against age."""
    one = node(replace(DISK, parked_max=2, idle_s=100.0))
    sessions = [kept(number, age_s=50.0 - number, pinned=number == 1) for number in (1, 2, 3)]
    assert found(one, *sessions) == [Forget(RuntimeId(""), SessionId(2))]
    assert one.agent.status().sessions.disk == 2
    assert Forget(RuntimeId(""), SessionId(1)) in one.tick(60.0)
    assert one.agent.status().sessions.disk == 0


def test_a_pin_outlasts_want_of_room() -> None:
    """With everything pinned nothing more is put aside, and nothing pinned goes."""
    one = node(replace(DISK, disk_bytes=1600, parked_max=2))
    found(one, kept(1, pinned=True), kept(2, pinned=True))
    one.open(1, tenant="b")
    load(one, "m#1")
    answer(one, 1, BOB)
    one.open(2, tenant="c")
    (run,) = one.prepared(2, *ALICE[::-1])
    assert isinstance(run, Run)
    assert one.agent.status().sessions.disk == 2
