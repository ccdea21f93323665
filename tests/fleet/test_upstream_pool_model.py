"""Any order of events on the pool of the stateless gateway keeps its promises."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.fleet.upstream.effects import Granted, Lease, PoolEffect, Queued, Refused
from roost.fleet.upstream.pool import PoolSettings, UpstreamPool


class PoolWorld(RuleBasedStateMachine):
    """Any order of events keeps the counts true and forgets nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(0)
        self.pool = UpstreamPool(
            ["a", "b", "c"], PoolSettings(max_in_flight=2, queue_length=3, queue_wait_s=5)
        )
        self.now = 0.0
        self.ticket = 0
        self.leases: list[Lease] = []
        self.waiting: set[int] = set()
        self.models: dict[int, str | None] = {}

    def take(self, effects: list[PoolEffect]) -> None:
        """Carry effects out, as the shell does."""
        for effect in effects:
            if isinstance(effect, Granted):
                self.leases.append(effect.lease)
                self.waiting.discard(effect.ticket)
            elif isinstance(effect, Queued):
                self.waiting.add(effect.ticket)
            elif isinstance(effect, Refused):
                self.waiting.discard(effect.ticket)
                hint = effect.failure.retry_after_s
                assert hint is not None
                assert 1 <= hint <= 120

    @rule(seconds=st.floats(0, 3))
    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.take(self.pool.on_tick(self.now))

    @rule(model=st.sampled_from([None, "m", "n", "x"]))
    def request(self, model: str | None) -> None:
        """Somebody asks, for a model or none."""
        self.ticket += 1
        self.models[self.ticket] = model
        self.take([self.pool.on_request(self.ticket, self.now, self.rng, model)])

    @rule(
        name=st.sampled_from("abc"),
        models=st.sampled_from([None, (), ("m",), ("n",), ("m", "n")]),
    )
    def lists(self, name: str, models: tuple[str, ...] | None) -> None:
        """A server's list is read."""
        if name in self.known:
            self.take(self.pool.on_models(name, models, self.rng))

    @rule(name=st.sampled_from("abc"), parked=st.booleans())
    def park(self, name: str, parked: bool) -> None:
        """An operator drains a server, or ends that."""
        if name in self.known:
            self.take(self.pool.on_parked(name, self.rng, parked=parked))

    @rule(names=st.sets(st.sampled_from("abc"), min_size=1))
    def relist(self, names: set[str]) -> None:
        """The list of servers changes."""
        self.take(self.pool.on_servers(sorted(names), self.rng))

    @rule(name=st.sampled_from("abc"), silence_s=st.sampled_from([None, 1.0, 100.0]))
    def silence(self, name: str, silence_s: float | None) -> None:
        """Answers stand still or move."""
        if name in self.known:
            self.take(self.pool.on_silence(name, silence_s, self.rng))

    @property
    def known(self) -> set[str]:
        """The servers that the pool has not forgotten."""
        return {s.server for s in self.pool.statistics().servers}

    @rule(tried=st.frozensets(st.sampled_from("abc")))
    def retry(self, tried: frozenset[str]) -> None:
        """Somebody has to ask elsewhere."""
        effect = self.pool.on_retry(self.ticket, tried, self.now, self.rng)
        if effect is not None:
            assert effect.lease.server not in tried
            self.take([effect])

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), served=st.booleans())
    def release(self, data: st.DataObject, served: bool) -> None:
        """An answer is over."""
        lease = data.draw(st.sampled_from(self.leases))
        self.leases.remove(lease)
        self.take(self.pool.on_released(lease, self.now, self.rng, served=served))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A waiting client leaves."""
        ticket = data.draw(st.sampled_from(sorted(self.waiting)))
        self.waiting.discard(ticket)
        self.pool.on_left(ticket)

    @rule(name=st.sampled_from("abc"), ok=st.booleans())
    def probe(self, name: str, ok: bool) -> None:
        """A probe ends."""
        if name in self.known:
            self.take(self.pool.on_probed(name, self.now, self.rng, ok=ok))

    @rule(name=st.sampled_from("abc"))
    def fail(self, name: str) -> None:
        """A connection is lost."""
        if name in self.known:
            self.take(self.pool.on_failed(name, self.now, self.rng))

    @invariant()
    def counts_are_true(self) -> None:
        """What the pool counts is what was granted and not given back; nobody is over the limit."""
        view = self.pool.statistics()
        held = Counter(lease.server for lease in self.leases)
        assert {s.server: s.in_flight for s in view.servers if s.in_flight} == held
        assert all(0 <= s.in_flight <= 2 for s in view.servers)
        assert view.queued == len(self.waiting)

    @invariant()
    def nobody_waits_beside_a_free_place(self) -> None:
        """Somebody waits only while every server that may take the model is full.

        Those that stand still do not count, unless all that may take it do.
        """
        view = self.pool.statistics()
        on_list = [s for s in view.servers if not s.drained]
        for model in {self.models[ticket] for ticket in self.waiting}:
            listed = any(model in (s.models or ()) for s in view.servers)
            working = [
                s
                for s in on_list
                if s.health == "healthy" and (not listed or s.models is None or model in s.models)
            ]
            moving = [s for s in working if not s.stalled]
            assert working, "nobody waits for what no server can do"
            assert all(s.in_flight == 2 for s in moving or working)


PoolWorld.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPoolWorld = PoolWorld.TestCase
