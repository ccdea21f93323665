"""The agent against a world that does everything in every order, and a model that counts.

The world plays both the shell (loads, prepares, runs, stops, deaths) and the gateways (opens,
credits, cancels, lost links). The model knows only what was promised: every message is one that the
gateway's end of a link would accept, no slot has two streams, each Open is released once, and when
everything has come to rest nothing is held.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.events import (
    TERMINAL,
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
)
from roost.core.ids import ModelId, RuntimeId, StreamId
from roost.errors import Failure
from roost.node.agent import Agent
from roost.node.effects import (
    Effect,
    Load,
    Look,
    Pause,
    Prepare,
    Run,
    Send,
    Stop,
    StreamKey,
    Unload,
)
from roost.node.floor.pace import PaceSettings
from roost.node.models.ledger import RoomSettings
from roost.node.settings import AgentSettings
from roost.wire.messages import Cancel, Credit, Events, Hello, Phase, Refused, Released, Status
from roost.wire.stream_guard import StreamGuard
from tests.node.kit import MODEL, OTHER, offer, open_message, prepared

SETTINGS = AgentSettings(
    backend="tiny", max_in_flight=3, streams_max=6, outbox_events_max=2, pace=PaceSettings(5.0, 5.0)
)
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=5)
REASONS = st.sampled_from([None] * 9 + ["runtime_died", "runtime_error", "bad_request"])


class World(RuleBasedStateMachine):
    """Drives an agent; `guards` and `busy` are the model."""

    room = RoomSettings()

    def __init__(self) -> None:
        super().__init__()
        given = msgspec.structs.replace(SETTINGS, room=self.room)
        self.agent = Agent(given, [offer(MODEL, 2), offer(OTHER, 1)])
        self.now = 0.0
        self.links: set[int] = set()
        self.last_link = self.last_stream = 0
        # The shell: what it was asked to do and has not answered.
        self.looking: list[ModelId] = []
        self.loading: dict[RuntimeId, ModelId] = {}
        self.alive: set[RuntimeId] = set()
        self.unloading: list[RuntimeId] = []
        self.preparing: dict[StreamKey, RuntimeId] = {}
        self.running: dict[StreamKey, Run] = {}
        self.begun: set[StreamKey] = set()
        self.decoding: set[StreamKey] = set()
        self.over: set[StreamKey] = set()
        self.stopping: list[StreamKey] = []
        # The model.
        self.guards: dict[StreamKey, StreamGuard] = {}
        self.busy: dict[tuple[RuntimeId, int], StreamKey] = {}
        self.stuck: set[tuple[RuntimeId, int]] = set()
        self.opened = self.released = 0
        self.statuses: dict[int, int] = {}
        self.link_up()

    # The shell and the gateways hear.

    def perform(self, effects: list[Effect]) -> None:
        """Remember what is asked, and check what is said."""
        for effect in effects:
            match effect:
                case Load(model, runtime):
                    assert model not in self.loading.values()
                    self.loading[runtime] = model
                case Look(model):
                    self.looking.append(model)
                case Unload(runtime):
                    assert runtime not in self.unloading
                    self.unloading.append(runtime)
                case Prepare(key, runtime):
                    self.preparing[key] = runtime
                case Run():
                    self.begin(effect)
                case Stop(key):
                    assert key not in self.stopping
                    self.stopping.append(key)
                case Pause(key):
                    assert key in self.running
                case Send(link, message):
                    self.hear(link, message)

    def begin(self, run: Run) -> None:
        """A stream takes its slot: nobody else may be on it."""
        place = (run.runtime, run.use.slot)
        assert place not in self.busy
        assert place not in self.stuck
        self.busy[place] = run.key
        self.running[run.key] = run

    def hear(
        self, link: int, message: Hello | Status | Phase | Events | Refused | Released | object
    ) -> None:
        """A gateway hears a message: it has to be legal."""
        assert link in self.links
        if isinstance(message, Status):
            assert message.seq == self.statuses.get(link, -1) + 1
            self.statuses[link] = message.seq
            return
        assert isinstance(message, (Phase, Events, Refused, Released))
        key = StreamKey(link, message.stream)
        assert self.guards[key].on_message(message) is None
        if isinstance(message, Released):
            del self.guards[key]
            self.released += 1

    # Gateways.

    @rule()
    def link_up(self) -> None:
        """A gateway's link comes up."""
        if len(self.links) < 2:
            self.last_link += 1
            self.links.add(self.last_link)
            self.perform(self.agent.on_link_up(self.last_link, self.now))

    @precondition(lambda self: len(self.links) > 1)
    @rule()
    def link_down(self) -> None:
        """The oldest link is lost, with everything on it."""
        link = min(self.links)
        self.links.remove(link)
        mine = [key for key in self.guards if key.link == link]
        self.released += len(mine)
        for key in mine:
            del self.guards[key]
        self.perform(self.agent.on_link_down(link, self.now))

    @rule(
        data=st.data(),
        model=st.sampled_from([MODEL] * 6 + [OTHER, OTHER, ModelId("unheard of")]),
        tenant=st.sampled_from("ab"),
        credit=st.integers(0, 3),
        deadline_s=st.sampled_from([None] * 6 + [0.0, 1.0, 4.0]),
    )
    def open(
        self,
        data: st.DataObject,
        model: ModelId,
        tenant: str,
        credit: int,
        deadline_s: float | None,
    ) -> None:
        """A gateway opens a stream."""
        link = data.draw(st.sampled_from(sorted(self.links)))
        self.last_stream += 1
        message = open_message(
            self.last_stream, model=model, tenant=tenant, credit=credit, deadline_s=deadline_s
        )
        self.guards[StreamKey(link, message.stream)] = StreamGuard(credit)
        self.opened += 1
        self.perform(self.agent.on_message(link, message, self.now))

    @precondition(lambda self: bool(self.guards))
    @rule(data=st.data(), messages=st.integers(1, 3))
    def credit(self, data: st.DataObject, messages: int) -> None:
        """A gateway reads on."""
        key = data.draw(st.sampled_from(sorted(self.guards, key=str)))
        self.guards[key].on_credit(messages)
        self.perform(self.agent.on_message(key.link, Credit(key.stream, messages), self.now))

    @precondition(lambda self: bool(self.guards))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A client leaves."""
        key = data.draw(st.sampled_from(sorted(self.guards, key=str)))
        self.guards[key].cancelled = True
        self.perform(self.agent.on_message(key.link, Cancel(key.stream), self.now))

    @rule(stream=st.integers(1, 5), link=st.integers(1, 2))
    def late_words(self, stream: int, link: int) -> None:
        """Credit and Cancel for what is long gone are harmless."""
        key = StreamKey(link, StreamId(stream))
        if key not in self.guards and link in self.links:
            self.perform(self.agent.on_message(link, Cancel(key.stream), self.now))
            self.perform(self.agent.on_message(link, Credit(key.stream, 1), self.now))

    # The shell.

    @precondition(lambda self: bool(self.loading))
    @rule(data=st.data(), works=st.sampled_from([True] * 5 + [False]))
    def load_ends(self, data: st.DataObject, works: bool) -> None:
        """A load succeeds or fails, unless it was called off."""
        runtime = data.draw(st.sampled_from(sorted(self.loading)))
        if runtime in self.unloading:
            return
        del self.loading[runtime]
        if works:
            self.alive.add(runtime)
            self.perform(self.agent.on_loaded(runtime, self.now))
        else:
            failure = Failure("load_failed", "no room")
            self.perform(self.agent.on_load_failed(runtime, failure, self.now))

    @rule(model=st.sampled_from([MODEL, OTHER, ModelId("unheard of")]))
    def want(self, model: ModelId) -> None:
        """A gateway would like to have a model loaded."""
        self.perform(self.agent.on_preload(model, self.now))

    @rule(
        max_in_flight=st.sampled_from([None, 1, 2, 3]),
        stall_s=st.sampled_from([5.0, 9.0]),
        wait_s=st.sampled_from([2.0, 9.0]),
        evict=st.booleans(),
    )
    def limits_change(
        self, max_in_flight: int | None, stall_s: float, wait_s: float, evict: bool
    ) -> None:
        """An operator changes limits; how many runtimes there may be is the world's."""
        room = msgspec.structs.replace(self.room, wait_s=wait_s, evict=evict)
        pace = PaceSettings(stall_s, 5.0)
        changed = msgspec.structs.replace(
            SETTINGS, max_in_flight=max_in_flight, room=room, pace=pace
        )
        self.perform(self.agent.on_settings(changed, self.now))

    @precondition(lambda self: bool(self.unloading))
    @rule()
    def unloaded(self) -> None:
        """A runtime that was told to stop has stopped."""
        self.runtime_ends(self.unloading[0])

    @precondition(lambda self: bool(self.alive))
    @rule(data=st.data(), dies=st.sampled_from([False] * 7 + [True]))
    def dies(self, data: st.DataObject, dies: bool) -> None:
        """A runtime dies by itself, now and then."""
        runtime = data.draw(st.sampled_from(sorted(self.alive)))
        if dies:
            self.runtime_ends(runtime)

    def runtime_ends(self, runtime: RuntimeId) -> None:
        """The runtime is gone, and its slots with it."""
        self.unloading = [r for r in self.unloading if r != runtime]
        self.loading.pop(runtime, None)
        self.alive.discard(runtime)
        self.perform(self.agent.on_runtime_gone(runtime, self.now))
        self.unloading = [r for r in self.unloading if r != runtime]

    @precondition(lambda self: bool(self.looking))
    @rule(reason=st.sampled_from([None, None, None, "load_failed"]))
    def looked(self, reason: str | None) -> None:
        """A model's files were looked at, whether anybody still waits for that or not."""
        failure = Failure(reason, "spoilt") if reason else None
        self.perform(self.agent.on_looked(self.looking.pop(0), failure, self.now))

    @precondition(lambda self: bool(self.preparing))
    @rule(data=st.data(), tokens=TOKENS, reason=REASONS)
    def prepared(self, data: st.DataObject, tokens: list[int], reason: str | None) -> None:
        """A preparation ends, perhaps just before it would have been stopped."""
        key = data.draw(st.sampled_from(sorted(self.preparing, key=str)))
        del self.preparing[key]
        if reason is None:
            self.perform(self.agent.on_prepared(key, prepared(*tokens), self.now))
        else:
            failure = Failure(reason, "no")
            self.perform(self.agent.on_prepare_failed(key, failure, self.now))

    @precondition(lambda self: bool(set(self.running) - self.over))
    @rule(data=st.data())
    def event(self, data: st.DataObject) -> None:
        """A backend's stream produces its next event."""
        key = data.draw(st.sampled_from(sorted(set(self.running) - self.over, key=str)))
        done = Finished("stop", Usage(3, 1, 1))
        choices: list[StreamEvent] = [*[Delta("x")] * 6, done, done]
        choices += [Failed(Failure(reason, "no")) for reason in ("runtime_error", "runtime_died")]
        choices += [] if key in self.begun else [Started(3, 1, 0)]
        choices += [] if key in self.decoding else [PrefillProgress(2, 3)]
        event = data.draw(st.sampled_from(choices))
        self.begun.add(key)
        if isinstance(event, Delta):
            self.decoding.add(key)
        if isinstance(event, TERMINAL):
            self.over.add(key)
        self.perform(self.agent.on_event(key, event, self.now))

    @precondition(lambda self: bool(self.running))
    @rule(
        data=st.data(), reason=st.sampled_from([None, None, None, "runtime_error", "bad_request"])
    )
    def closes(self, data: st.DataObject, reason: str | None) -> None:
        """A block is left: after the end, or because of a failure."""
        over = sorted(self.over, key=str)
        if over:
            self.close(over[0], None)
        elif reason is not None:
            key = data.draw(st.sampled_from(sorted(self.running, key=str)))
            self.close(key, Failure(reason, "no"))

    @precondition(lambda self: bool(self.stopping))
    @rule(reason=st.sampled_from([None, None, None, "runtime_error"]))
    def stopped(self, reason: str | None) -> None:
        """The oldest stop is answered, whether there was still anything to stop or not."""
        key = self.stopping.pop(0)
        self.preparing.pop(key, None)
        self.close(key, Failure(reason, "stuck") if reason and key in self.running else None)

    def close(self, key: StreamKey, failure: Failure | None) -> None:
        """The stream has left its slot."""
        run = self.running.pop(key, None)
        self.over.discard(key)
        if run is not None:
            del self.busy[run.runtime, run.use.slot]
            if failure is not None and self.is_settled(key):
                self.stuck.add((run.runtime, run.use.slot))
        self.perform(self.agent.on_closed(key, failure, self.now))

    def is_settled(self, key: StreamKey) -> bool:
        """Whether a gateway knows of an outcome, or nobody does any more."""
        guard = self.guards.get(key)
        return guard is None or guard.cancelled or guard.stage in ("ended", "refused")

    @rule(seconds=st.sampled_from([0.05, 0.5, 2.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        """Deadlines, stalls and reports become due.

        A node that is awake ticks once per second at least: a jump would be its own sleep.
        """
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 1.0)
            self.perform(self.agent.on_tick(self.now))

    # The promises.

    @invariant()
    def the_books_balance(self) -> None:
        """Opened is released plus live, and the limits hold."""
        statistics = self.agent.statistics()
        assert statistics.opened == self.opened
        assert statistics.opened == statistics.released + statistics.live
        assert statistics.live <= SETTINGS.streams_max
        assert len(self.busy) == len(self.running)

    def teardown(self) -> None:
        """Let everything end: then nothing is held, and everybody has had the last word."""
        for key in list(self.guards):
            self.guards[key].cancelled = True
            self.perform(self.agent.on_message(key.link, Cancel(key.stream), self.now))
        while self.stopping:
            self.stopped(None)
        for key in list(self.running):
            self.close(key, None)
        self.perform(self.agent.on_shutdown(self.now))
        while self.unloading:
            self.unloaded()
        assert self.guards == {}
        statistics = self.agent.statistics()
        assert (statistics.live, statistics.in_flight, statistics.runtimes) == (0, 0, 0)
        assert statistics.released == statistics.opened
        assert self.loading == {}
        assert self.alive == set()


class NarrowWorld(World):
    """The same with room for one runtime: the two models take turns."""

    room = RoomSettings(max_runtimes=1, min_resident_s=1.0, turn_s=3.0, wait_s=9.0)

    @invariant()
    def there_is_one_at_most(self) -> None:
        """From the start of its load until it is gone a runtime takes the only place."""
        assert len(self.loading) + len(self.alive) <= 1


TestAgainstNarrowWorld = pytest.mark.slow(NarrowWorld.TestCase)
TestAgainstNarrowWorld.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
TestAgainstWorld = pytest.mark.slow(World.TestCase)
TestAgainstWorld.settings = settings(max_examples=50, stateful_step_count=80, deadline=None)
