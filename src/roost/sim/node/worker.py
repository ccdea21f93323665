"""MACHINE: a simulated worker machine: the production agent and link end, with toy engines below.

It does for the agent what the node's shell does: carries effects out and reports back, with the
time that loading, preparing and computing take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count

import msgspec

from roost.backends.base import Prepared
from roost.core.events import StreamEvent
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import ModelOffer, RuntimeView
from roost.errors import Failure
from roost.node.agent import Agent
from roost.node.effects import (
    Calibrate,
    Effect,
    Load,
    Look,
    Pause,
    Prepare,
    Pressed,
    Run,
    Send,
    Stop,
    StreamKey,
    Unload,
    Weigh,
)
from roost.node.floor.pace import PaceSettings
from roost.node.models.ledger import RoomSettings
from roost.node.models.stays import StaySettings
from roost.node.settings import AgentSettings
from roost.node.states.session_settings import SessionSettings
from roost.sim.compute import DIED, Engine, prompt_tokens
from roost.sim.costs import Costs
from roost.sim.history import History
from roost.sim.network import Network
from roost.sim.node.aside import Files
from roost.sim.node.residents import Residents
from roost.sim.node.runs import Runs
from roost.sim.node.steward import Place, Steward
from roost.sim.node.strangers import STRANGER, Strangers
from roost.sim.node.uplink import Answerer, Uplink
from roost.sim.node_facts import Cells, Ordered
from roost.sim.scenario import MemorySpec
from roost.sim.vectors import inputs_of
from roost.sim.world import Action, Alarm, Process, World
from roost.wire.messages import (
    Cancel,
    Credit,
    FromGateway,
    Open,
    Order,
    Vacate,
    Want,
)

TOO_LONG = Failure("context_length_exceeded", "The prompt does not fit the context.")
IDLE_SLACK_S = 3.0
"""How much longer than it is kept a runtime may be idle: nodes tick every second or so."""
LOAD_FAILED = Failure("load_failed", "The model could not be loaded.")


class WorkerSpec(msgspec.Struct, frozen=True):
    """A worker machine and what is installed on it."""

    id: NodeId
    offers: tuple[ModelOffer, ...]
    costs: Costs
    max_in_flight: int | None = None
    room: RoomSettings = RoomSettings()
    sessions: SessionSettings = SessionSettings(ram_bytes=0)
    stay: StaySettings = StaySettings()
    memory: MemorySpec = MemorySpec()
    pace: PaceSettings = PaceSettings()


AgentMaker = Callable[[AgentSettings, Sequence[ModelOffer]], Agent]


class Worker:
    """One machine: an agent that may be killed and started again, and its runtimes."""

    def __init__(
        self,
        spec: WorkerSpec,
        world: World,
        network: Network,
        history: History,
        answer: Answerer,
        agent: AgentMaker,
    ) -> None:
        self.spec = spec
        self.costs = spec.costs
        self.failing_loads = self.hanging_loads = False
        self._world = world
        self._network = network
        self._history = history
        self._answer = answer
        self._make_agent = agent
        self._dice = world.dice(f"worker {spec.id}")
        self._lives = 0
        self._links = count(1)
        self._strangers = Strangers()
        self.boot()

    # The machine.

    def boot(self) -> None:
        """Start the agent with nothing loaded, and dial."""
        self._lives += 1
        self.process = Process(self._world, f"{self.spec.id}/{self._lives}")
        most, room, kept = self.spec.max_in_flight, self.spec.room, self.spec.sessions
        stay, pace = self.spec.stay, self.spec.pace
        settings = AgentSettings("toy", most, room=room, sessions=kept, stay=stay, pace=pace)
        self.agent = self._make_agent(settings, self.spec.offers)
        self._residents = Residents(self.spec.id, room, self._history.residences)
        self.files = Files(self.process, kept, self.agent, self._history, self._dice)
        self.files.perform, self.files.spoilt = self._perform, self.costs.spoilt
        self.engines: dict[RuntimeId, Engine] = self.files.engines
        place = Place(self.spec.id, self._lives, self.spec.memory)
        self._steward = Steward(
            *(place, self.process, self.agent, self._history, self._residents, self._dice)
        )
        self._steward.perform, self._steward.engines = self._perform, self.engines
        self._preparing: dict[StreamKey, Prepare] = {}
        self._runtime_of: dict[StreamKey, RuntimeId] = {}
        self._runs = Runs(self.spec.id, self.process, self._history)
        self._alarm = Alarm(self.process, self._tick)
        self._uplink = Uplink(
            *(self.spec.id, self.process, self._network, self._answer), self, self._links
        )

    def weigh(self) -> None:
        """Compare what the agent says that slots hold with what they hold."""
        self.files.weigh()
        for view in self.agent.status().runtimes:
            self._note_idle(view)
            engine = self.engines.get(view.runtime) if view.runtime is not None else None
            for slot in view.slots if engine is not None and self.process.alive else ():
                if engine is not None and not slot.busy:
                    real = len(engine.content(slot.slot))
                    cell = (self.spec.id, str(view.runtime), slot.slot, slot.tokens, real, view.ctx)
                    self._history.cells.append(Cells(*cell))

    def _note_idle(self, view: RuntimeView) -> None:
        keep_s = 0.0 if 0 in self.spec.room.kept.values() else self.spec.stay.keep_alive_s
        idle = keep_s >= 0 and self.process.alive and not view.pinned and view.state == "ready"
        if idle and (view.idle_s or 0.0) > keep_s + IDLE_SLACK_S:
            self._history.idle[self.spec.id, view.model] = view.idle_s or 0.0

    def order(self, order: Order, told: Ordered) -> None:
        """An operator wants this of the node."""
        self._steward.order(order, told)

    def kill(self) -> None:
        """End the agent and every runtime at once."""
        self.process.kill()
        for engine in self.engines.values():
            engine.kill()
        self._runs.all_ended()
        self._uplink.reset()

    def freeze(self) -> None:
        """Stop the machine: agent and runtimes."""
        self.process.stop()
        for engine in self.engines.values():
            engine.stop()

    def thaw(self) -> None:
        """Let the machine continue."""
        self.process.resume()
        for engine in list(self.engines.values()):
            engine.resume()

    def kill_runtime(self, *, first: bool) -> bool:
        """End one runtime; `first` is whether its streams hear of it before the agent does."""
        if not self.engines or not self.process.alive:
            return False
        runtime = self._dice.choice(sorted(self.engines))
        engine = self.engines.pop(runtime)
        engine.kill()
        keys = list(engine.streams)
        for key in keys:
            self._runs.ended(key)
        delay_s = self.costs.death_seen_s
        gone = partial(self._gone, runtime)
        closed = partial(self._died, keys)
        for action in (closed, gone) if first else (gone, closed):
            self.process.after(delay_s, action)
        return True

    def slow_down(self, factor: float) -> None:
        """Compute `factor` times slower from now on; 1 is the machine's own speed."""
        self.costs = self.spec.costs.slower(factor)
        for engine in self.engines.values():
            engine.costs = self.costs

    def drain(self) -> None:
        """Tell the agent to take nothing new."""
        self.process.do(lambda: self._perform(self.agent.on_drain(self._world.now)))

    def crowd(self) -> None:
        """Let another gateway, of which nobody here knows, take every place of every model."""
        self._visit(STRANGER, self._strangers.crowd(self.spec.offers))

    def repeat(self, *, generation: int) -> Action:
        """Let the newest Opens come again, on another link; 0 repeats them just as they were.

        Otherwise they are those of a gateway that has taken over since, of that generation. Returns
        what ends that link.
        """
        link = self._strangers.link()
        self._visit(link, self._strangers.again(generation))
        return lambda: self.on_down(link)

    def _visit(self, link: int, messages: Iterable[Open]) -> None:
        self.on_up(link)
        for message in messages:
            self._deliver(link, message)

    def uncrowd(self) -> None:
        """Let the other gateway go away."""
        self.on_down(STRANGER)

    # The link.

    def on_up(self, link: int) -> None:
        """A gateway has welcomed the node."""
        self._perform(self.agent.on_link_up(link, self._world.now))

    def on_down(self, link: int) -> None:
        """A link that was up has ended."""
        self._perform(self.agent.on_link_down(link, self._world.now))

    def on_heard(self, link: int, message: FromGateway) -> None:
        """The gateway said this."""
        now = self._world.now
        if isinstance(message, Open | Credit | Cancel):
            if isinstance(message, Open):
                self._strangers.heard(message)
            self._deliver(link, message)
            self._count()
        elif isinstance(message, Want):
            self._perform(self.agent.on_preload(message.model, now))
        elif isinstance(message, Vacate):
            self._perform(self.agent.on_vacate(link, message.vacant, now))

    def _deliver(self, link: int, message: Open | Credit | Cancel) -> None:
        if isinstance(message, Open) and message.fence is not None:
            self._runs.fenced(StreamKey(link, message.stream), message.fence)
        self._perform(self.agent.on_message(link, message, self._world.now))

    def _count(self) -> None:
        held = self.agent.statistics().in_flight
        most = sum(min(o.slots, self.spec.max_in_flight or o.slots) for o in self.spec.offers)
        if held > most:
            self._history.defects.append(f"{self.spec.id} holds {held} streams, {most} fit")

    # The agent's effects.

    def _tick(self) -> None:
        self._perform(self.agent.on_tick(self._world.now))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._do(effect)
        self._steward.look()
        self._alarm.set(self.agent.next_tick())

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._uplink.say(effect.link, effect.message)
            case Load():
                self._load(effect)
            case Weigh():
                self._steward.weigh(effect.number)
            case Calibrate() | Pressed():
                pass
            case Look():
                failure = LOAD_FAILED if self.failing_loads else None
                self._perform(self.agent.on_looked(effect.model, failure, self._world.now))
            case Unload():
                self._unload(effect.runtime)
            case Prepare():
                self._preparing[effect.key] = effect
                self.process.after(self.costs.prepare_s, partial(self._prepared, effect))
            case Run():
                self._run(effect)
            case Stop():
                self._stop(effect.key)
            case Pause():
                engine = self._engine(effect.key)
                if engine is not None:
                    engine.pause(effect.key, paused=effect.paused)
            case _:
                self.files.do(effect)

    def _load(self, effect: Load) -> None:
        weights = next(o.digest for o in self.spec.offers if o.model == effect.model)
        engine = Engine(self._world, effect.runtime, self.costs, weights)
        engine.emit, engine.closed = self._emitted, self._engine_closed
        self.engines[effect.runtime] = engine
        self._residents.loading(effect.runtime, effect.model, self._world.now)
        self._steward.begins(effect.runtime)
        half = partial(self._progress, effect.runtime)
        self.process.after(self.costs.load_s / 2, half)
        if self.hanging_loads:
            return
        done = self._load_failed if self.failing_loads else self._loaded
        self.process.after(self.costs.load_s, partial(done, effect.runtime))

    def _progress(self, runtime: RuntimeId) -> None:
        if runtime in self.engines:
            self._perform(self.agent.on_load_progress(runtime, 0.5, self._world.now))

    def _loaded(self, runtime: RuntimeId) -> None:
        if runtime in self.engines:
            self._residents.ready(runtime, self._world.now)
            self.files.on_loaded(runtime)
            self._perform(self.agent.on_loaded(runtime, self._world.now))

    def _load_failed(self, runtime: RuntimeId) -> None:
        if self.engines.pop(runtime, None) is not None:
            self._residents.gone(runtime)
            self._perform(self.agent.on_load_failed(runtime, LOAD_FAILED, self._world.now))

    def _unload(self, runtime: RuntimeId) -> None:
        engine = self.engines.pop(runtime, None)
        if engine is None:
            return
        preparing = sum(one.runtime == runtime for one in self._preparing.values())
        self._steward.leaves(runtime, ModelId(runtime.partition("#")[0]), preparing)
        self._residents.told_to_go(runtime, len(engine.streams), self._world.now)
        engine.kill()
        keys = list(engine.streams)
        for key in keys:
            self._runs.ended(key)
        self.process.after(self.costs.stop_s, partial(self._died, keys))
        self.process.after(self.costs.stop_s, partial(self._gone, runtime))

    def _gone(self, runtime: RuntimeId) -> None:
        self._residents.gone(runtime)
        self._perform(self.agent.on_runtime_gone(runtime, self._world.now))

    def _died(self, keys: list[StreamKey]) -> None:
        for key in keys:
            self._runtime_of.pop(key, None)
            self._perform(self.agent.on_closed(key, DIED, self._world.now))

    def _prepared(self, effect: Prepare) -> None:
        if self._preparing.pop(effect.key, None) is None:
            return
        now = self._world.now
        if effect.runtime not in self.engines:
            self._perform(self.agent.on_prepare_failed(effect.key, DIED, now))
            return
        if inputs := inputs_of(effect.request):
            ready = Prepared(effect.request, (), 0, inputs=inputs)
            self._perform(self.agent.on_prepared(effect.key, ready, now))
            return
        said = effect.request.said
        tokens = prompt_tokens(effect.request) + said
        ctx = next(o.ctx for o in self.spec.offers if o.model == effect.request.model)
        limit = min((effect.request.max_tokens or ctx) - len(said), ctx - len(tokens))
        if limit < (0 if said else 1):
            self._perform(self.agent.on_prepare_failed(effect.key, TOO_LONG, now))
        else:
            prepared = Prepared(effect.request, tokens, limit)
            self._runs.ready(effect.key)
            self._perform(self.agent.on_prepared(effect.key, prepared, now))

    def _run(self, effect: Run) -> None:
        self._runs.began(effect)
        self._runtime_of[effect.key] = effect.runtime
        engine = self.engines.get(effect.runtime)
        if engine is None:
            self._runs.ended(effect.key)
            self.process.after(0.0, partial(self._died, [effect.key]))
        else:
            engine.open(effect.key, effect.prepared, effect.use)

    def _stop(self, key: StreamKey) -> None:
        engine = self._engine(key)
        if engine is not None:
            engine.leave(key)
        elif self._preparing.pop(key, None) is not None:
            now_closed = partial(self._closed, key, None)
            self.process.after(self.costs.prepare_s, now_closed)

    def _engine(self, key: StreamKey) -> Engine | None:
        runtime = self._runtime_of.get(key)
        return self.engines.get(runtime) if runtime is not None else None

    def _emitted(self, key: StreamKey, event: StreamEvent) -> None:
        self._runs.heard(key, event)
        self.process.do(lambda: self._perform(self.agent.on_event(key, event, self._world.now)))

    def _engine_closed(self, key: StreamKey, failure: Failure | None) -> None:
        self._runs.ended(key)
        self._runtime_of.pop(key, None)
        self.process.do(partial(self._closed, key, failure))

    def _closed(self, key: StreamKey, failure: Failure | None) -> None:
        self._perform(self.agent.on_closed(key, failure, self._world.now))
