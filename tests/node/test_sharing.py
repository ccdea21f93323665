"""Sharing: a beginning that several prompts have in common is computed once, through an agent."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import SavedState, SlotUse
from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, StreamEvent, Usage
from roost.core.ids import SessionId, TenantId
from roost.errors import Failure
from roost.node.effects import Effect, Forget, Load, Park, Prepare, Restore, Run, Send, Stop, Unload
from roost.node.settings import AgentSettings
from roost.node.states.session_settings import SessionSettings
from tests.node.kit import FIRST, MODEL, Node, key, offer, reason_of

TOKEN_BYTES = 100
LIMITS = SessionSettings(
    ram_bytes=100_000, disk_bytes=0, tokens_min=4, shared_tokens_min=8, shared_wait_s=30.0
)
BEGINNING = tuple(range(100, 120))
SEED = SessionId(1)
SAVED = SavedState(22, 2200)


def node(
    limits: SessionSettings = LIMITS, *, slots: int = 4, copies: bool = True, opened: int = 3
) -> Node:
    """A node with a runtime, and streams that wait to be prepared."""
    made = Node(AgentSettings("tiny", sessions=limits, max_in_flight=9), offer(MODEL, slots=slots))
    for stream in range(1, opened + 1):
        made.open(stream)
    if copies:
        made.take(made.agent.on_states(FIRST, TOKEN_BYTES, made.now))
    made.loaded()
    return made


def prompt(stream: int) -> tuple[int, ...]:
    """What a stream asks: the common beginning, and something of its own."""
    return (*BEGINNING, stream, stream)


def come(node: Node, *streams: int) -> list[Effect]:
    """These have been prepared."""
    return [effect for stream in streams for effect in node.prepared(stream, *prompt(stream))]


def computed(node: Node, stream: int, cached: int = 0) -> list[Effect]:
    """A stream has computed its prompt: what follows, but for what is sent."""
    slot = running(node)[stream].slot
    total = len(prompt(stream))
    events = Started(total, cached, slot), PrefillProgress(total, total)
    return [one for one in node.event(stream, *events) if not isinstance(one, Send)]


def running(node: Node) -> dict[int, SlotUse]:
    """Who was last given which slot."""
    return {effect.key.stream: effect.use for effect in node.all if isinstance(effect, Run)}


def copied(node: Node, saved: SavedState | None = SAVED) -> list[Effect]:
    """The slot of the leader was written, or could not be."""
    node.take(node.agent.on_parked(FIRST, SEED, saved, node.now))
    return node.fresh()


def restored(node: Node, effect: Effect, *, ok: bool = True) -> list[Effect]:
    """A slot was filled, or not."""
    assert isinstance(effect, Restore)
    node.take(node.agent.on_restored(effect, ok, node.now))
    return node.fresh()


def answer(node: Node, stream: int, cached: int) -> None:
    """A stream runs to its end."""
    slot = running(node)[stream].slot
    total = len(prompt(stream))
    events: tuple[StreamEvent, ...] = (
        Started(total, cached, slot),
        PrefillProgress(total, total),
        Delta("a"),
        Finished("stop", Usage(total, cached, 1)),
    )
    node.event(stream, *events)
    node.closed(stream)


def test_a_common_beginning_is_computed_once() -> None:
    """The first computes it, steps back, is copied and goes on; the others begin with the copy."""
    one = node()
    (run,) = come(one, 1)
    assert isinstance(run, Run)
    assert come(one, 2, 3) == []
    assert computed(one, 1) == [Stop(key(1))]
    assert one.closed(1) == [Park(FIRST, 0, SEED, shared=True)]
    again, second, third = copied(one)
    assert isinstance(again, Run)
    assert (again.key, again.use) == (key(1), SlotUse(0, reuse=True))
    assert isinstance(second, Restore)
    assert isinstance(third, Restore)
    assert (second.slot, third.slot) == (1, 2)
    (run,) = restored(one, third)
    assert isinstance(run, Run)
    assert (run.key, run.use) == (key(3), SlotUse(2, reuse=True))
    (run,) = restored(one, second)
    assert isinstance(run, Run)
    assert (run.key, run.use) == (key(2), SlotUse(1, reuse=True))
    for stream in (1, 2, 3):
        answer(one, stream, cached=20)
    assert one.is_at_rest()


def test_everybody_is_told_what_was_computed_for_it() -> None:
    """Who computed the beginning has had nothing of it, however often it ran; and says so once."""
    one = node()
    come(one, 1, 2)
    computed(one, 1)
    assert one.event(1, Delta("lost")) == []
    one.closed(1)
    copied(one)
    answer(one, 1, cached=21)
    events = one.events(1)
    assert events[0] == Started(22, 0, 0)
    assert events[1:] == [Delta("a"), Finished("stop", Usage(22, 0, 1))]
    assert one.agent.status().sessions.ram_bytes == SAVED.size_bytes


def test_a_beginning_is_found_by_those_who_come_later() -> None:
    """While the others still run, and after them: the copy stays, and is used by any number."""
    one = node()
    come(one, 1, 2)
    computed(one, 1)
    one.closed(1)
    _, restore = copied(one)
    restored(one, restore)
    (restore,) = come(one, 3)
    assert isinstance(restore, Restore)
    assert restore.session == SEED
    (run,) = restored(one, restore)
    assert isinstance(run, Run)
    for stream in (1, 2, 3):
        answer(one, stream, cached=20)
    one.tick(LIMITS.idle_s + 1)
    assert Forget(FIRST, SEED) in one.all
    assert one.agent.status().sessions.ram_bytes == 0


def test_whom_nobody_follows_runs_through() -> None:
    """One request alone, or one that shares too little, is neither stopped nor waited for."""
    one = node()
    come(one, 1)
    (run,) = one.prepared(2, *BEGINNING[:7], *range(15))
    assert isinstance(run, Run)
    assert computed(one, 1) == []
    answer(one, 2, cached=0)
    assert not [effect for effect in one.all if isinstance(effect, Stop | Park)]


def test_a_second_one_that_computes_it_is_copied_for_others_to_come() -> None:
    """Who comes when the first is through computes the same again, and nobody does a third time."""
    one = node()
    come(one, 1)
    computed(one, 1)
    (run,) = come(one, 2)
    assert isinstance(run, Run)
    assert computed(one, 2) == [Stop(key(2))]
    assert one.closed(2) == [Park(FIRST, 1, SEED, shared=True)]
    (run,) = copied(one)
    assert isinstance(run, Run)
    (restore,) = come(one, 3)
    assert isinstance(restore, Restore)


def test_others_pass_those_who_are_held() -> None:
    """Somebody with another prompt, or of another tenant, takes a slot at once."""
    one = node(opened=2)
    come(one, 1, 2)
    one.open(3)
    one.open(4, tenant="other")
    (run,) = one.prepared(3, *range(30))
    assert isinstance(run, Run)
    (run,) = one.prepared(4, *prompt(4))
    assert isinstance(run, Run)
    assert run.use == SlotUse(2, reuse=False)


def test_another_tenant_sees_nothing_of_a_copy() -> None:
    """Neither while it is made nor later: the same prompt is computed from its first token."""
    one = node(opened=2)
    come(one, 1, 2)
    computed(one, 1)
    one.closed(1)
    _, restore = copied(one)
    restored(one, restore)
    one.open(3, tenant="other")
    (run,) = one.prepared(3, *prompt(1))
    assert isinstance(run, Run)
    assert run.use == SlotUse(2, reuse=False)


def test_nobody_is_held_for_ever() -> None:
    """A leader that takes too long is waited for no longer, by nobody who has waited before."""
    one = node(slots=2)
    come(one, 1, 2)
    assert one.agent.next_tick() is not None
    one.event(1, Started(22, 0, 0))
    one.tick(29.0)
    assert 2 not in running(one)
    for _ in range(3):
        one.event(1, PrefillProgress(1, 22))
        one.tick(0.5)
    assert running(one)[2] == SlotUse(1, reuse=False)


@pytest.mark.parametrize("progress", [0, 15])
def test_the_next_leads_when_a_leader_leaves(progress: int) -> None:
    """Its slot is taken by the first who followed, with what is in it; the others follow that."""
    one = node()
    come(one, 1, 2, 3)
    one.event(1, Started(22, 0, 0), PrefillProgress(progress, 22))
    one.cancel(1)
    (run, *_) = [effect for effect in one.closed(1) if isinstance(effect, Run)]
    assert isinstance(run, Run)
    assert run.key == key(2)
    assert 3 not in running(one)
    assert computed(one, 2, cached=progress) == [Stop(key(2))]
    one.closed(2)
    effects = copied(one)
    assert [type(effect) for effect in effects] == [Run, Restore]


def test_a_leader_that_leaves_while_it_is_copied_leaves_the_copy() -> None:
    """The others begin with it all the same."""
    one = node()
    come(one, 1, 2, 3)
    computed(one, 1)
    one.closed(1)
    one.cancel(1)
    assert 2 not in running(one)
    effects = copied(one)
    seated = [effect for effect in effects if isinstance(effect, Run | Restore)]
    # The first of them finds the whole beginning in the slot that was left.
    assert [type(effect) for effect in seated] == [Run, Restore]


def test_a_copy_that_fails_costs_the_sharing_alone() -> None:
    """The leader goes on where it was, and the others compute for themselves: none waits again."""
    one = node()
    come(one, 1, 2, 3)
    computed(one, 1)
    one.closed(1)
    runs = [effect for effect in copied(one, None) if isinstance(effect, Run)]
    assert [(run.key.stream, run.use.slot) for run in runs] == [(1, 0), (2, 1), (3, 2)]
    assert one.agent.status().sessions.failures == 1


def test_a_spoilt_copy_costs_a_prefill() -> None:
    """Who found it spoilt computes for itself, and the file is gone."""
    one = node()
    come(one, 1, 2)
    computed(one, 1)
    one.closed(1)
    _, restore = copied(one)
    forget, run = restored(one, restore, ok=False)
    assert forget == Forget(FIRST, SEED)
    assert isinstance(run, Run)
    assert run.use == SlotUse(1, reuse=False)


def test_a_copy_that_is_read_is_not_forgotten() -> None:
    """A tenant that is forgotten meanwhile loses it when the last slot has been filled."""
    one = node()
    come(one, 1, 2, 3)
    computed(one, 1)
    one.closed(1)
    _, second, third = copied(one)
    one.take(one.agent.on_forget(TenantId("t"), one.now))
    assert Forget(FIRST, SEED) not in one.fresh()
    assert Forget(FIRST, SEED) not in restored(one, second)
    assert Forget(FIRST, SEED) in restored(one, third)


def test_what_does_not_fit_is_not_copied() -> None:
    """Without room for a copy nobody is stopped for one; the slot itself is waited for."""
    small = msgspec.structs.replace(LIMITS, ram_bytes=3000)
    one = node(small)
    come(one, 1, 2)
    assert computed(one, 1) == []
    assert 2 not in running(one)
    one.event(1, Delta("a"), Finished("stop", Usage(22, 0, 1)))
    one.closed(1)
    assert running(one)[2] == SlotUse(0, reuse=True)


def test_copies_stay_within_their_share_of_the_memory() -> None:
    """The least recently used goes when there is no room for the next."""
    small = msgspec.structs.replace(LIMITS, ram_bytes=6000)
    one = node(small, opened=4)
    come(one, 1, 2)
    computed(one, 1)
    one.closed(1)
    _, restore = copied(one)
    restored(one, restore)
    for stream in (1, 2):
        answer(one, stream, cached=20)
    for stream in (3, 4):
        one.prepared(stream, *range(200, 220), stream, stream)
    assert computed(one, 3) == [Stop(key(3))]
    forget, park = one.closed(3)
    assert forget == Forget(FIRST, SEED)
    assert isinstance(park, Park)


def test_where_slots_cannot_be_copied_the_slot_itself_is_waited_for() -> None:
    """One after another, as long as that may pay; then each for itself."""
    one = node(copies=False)
    come(one, 1, 2, 3)
    answer(one, 1, cached=0)
    assert running(one)[2] == SlotUse(0, reuse=True)
    assert 3 not in running(one)
    one.event(2, Started(22, 20, 0))
    one.tick(29.0)
    for _ in range(3):
        one.event(2, Delta("a"))
        one.tick(0.5)
    assert running(one)[3].slot == 1


def test_a_model_that_cannot_go_back_is_not_waited_for() -> None:
    """Who finds far less in its slot than was put there ends all waiting on that runtime."""
    one = node(opened=4)
    come(one, 1, 2)
    computed(one, 1)
    one.closed(1)
    _, restore = copied(one)
    restored(one, restore)
    one.event(2, Started(22, 1, 1))
    one.prepared(3, *range(200, 220))
    (run,) = one.prepared(4, *range(200, 220))
    assert isinstance(run, Run)


def test_it_can_be_turned_off() -> None:
    """With no time to wait everybody computes."""
    one = node(msgspec.structs.replace(LIMITS, shared_wait_s=0.0))
    assert [type(effect) for effect in come(one, 1, 2, 3)] == [Run] * 3
    assert computed(one, 1) == []


def test_a_runtime_that_dies_takes_nobody_with_it() -> None:
    """Those who were held wait for the next one; who had begun has failed."""
    one = node()
    come(one, 1, 2, 3)
    computed(one, 1)
    effects = one.gone()
    assert any(isinstance(effect, Load) for effect in effects)
    assert isinstance(one.events(1)[-1], Failed)
    one.closed(1, Failure("runtime_died", "gone"))
    prepares = [effect for effect in one.loaded("m#2") if isinstance(effect, Prepare)]
    assert [effect.key for effect in prepares] == [key(2), key(3)]


def test_a_failure_while_it_steps_back_is_its_end() -> None:
    """What the backend says then is told; a slot that does not become free costs the runtime."""
    one = node()
    come(one, 1, 2)
    computed(one, 1)
    one.event(1, Failed(Failure("runtime_error", "out of memory")))
    assert isinstance(one.events(1)[-1], Failed)
    one.closed(1)
    assert 2 in running(one)
    other = node(opened=2)
    come(other, 1, 2)
    computed(other, 1)
    other.closed(1, Failure("runtime_error", "the slot is stuck"))
    assert isinstance(other.events(1)[-1], Failed)
    assert Unload(FIRST) in other.all
    assert 2 not in running(other)


def test_who_is_refused_while_it_is_held_is_gone() -> None:
    """A client that leaves is waited for by nobody, and a deadline ends a wait."""
    one = node(opened=2)
    one.open(3, deadline_s=5.0)
    come(one, 1, 2, 3)
    one.cancel(2)
    one.event(1, Started(22, 0, 0))
    one.tick(5.0)
    assert reason_of(one.said(3)[-2]) == "deadline"
    assert computed(one, 1) == []
    answer(one, 1, cached=0)
    assert one.is_at_rest()
