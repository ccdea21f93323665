"""What the coordinator's tests share: a coordinator with an easy mouth, and statuses to feed it."""

from __future__ import annotations

import random
from typing import TypeVar

from roost.core.events import Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView
from roost.errors import Failure
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Answer, Dispatch, Effect
from roost.fleet.settings import FleetSettings

E = TypeVar("E")
MODEL = ModelId("m")
FINISHED = Finished("stop", Usage(3, 0, 2))
DIED = Failure("runtime_died", "The runtime ended.")
BUSY = Failure("node_busy", "No slot is free.")


def offer(
    model: str = "m", slots: int = 2, *, usable: bool = True, created_unix_s: int = 0
) -> ModelOffer:
    """A model a node could serve."""
    return ModelOffer(ModelId(model), slots, 4096, usable=usable, created_unix_s=created_unix_s)


def status(
    *offers: ModelOffer,
    max_in_flight: int = 8,
    draining: bool = False,
    runtimes: tuple[RuntimeView, ...] = (),
) -> NodeStatus:
    """A node's report; by default of one model with two slots."""
    return NodeStatus(
        models=offers or (offer(),),
        runtimes=runtimes,
        in_flight=0,
        max_in_flight=max_in_flight,
        draining=draining,
    )


def running(runtime: str, model: str = "m") -> RuntimeView:
    """A runtime that is ready."""
    return RuntimeView(ModelId(model), "scripted", "ready", RuntimeId(runtime))


def of(effects: list[Effect], kind: type[E]) -> list[E]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


class Fleet:
    """A coordinator with short words for its events; every method returns the effects."""

    def __init__(self, settings: FleetSettings | None = None, seed: int = 1) -> None:
        self.settings = settings or FleetSettings()
        self.machine = Coordinator(self.settings, random.Random(seed))
        self.seq = 0
        self.now = 100.0

    def join(self, *names: str, report: NodeStatus | None = None) -> list[Effect]:
        """Let nodes join and report."""
        effects: list[Effect] = []
        for name in names:
            node = NodeId(name)
            effects += self.machine.on_node_joined(node, name, f"{name}-1", self.now)
            effects += self.report(name, report or status())
        return effects

    def report(self, name: str, report: NodeStatus) -> list[Effect]:
        """Let a node report."""
        self.seq += 1
        return self.machine.on_node_status(NodeId(name), self.seq, report, self.now)

    def hear(self, *names: str) -> list[Effect]:
        """Hear something of these nodes."""
        return [e for name in names for e in self.machine.on_node_heard(NodeId(name), self.now)]

    def leave(self, name: str) -> list[Effect]:
        """Let a node's link end."""
        return self.machine.on_node_left(NodeId(name), self.now)

    def ask(
        self,
        request: str,
        model: str = "m",
        *,
        chain: tuple[bytes, ...] = (),
        timeout_s: float | None = None,
    ) -> list[Effect]:
        """Let a request arrive."""
        terms = Terms(RequestId(request), TenantId("t"), chain=chain, timeout_s=timeout_s)
        return self.machine.on_request(terms, ModelId(model), self.now)

    def start(self, request: str, attempt: int = 1) -> list[Effect]:
        """Let a request get its slot."""
        return self.machine.on_started(RequestId(request), attempt, Started(3, 0, 0), self.now)

    def token(self, request: str, attempt: int = 1) -> list[Effect]:
        """Let a request's first token come."""
        return self.machine.on_first_token(RequestId(request), attempt, self.now)

    def finish(self, request: str, attempt: int = 1, answer: str = "yes") -> list[Effect]:
        """Let a request's answer be complete and its place be given back."""
        rid = RequestId(request)
        effects = self.machine.on_finished(rid, attempt, FINISHED, answer, self.now)
        return effects + self.free(request, attempt)

    def fail(self, request: str, attempt: int = 1, failure: Failure = DIED) -> list[Effect]:
        """Let an attempt fail; its place is not given back yet."""
        return self.machine.on_failed(RequestId(request), attempt, failure, self.now)

    def refuse(self, request: str, attempt: int = 1, failure: Failure = BUSY) -> list[Effect]:
        """Let a node refuse an attempt and give its place back, as the link does."""
        effects = self.machine.on_refused(RequestId(request), attempt, failure, self.now)
        return effects + self.free(request, attempt)

    def free(self, request: str, attempt: int = 1) -> list[Effect]:
        """Let an attempt's place be given back."""
        return self.machine.on_released(RequestId(request), attempt, self.now)

    def gone(self, request: str) -> list[Effect]:
        """Let a request's client go away."""
        return self.machine.on_client_gone(RequestId(request), self.now)

    def wait(self, seconds: float, *alive: str) -> list[Effect]:
        """Let time pass in ticks as the machine wants them, hearing `alive` nodes every second."""
        effects: list[Effect] = []
        end = self.now + seconds
        beat = self.now + 1.0
        while self.now < end:
            self.now = min(end, beat, self.now + self.machine.next_tick(self.now))
            if self.now >= beat:
                beat += 1.0
                effects += self.hear(*alive)
            effects += self.machine.on_tick(self.now)
        return effects


def dispatched(effects: list[Effect]) -> list[tuple[str, str]]:
    """Which request went where."""
    return [(effect.request, effect.node) for effect in of(effects, Dispatch)]


def reasons(effects: list[Effect]) -> list[tuple[str, str]]:
    """Which request was answered with which reason."""
    return [(effect.request, effect.failure.reason) for effect in of(effects, Answer)]


def idle(fleet: Fleet) -> None:
    """Assert that nothing is left of anything."""
    now = fleet.machine.statistics()
    assert (now.waiting, now.running, now.leases) == (0, 0, 0)
