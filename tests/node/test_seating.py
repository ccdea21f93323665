"""Seating: what is put aside and brought back before a stream runs, through a whole agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import msgspec

from roost.backends.base import Prepared, SavedState, SlotUse
from roost.core.ids import SessionId
from roost.core.snapshots import ModelOffer, SessionsView
from roost.node.effects import Demote, Effect, Forget, Park, Restore, Run, Unload
from roost.node.floor.seating import Seating
from roost.node.settings import AgentSettings
from roost.node.states.parked import NOBODY
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions
from roost.node.states.worth import Worth
from roost.node.stream import Stream
from tests.node.kit import ANSWER, FIRST, MODEL, Node, key, offer, open_message, request

TOKEN_BYTES = 100
LIMITS = SessionSettings(ram_bytes=100_000, disk_bytes=100_000, tokens_min=4)
ONE = SessionId(1)
ALICE = (1, 2, 3, 4, 5, 6)
BOB = (7, 8, 9, 10, 11, 12)
CAROL = (13, 14, 15, 16, 17, 18)


def node(limits: SessionSettings = LIMITS, *offers: ModelOffer) -> Node:
    """A node whose one runtime has one slot, whose content can be put aside."""
    made = Node(
        AgentSettings("tiny", sessions=limits, max_in_flight=9), *offers or (offer(MODEL, 1),)
    )
    made.take(made.agent.on_states(FIRST, TOKEN_BYTES, made.now))
    return made


def turn(node: Node, stream: int, tokens: tuple[int, ...], tenant: str = "t") -> list[Effect]:
    """Bring a stream to the point where something has to be moved, or it runs."""
    if not any(view.state == "ready" for view in node.agent.status().runtimes):
        node.open(stream, tenant=tenant)
        node.loaded()
    else:
        node.open(stream, tenant=tenant)
    return node.prepared(stream, *tokens)


def end(node: Node, stream: int) -> list[Effect]:
    """Let a stream answer and leave."""
    node.event(stream, *ANSWER)
    return node.closed(stream)


def serve(node: Node, stream: int, tokens: tuple[int, ...], tenant: str = "t") -> SlotUse:
    """Serve a whole turn, with every move answered well."""
    effects = turn(node, stream, tokens, tenant)
    while not (runs := [effect for effect in effects if isinstance(effect, Run)]):
        effects = answer(node, effects)
    end(node, stream)
    return runs[0].use


def answer(node: Node, effects: list[Effect]) -> list[Effect]:
    """Answer the move that was asked for."""
    for effect in effects:
        if isinstance(effect, Park):
            return parked(node, effect)
        if isinstance(effect, Restore):
            return restored(node, effect)
    raise AssertionError(f"nothing to be answered in {effects}")


def parked(node: Node, effect: Park, saved: SavedState | None = None) -> list[Effect]:
    """A slot was written."""
    saved = saved or SavedState(8, 8 * TOKEN_BYTES)
    node.take(node.agent.on_parked(effect.runtime, effect.session, saved, node.now))
    return node.fresh()


def restored(node: Node, effect: Restore, *, ok: bool = True) -> list[Effect]:
    """A slot was filled, or not."""
    node.take(node.agent.on_restored(effect, ok, node.now))
    return node.fresh()


def view(node: Node) -> SessionsView:
    """What the node reports of its sessions, beside what they outlive."""
    return msgspec.structs.replace(node.agent.status().sessions, persistence="")


def test_an_idle_conversation_is_put_aside_and_comes_back() -> None:
    """One slot, two conversations: each finds what it had, however often the slot changes."""
    one = node()
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert park == Park(FIRST, 0, ONE)
    (run,) = parked(one, park)
    assert isinstance(run, Run)
    assert run.use == SlotUse(0, reuse=True)
    end(one, 2)
    assert view(one).ram == 1
    (park,) = turn(one, 3, (*ALICE, 20, 21))
    assert isinstance(park, Park)
    (restore,) = parked(one, park)
    assert isinstance(restore, Restore)
    assert (restore.session, restore.tier, restore.saved) == (1, "ram", SavedState(8, 800))
    forget, run = restored(one, restore)
    assert forget == Forget(FIRST, ONE)
    assert isinstance(run, Run)
    assert view(one) == SessionsView(ram=1, ram_bytes=800, parks=2, restores=1)


class Counted(Sequence[int]):
    """A prompt that knows how often it was read."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens
        self.reads = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        self.reads += at == 0
        return self.tokens[at]


def test_a_prompt_is_made_ready_for_slots_once() -> None:
    """However often the line is looked at: of a long one that takes milliseconds each time."""
    sessions = Sessions(LIMITS)
    sessions.on_states(FIRST, TOKEN_BYTES)
    seating = Seating(FIRST, 1, sessions)
    prompts = []
    for stream in (1, 2):
        prompts.append(Counted(*ALICE, stream))
        one = Stream(key(stream), open_message(stream), 9, 0.0)
        one.move("loaded")
        one.move("prepared")
        one.prepared = Prepared(request(), prompts[-1], limit=9)  # type: ignore[arg-type]
        seating.enqueue(one)
    assert [type(effect) for effect in seating.step(0.0)] == [Run]
    for _ in range(5):
        assert seating.step(1.0) == []
    seating.slots.free(0, ALICE)
    assert [type(effect) for effect in seating.step(2.0)] == [Run]
    assert [prompt.reads for prompt in prompts] == [1, 1]


def test_the_slot_is_nobodys_while_it_is_moved() -> None:
    """Reports call it busy, a second stream waits, and the first runs before it."""
    one = node()
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    assert one.agent.status().runtimes[0].slots[0].busy
    assert turn(one, 3, CAROL) == []
    (run,) = parked(one, park)
    assert isinstance(run, Run)
    assert run.key == key(2)


def test_what_goes_on_is_not_moved() -> None:
    """A prompt that continues the slot takes it as it is."""
    one = node()
    serve(one, 1, ALICE)
    (run,) = turn(one, 2, (*ALICE, 30, 31))
    assert isinstance(run, Run)
    assert view(one) == SessionsView()


def test_a_fork_keeps_the_branch_it_leaves() -> None:
    """A prompt that shares most of a slot takes it over, after the rest was put aside."""
    one = node()
    serve(one, 1, (*ALICE, *BOB))
    (park,) = turn(one, 2, (*ALICE, 7, *CAROL))
    assert isinstance(park, Park)
    (run,) = parked(one, park)
    assert isinstance(run, Run)
    assert run.use.reuse


def test_little_is_not_worth_a_file() -> None:
    """Under the limit of tokens a slot is simply taken over, and nothing is brought back."""
    one = node(msgspec.structs.replace(LIMITS, tokens_min=50))
    serve(one, 1, ALICE)
    (run,) = turn(one, 2, BOB)
    assert isinstance(run, Run)
    assert not view(one).parks


def test_nothing_is_put_aside_where_the_runtime_cannot() -> None:
    """Without states everything is as it was before there were sessions."""
    one = Node(AgentSettings("tiny", sessions=LIMITS), offer(MODEL, 1))
    one.serve(1, *ALICE)
    assert one.run(2, *BOB).reuse
    off = node(msgspec.structs.replace(LIMITS, ram_bytes=0))
    serve(off, 1, ALICE)
    assert isinstance(turn(off, 2, BOB)[0], Run)


def test_a_tenant_never_gets_what_another_left() -> None:
    """The same words of somebody else find an empty cache, and leave the file alone."""
    one = node()
    serve(one, 1, ALICE, "alice")
    serve(one, 2, BOB, "bob")
    (park,) = turn(one, 3, (*ALICE, 9), "mallory")
    assert isinstance(park, Park)
    (run,) = parked(one, park)
    assert isinstance(run, Run)
    assert not run.use.reuse
    end(one, 3)
    assert view(one).restores == 0


def test_failures_cost_the_cache_and_nothing_else() -> None:
    """A slot that cannot be written, or filled, serves its stream all the same."""
    one = node()
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    one.take(one.agent.on_parked(FIRST, park.session, None, one.now))
    forget, run = one.fresh()
    assert forget == Forget(FIRST, park.session)
    assert isinstance(run, Run)
    end(one, 2)
    serve(one, 3, CAROL)
    (park,) = turn(one, 4, (*BOB, 9, 9))
    assert isinstance(park, Park)
    (restore,) = parked(one, park)
    assert isinstance(restore, Restore)
    forget, run = restored(one, restore, ok=False)
    assert isinstance(forget, Forget)
    assert isinstance(run, Run)
    assert not run.use.reuse
    end(one, 4)
    assert view(one).failures == 2
    assert one.is_at_rest()


def test_a_client_that_leaves_meanwhile_leaves_a_free_slot() -> None:
    """While its slot is written, and while it is filled; the session stays where it was."""
    one = node()
    serve(one, 1, ALICE)
    serve(one, 2, BOB)
    (park,) = turn(one, 3, (*ALICE, 20))
    assert isinstance(park, Park)
    one.cancel(3)
    assert parked(one, park) == [Forget(FIRST, park.session)]
    assert one.is_at_rest()
    assert view(one).ram == 1
    (park,) = turn(one, 4, (*ALICE, 20))
    assert isinstance(park, Park)
    (restore,) = parked(one, park)
    assert isinstance(restore, Restore)
    one.cancel(4)
    assert restored(one, restore) == [Forget(FIRST, restore.session)]
    assert one.is_at_rest()
    (run,) = turn(one, 5, (*ALICE, 20))
    assert isinstance(run, Run)
    assert run.use.reuse


def test_all_of_a_runtime_goes_with_it() -> None:
    """A death while a slot is moved: the stream waits for the next runtime, files are forgotten."""
    one = node()
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    one.gone()
    assert view(one).ram == 0
    late = parked(one, park)
    assert late == [Forget(NOBODY, park.session)], "a file that came too late is nobody's"
    assert one.agent.statistics().runtimes == 1


def test_a_retired_runtime_does_not_wait_for_its_files() -> None:
    """A model that is removed while a slot is moved for nobody: the runtime goes at once."""
    one = node()
    serve(one, 1, ALICE)
    turn(one, 2, BOB)
    one.cancel(2)
    one.take(one.agent.on_models((), one.now))
    assert Unload(FIRST) in one.fresh()


def test_memory_is_kept_free_by_moving_the_oldest_to_disk() -> None:
    """When no session more would fit, the least recently used is copied, then dropped in memory."""
    one = node(msgspec.structs.replace(LIMITS, ram_bytes=1500))
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    demote, run = parked(one, park)
    assert isinstance(demote, Demote)
    assert isinstance(run, Run)
    end(one, 2)
    one.take(one.agent.on_demoted(demote.session, True, one.now))
    assert one.fresh() == [Forget(FIRST, demote.session, "ram")]
    assert view(one) == SessionsView(disk=1, disk_bytes=800, parks=1)
    (park,) = turn(one, 3, (*ALICE, 1))
    assert isinstance(park, Park)
    effects = parked(one, park)
    (restore,) = [effect for effect in effects if isinstance(effect, Restore)]
    assert restore.tier == "disk"


def test_a_full_disk_leaves_them_in_memory_and_is_left_alone() -> None:
    """What cannot be copied stays, and the disk is not asked again at once."""
    limits = msgspec.structs.replace(LIMITS, ram_bytes=1500, disk_rest_s=30.0)
    one = node(limits)
    serve(one, 1, ALICE)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    demote, _ = parked(one, park)
    assert isinstance(demote, Demote)
    one.take(one.agent.on_demoted(demote.session, False, one.now))
    assert one.fresh() == [Forget(FIRST, demote.session, "disk")]
    assert (view(one).ram, view(one).failures) == (1, 1)
    assert not [effect for effect in one.tick(20.0) if isinstance(effect, Demote)]
    assert [effect for effect in one.tick(20.0) if isinstance(effect, Demote)]


def test_the_least_recently_used_makes_room() -> None:
    """Without a disk, the oldest is forgotten; what is too large for all of it is not written."""
    one = node(msgspec.structs.replace(LIMITS, ram_bytes=1700, disk_bytes=0))
    serve(one, 1, ALICE)
    serve(one, 2, BOB)
    serve(one, 3, CAROL)
    assert view(one).ram == 2
    forget, park = turn(one, 4, (40, 41, 42, 43, 44))
    assert forget == Forget(FIRST, ONE)
    assert isinstance(park, Park)
    small = node(msgspec.structs.replace(LIMITS, ram_bytes=500))
    serve(small, 1, ALICE)
    assert isinstance(turn(small, 2, BOB)[0], Run)


def test_who_does_not_come_back_is_forgotten() -> None:
    """After the time that the settings say, and not before."""
    one = node(msgspec.structs.replace(LIMITS, idle_s=60.0))
    serve(one, 1, ALICE)
    serve(one, 2, BOB)
    assert one.tick(50.0) == []
    assert one.tick(20.0) == [Forget(FIRST, ONE)]
    assert view(one).forgotten == 1


def test_only_what_is_quicker_is_worth_it() -> None:
    """Rates are learned; while one of them is unknown, moving is tried."""
    worth = Worth()
    assert worth.is_worth(1, 10**12)
    worth.on_prefill(100, 1.0)
    assert worth.is_worth(1, 10**12)
    worth.on_move(1_000_000, 0.1)
    assert worth.is_worth(100, 5_000_000)
    assert not worth.is_worth(100, 20_000_000)
    worth.on_prefill(10, 100.0)
    assert not worth.is_worth(100, 20_000_000)
    for _ in range(5):
        worth.on_move(1_000_000, 0.5)
    assert worth.is_worth(100, 4_000_000), "a few moves that waited for others prove nothing"
    for _ in range(100):
        worth.on_move(1_000_000, 0.5)
    assert not worth.is_worth(100, 4_000_000)


def test_a_slow_machine_for_files_computes_again() -> None:
    """Once moving has shown to take longer than computing, a conversation is not brought back."""
    one = node()
    assert isinstance(turn(one, 1, tuple(range(100, 140)))[0], Run)
    one.event(1, *(msgspec.structs.replace(ANSWER[0], prompt_tokens=40),))
    one.now += 0.04
    one.event(1, *ANSWER[1:])
    one.closed(1)
    (park,) = turn(one, 2, BOB)
    assert isinstance(park, Park)
    one.now += 5.0
    parked(one, park)
    end(one, 2)
    effects = turn(one, 3, tuple(range(100, 145)))
    assert isinstance(effects[0], Park)
    assert [type(effect) for effect in parked(one, effects[0])] == [Run]
