"""The coordinator against a naive model of the same fleet, under any order of events."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from roost.core.events import Started
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Answer, Disconnect, Dispatch, Effect, Report, Waiting, Withdraw
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import FINISHED, offer, status

NODES = [NodeId(name) for name in "abc"]
MODELS = [ModelId("m"), ModelId("n")]
FAILURES = ["node_busy", "runtime_died", "load_failed", "context_length_exceeded"]
SETTINGS = FleetSettings(queue_length=3, queue_wait_s=8.0, affinity_entries=8)
PICK = st.integers(0, 10**6)


@dataclass
class Seen:
    """One request as its client and its nodes would describe it."""

    model: ModelId
    deadline_s: float | None
    attempt: int = 0
    node: NodeId | None = None
    answered: bool = False
    failed_on: set[NodeId] = field(default_factory=set)
    may_return: set[NodeId] = field(default_factory=set)
    endings: list[str] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether it lives and is on no node."""
        return not self.endings and self.node is None


@dataclass
class Linked:
    """One node with a link, as it knows itself."""

    heard_s: float
    offers: dict[ModelId, ModelOffer]
    draining: bool = False


class CoordinatorAgainstModel(RuleBasedStateMachine):
    """Events in any order; every effect is checked against what the model knows."""

    @initialize(seed=st.integers(0, 1000), policy=st.sampled_from(["least_inflight", "weighted"]))
    def begin(self, seed: int, policy: str) -> None:
        """Start with an empty fleet."""
        chosen = FleetSettings(
            queue_length=SETTINGS.queue_length,
            queue_wait_s=SETTINGS.queue_wait_s,
            policy="weighted" if policy == "weighted" else "least_inflight",
        )
        self.machine = Coordinator(chosen, random.Random(seed))
        self.now = 50.0
        self.seq = 0
        self.count = 0
        self.draining = False
        self.links: dict[NodeId, Linked] = {}
        self.seen: dict[RequestId, Seen] = {}
        self.leases: dict[tuple[RequestId, int], NodeId] = {}
        self.retries: list[float] = []
        self.arrivals: list[float] = []

    # What effects mean in the model.

    def apply(self, effects: list[Effect]) -> None:
        """Perform effects on the model and check each at its moment."""
        for effect in effects:
            if isinstance(effect, Dispatch):
                self.dispatched(effect)
            elif isinstance(effect, Answer):
                one = self.seen[effect.request]
                assert not one.endings, "one ending"
                one.endings.append(effect.failure.reason)
                one.node = None
            elif isinstance(effect, Withdraw):
                assert self.leases[effect.request, effect.attempt] == effect.node
            elif isinstance(effect, Disconnect):
                self.forget(effect.node)
            elif isinstance(effect, Report) and effect.event == "request_retried":
                self.retried(effect)
            elif isinstance(effect, Waiting):
                assert 1 <= effect.position <= effect.length

    def dispatched(self, effect: Dispatch) -> None:
        """Check a choice against everything that forbids one."""
        one, link = self.seen[effect.request], self.links[effect.node]
        assert one.waits, "a request runs once at a time and never after its end"
        assert not one.answered, "no second attempt after the first byte"
        assert effect.attempt == one.attempt + 1
        assert self.now < link.heard_s + 2.0, "only nodes that were heard get work"
        assert not link.draining
        assert one.model in link.offers
        again = effect.why == "runtime_back" and effect.node in one.may_return
        assert again or effect.node not in one.failed_on
        taken = sum(
            node == effect.node and self.seen[request].model == one.model
            for (request, _), node in self.leases.items()
        )
        assert taken < link.offers[one.model].slots, "never over capacity"
        one.attempt, one.node = effect.attempt, effect.node
        self.leases[effect.request, effect.attempt] = effect.node

    def retried(self, effect: Report) -> None:
        """Check the fleet's retry budget."""
        assert effect.node is not None
        self.retries.append(self.now)
        window = self.now - 10.0
        arrived = sum(when > window for when in self.arrivals)
        assert sum(when > window for when in self.retries) <= max(3, 0.1 * arrived)

    def forget(self, node: NodeId) -> None:
        """A link is gone, and every lease on it."""
        self.links.pop(node, None)
        self.leases = {key: on for key, on in self.leases.items() if on != node}
        for one in self.seen.values():
            if one.node == node:
                one.node = None
                one.failed_on.add(node)

    # Nodes.

    @rule(node=st.sampled_from(NODES), slots=st.integers(1, 3), usable=st.booleans())
    def join(self, node: NodeId, slots: int, usable: bool) -> None:
        """A node joins, maybe in place of its older link, and reports."""
        self.forget(node)
        self.links[node] = Linked(self.now, {})
        joined = self.machine.on_node_joined(node, node, "i", self.now)
        self.apply([effect for effect in joined if not isinstance(effect, Disconnect)])
        self.report(node, slots, usable, 2, False)

    @rule(
        node=st.sampled_from(NODES),
        slots=st.integers(1, 3),
        usable=st.booleans(),
        models=st.integers(0, 2),
        draining=st.booleans(),
    )
    def report(self, node: NodeId, slots: int, usable: bool, models: int, draining: bool) -> None:
        """A node reports something else than before."""
        if node not in self.links:
            return
        self.seq += 1
        offers = tuple(offer(model, slots, usable=usable) for model in MODELS[:models])
        link = self.links[node]
        link.heard_s, link.draining = self.now, draining
        # The coordinator looks at the fleet twice here: once as heard again, once as reported. The
        # model accepts work under either view, which the union of both offers allows.
        before, link.offers = link.offers, {one.model: one for one in offers}
        for model, old in before.items():
            new = link.offers.get(model)
            if new is None or new.slots < old.slots:
                link.offers[model] = old
        news = status(*(offers or (offer("other", 1),)), draining=draining)
        self.apply(self.machine.on_node_status(node, self.seq, news, self.now))
        link.offers = {one.model: one for one in offers}

    @rule(node=st.sampled_from(NODES))
    def hear(self, node: NodeId) -> None:
        """A frame of this node arrives."""
        if node in self.links:
            self.links[node].heard_s = self.now
        self.apply(self.machine.on_node_heard(node, self.now))

    @rule(node=st.sampled_from(NODES))
    def leave(self, node: NodeId) -> None:
        """A link breaks."""
        self.forget(node)
        self.apply(self.machine.on_node_left(node, self.now))

    # Requests.

    @rule(model=st.sampled_from(MODELS), timeout_s=st.none() | st.sampled_from([0.0, 1.0, 6.0]))
    def arrive(self, model: ModelId, timeout_s: float | None) -> None:
        """A client asks."""
        self.count += 1
        request = RequestId(f"r{self.count}")
        self.seen[request] = Seen(model, None if timeout_s is None else self.now + timeout_s)
        self.arrivals.append(self.now)
        terms = Terms(request, TenantId("t"), (request.encode(),), timeout_s=timeout_s)
        self.apply(self.machine.on_request(terms, model, self.now))
        if self.draining:
            assert self.seen[request].endings == ["draining"]

    def running(self, pick: int) -> tuple[RequestId, Seen] | None:
        """One of the requests on a node."""
        on = [(request, one) for request, one in self.seen.items() if one.node is not None]
        return on[pick % len(on)] if on else None

    @rule(pick=PICK)
    def progress(self, pick: int) -> None:
        """A request gets its slot, then its first token."""
        if found := self.running(pick):
            request, one = found
            self.apply(self.machine.on_started(request, one.attempt, Started(1, 0, 0), self.now))
            one.answered = True
            self.apply(self.machine.on_first_token(request, one.attempt, self.now))

    @rule(pick=PICK)
    def finish(self, pick: int) -> None:
        """A request's answer is complete."""
        if found := self.running(pick):
            request, one = found
            one.endings.append("finished")
            attempt, one.node = one.attempt, None
            self.apply(self.machine.on_finished(request, attempt, FINISHED, "answer", self.now))

    @rule(pick=PICK, reason=st.sampled_from(FAILURES), refused=st.booleans())
    def fail(self, pick: int, reason: str, refused: bool) -> None:
        """An attempt fails, before or after it held a slot."""
        if found := self.running(pick):
            request, one = found
            node, one.node = one.node, None
            assert node is not None
            if reason != "node_busy":
                one.failed_on.add(node)
            if reason == "runtime_died":
                one.may_return.add(node)
            failure = Failure(reason, "It went wrong.")
            tell = self.machine.on_refused if refused else self.machine.on_failed
            self.apply(tell(request, one.attempt, failure, self.now))
            if one.answered or reason == "context_length_exceeded":
                assert one.endings == [reason]

    @precondition(lambda self: self.leases)
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        """A node gives a place back, of an attempt that is over."""
        over = [
            (request, attempt)
            for request, attempt in self.leases
            if self.seen[request].node is None or self.seen[request].attempt != attempt
        ]
        if over:
            request, attempt = over[pick % len(over)]
            del self.leases[request, attempt]
            self.apply(self.machine.on_released(request, attempt, self.now))
            self.apply(self.machine.on_released(request, attempt, self.now))

    @precondition(lambda self: self.seen)
    @rule(pick=PICK)
    def old_news(self, pick: int) -> None:
        """A late event of an attempt that is over changes nothing."""
        request = list(self.seen)[pick % len(self.seen)]
        late = self.seen[request].attempt - 1
        before = self.machine.statistics()
        effects = self.machine.on_finished(request, late, FINISHED, "late", self.now)
        effects += self.machine.on_first_token(request, late, self.now)
        effects += self.machine.on_failed(request, late, Failure("node_lost", "Late."), self.now)
        assert effects == []
        assert self.machine.statistics() == before

    @precondition(lambda self: self.seen)
    @rule(pick=PICK)
    def client_gone(self, pick: int) -> None:
        """A client hangs up."""
        live = [request for request, one in self.seen.items() if not one.endings]
        if live:
            request = live[pick % len(live)]
            self.seen[request].endings.append("client_gone")
            self.apply(self.machine.on_client_gone(request, self.now))
            self.seen[request].node = None

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5]))
    def tick(self, seconds: float) -> None:
        """Time passes, with the ticks the machine asked for; who goes stale loses its work."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + self.machine.next_tick(self.now))
            for node, link in self.links.items():
                self.note_silence(node, link)
            self.apply(self.machine.on_tick(self.now))

    def note_silence(self, node: NodeId, link: Linked) -> None:
        """Work on a node that is silent for five seconds is lost; its leases are not yet."""
        if self.now >= link.heard_s + 5.0:
            for one in self.seen.values():
                if one.node == node:
                    one.node = None
                    one.failed_on.add(node)

    @rule()
    def drain(self) -> None:
        """The gateway is told to end, rarely."""
        if self.count > 12:
            self.draining = True
            self.apply(self.machine.on_drain(self.now))

    # What always holds.

    @invariant()
    def books_agree(self) -> None:
        """Leases, waiting and running are what the model counts."""
        if not hasattr(self, "machine"):
            return
        now = self.machine.statistics()
        assert now.leases == len(self.leases)
        for node, count in now.in_flight.items():
            assert count == sum(on == node for on in self.leases.values())
        live = [one for one in self.seen.values() if not one.endings]
        assert now.waiting == sum(one.waits for one in live)
        assert now.running == sum(not one.waits for one in live)
        assert all(len(one.endings) <= 1 for one in self.seen.values())

    def work_off(self) -> None:
        """Finish whatever runs and give back whatever is held, until neither is left."""
        while self.running(0) or self.leases:
            while self.running(0):
                self.finish(0)
            if self.leases:
                self.release(0)

    def teardown(self) -> None:
        """Let everything come to rest: nothing is left, and everybody has one ending."""
        if not hasattr(self, "machine"):
            return
        self.work_off()
        for _ in range(8):
            self.tick(2.5)
            self.work_off()
        now = self.machine.statistics()
        assert (now.waiting, now.running, now.leases) == (0, 0, 0)
        assert all(len(one.endings) == 1 for one in self.seen.values())


CoordinatorAgainstModel.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCoordinatorAgainstModel = CoordinatorAgainstModel.TestCase
