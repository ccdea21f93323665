"""WIRING: puts a world together, plays one scenario with one seed and has the history checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import ModelOffer
from roost.fleet.choice.routing import Dice
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.conversations.compaction import Compaction
from roost.fleet.conversations.handoffs import Handoffs, HandoffSettings
from roost.fleet.conversations.registry import Conversations, ConversationSettings
from roost.fleet.coordinator import Coordinator
from roost.fleet.line.allowances import Allowances, AllowanceSettings
from roost.fleet.nodes.handover import Handover
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.said import Said
from roost.node.agent import Agent
from roost.node.floor.pace import PaceSettings
from roost.node.models.ledger import RoomSettings
from roost.node.models.stays import StaySettings
from roost.node.settings import AgentSettings
from roost.sim.claims.checkers import Violation, check
from roost.sim.faults import AFTERMATH_S, Faults
from roost.sim.gateway.front import Front
from roost.sim.gateway.handovers import MakeHandover
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.parts import FrontParts, RelayMaker
from roost.sim.gateway.talks import MakeTalks, TalkParts, Talks
from roost.sim.history import History, Rest
from roost.sim.network import Network
from roost.sim.node.steward import MB
from roost.sim.node.worker import Worker, WorkerSpec
from roost.sim.scenario import Scenario
from roost.sim.traffic.operators import Operators
from roost.sim.traffic.workload import ClientParts, Workload
from roost.sim.world import World

HOSTED = "hosted"
"""The backend of simulated models where machines limit what it keeps."""


def _relay(
    settings: RelaySettings,
    streamed: bool,  # noqa: FBT001
    now: float,
    said: Said | None,
) -> Relay:
    return Relay(settings, streamed=streamed, now=now, said=said)


def _agent(settings: AgentSettings, offers: Sequence[ModelOffer]) -> Agent:
    return Agent(settings, offers)


class Parts(msgspec.Struct, frozen=True):
    """The machines under test; a test of the checkers puts defective ones in."""

    coordinator: Callable[[FleetSettings, Dice], Coordinator] = Coordinator
    relay: RelayMaker = _relay
    agent: Callable[[AgentSettings, Sequence[ModelOffer]], Agent] = _agent
    front: Callable[[World, FrontParts, Ledger], Front] = Front
    clients: ClientParts = ClientParts()
    registry: Callable[[ConversationSettings], Conversations] = Conversations
    compaction: Callable[[CompactionSettings], Compaction] = Compaction
    talks: MakeTalks = Talks
    handover: MakeHandover = Handover
    allowances: Callable[[AllowanceSettings], Allowances] = Allowances
    handoffs: Callable[[HandoffSettings], Handoffs] = Handoffs


class Played(msgspec.Struct, frozen=True):
    """One run: what was violated, the hash of its log, how long it took in simulated time."""

    scenario: str
    seed: int
    violations: tuple[Violation, ...]
    digest: str
    simulated_s: float
    events: int
    requests: int
    completed: int
    lines: tuple[str, ...]


class Stage:
    """One world with everything in it."""

    def __init__(
        self, scenario: Scenario, name: str, seed: int, parts: Parts, *, keep_lines: bool
    ) -> None:
        self.scenario = scenario
        self.world = World(lambda what: Random(f"{name} {seed} {what}"), keep_lines=keep_lines)
        self.history = _history(scenario)
        self.network = Network(self.world, scenario.network)
        self.ledger = Ledger(self.world, self.history)
        self.front = parts.front(self.world, _made_of(scenario, parts, self.world), self.ledger)
        self.workers = {
            spec.id: Worker(
                spec, self.world, self.network, self.history, self.front.answer, parts.agent
            )
            for spec in _specs(scenario)
        }
        self.workload = Workload(scenario, self.world, self.front, self.ledger, parts.clients)
        self.operators = Operators(scenario, self.world, self.workers, self.history)
        self.faults = Faults(
            scenario, self.world, self.network, self.front, self.workers, self.history
        )

    def play(self) -> None:
        """Let the scenario happen, come to rest, and be asked whether it still works."""
        scenario, world = self.scenario, self.world
        self.faults.plan()
        world.run(1.0)
        self.workload.begin()
        self.workload.flood()
        self.operators.begin()
        world.run(max(scenario.duration_s, self.history.healed_s))
        self._settle()
        if not any(fault.kind == "drain_gateway" for fault in scenario.faults):
            if self.history.troubles:
                world.run(world.now + AFTERMATH_S)
            self.history.probed_s = world.now
            for model in scenario.models:
                self.workload.probe(model)
            self._settle()
        self.history.ended_s = world.now
        self.history.rest, self.history.life = self._rest(), self.front.process.name
        self.history.words = {
            key: tuple(message.content for message in said)
            for key, said in self.front.talks.said.items()
        }
        for worker in self.workers.values():
            worker.weigh()

    def _settle(self) -> None:
        limit_s = self.world.now + self.scenario.settle_s
        self.world.run(self.world.now + 1.0)
        while self.world.now < limit_s and not self._resting():
            self.world.run(self.world.now + 1.0)

    def _resting(self) -> bool:
        return not (self.front.turns or self.ledger.out or self.workload.thinking)

    def _rest(self) -> Rest:
        now = self.front.coordinator.statistics()
        agents = [worker.agent for worker in self.workers.values()]
        counts = [agent.statistics() for agent in agents]
        slots = [slot for a in agents for view in a.status().runtimes for slot in view.slots]
        return Rest(
            waiting=now.waiting,
            running=now.running,
            leases=now.leases,
            opened=sum(count.opened for count in counts),
            released=sum(count.released for count in counts),
            busy_slots=sum(slot.busy for slot in slots),
            live_streams=sum(count.live for count in counts),
            on_account=self.front.accounts.on_account(
                {one.tenant for one in self.history.traces.values()}
            ),
            handoffs=self.front.handoffs.count(),
            alive=sum(view.state == "alive" for view in self.front.coordinator.fleet()),
            nodes=len(self.workers),
        )


def play(
    scenario: Scenario,
    name: str,
    seed: int,
    parts: Parts | None = None,
    *,
    keep_lines: bool = False,
) -> Played:
    """Play one scenario with one seed; a machine that asserts ends the run as a violation."""
    stage = Stage(scenario, name, seed, parts or Parts(), keep_lines=keep_lines)
    violations: tuple[Violation, ...]
    try:
        stage.play()
    except Exception as error:  # noqa: BLE001 - whatever a machine raises is a finding, with its seed
        violations = (Violation("no_machine_raises", f"{type(error).__name__}: {error}"),)
    else:
        violations = tuple(check(stage.history))
    traces = stage.history.traces.values()
    return Played(
        scenario=name,
        seed=seed,
        violations=violations,
        digest=stage.world.digest,
        simulated_s=stage.world.now,
        events=stage.world.events,
        requests=len(traces),
        completed=sum(any(kind == "complete" for kind, _ in trace.endings) for trace in traces),
        lines=tuple(stage.world.lines),
    )


def _made_of(scenario: Scenario, parts: Parts, world: World) -> FrontParts:
    """What a gateway is made of each time it starts; chance goes on where it was."""
    dice = world.dice("coordinator")
    return FrontParts(
        lambda: parts.coordinator(scenario.fleet, dice),
        parts.relay,
        scenario.relay,
        lambda: TalkParts(
            parts.registry(scenario.conversations), parts.compaction(scenario.compaction)
        ),
        parts.talks,
        parts.handover,
        lambda: parts.allowances(scenario.allowances),
        lambda: parts.handoffs(scenario.handoffs),
    )


def _history(scenario: Scenario) -> History:
    fleet = scenario.fleet
    return History(
        queue_length=fleet.queue_length,
        queue_wait_s=fleet.queue_wait_s,
        retry_floor=fleet.retry_floor,
        retry_ratio=fleet.retry_ratio,
        retry_window_s=fleet.retry_window_s,
        max_decodes=fleet.max_decodes,
        max_decodes_per_node=fleet.max_decodes_per_node,
        class_one_in=fleet.class_one_in,
        redispatch_per_node=fleet.redispatch_per_node,
        breaker_open_s=fleet.breaker_open_s,
        breaker_successes=fleet.breaker_successes,
        replicas=fleet.replicas,
        want_s=fleet.want_s,
        kept=frozenset(fleet.keep),
        key_ttl_s=scenario.idempotency.ttl_s,
        replay_max_tokens=scenario.relay.replay_max_tokens,
        drops=scenario.relay.on_full == "drop_oldest",
        compaction=scenario.compaction,
        ctx=max(machines.ctx for machines in scenario.machines),
        allowance=scenario.allowance,
        answer_tokens=scenario.allowances.answer_tokens,
        handoffs=scenario.handoffs,
    )


def _specs(scenario: Scenario) -> list[WorkerSpec]:
    specs: list[WorkerSpec] = []
    for machines in scenario.machines:
        size_bytes = machines.memory.model_mb * MB
        offers = tuple(
            ModelOffer(
                *(ModelId(m), machines.slots, machines.ctx),
                digest=machines.weights,
                mode=machines.modes.get(m, "generate"),
                size_bytes=size_bytes,
                backend=HOSTED if machines.kept >= 0 else "",
            )
            for m in machines.models
        )
        costs = machines.costs.slower(machines.slower)
        room = RoomSettings(
            max_runtimes=machines.max_runtimes,
            min_resident_s=machines.min_resident_s,
            turn_s=machines.turn_s,
            kept={HOSTED: machines.kept} if machines.kept >= 0 else {},
        )
        for _ in range(machines.count):
            node = NodeId(f"n{len(specs) + 1}")
            limit = machines.max_in_flight
            stay, kept, memory = (
                StaySettings(machines.keep_alive_s),
                machines.sessions,
                machines.memory,
            )
            pace = PaceSettings(load_stall_s=machines.load_stall_s)
            specs.append(WorkerSpec(node, offers, costs, limit, room, kept, stay, memory, pace))
    return specs
