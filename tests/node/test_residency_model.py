"""Residency against a naive model: whatever comes in whatever order, both do and say the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer, RuntimeState
from roost.errors import Failure
from roost.node.effects import Load, Look, StreamKey
from roost.node.models.boarding import Clear
from roost.node.models.ledger import RoomSettings
from roost.node.models.residency import BackoffSettings, Ready, Residency, TellAll, Unavailable
from tests.node.kit import key, offer

MODELS = tuple(ModelId(name) for name in "abcd")
OFFERS: dict[ModelId, ModelOffer] = {model: offer(model) for model in MODELS}
FAILED = Failure("load_failed", "no")
BACKOFF = BackoffSettings(first_s=2.0, max_s=8.0)
MIN_S, TURN_S, WAIT_S = 3.0, 10.0, 25.0
Said = tuple[str, str]
What = Literal["want", "leave", "loaded", "failed", "hung", "gone", "use"]


@dataclass
class Lane:
    """All that the naive model knows of a model."""

    state: RuntimeState = "absent"
    runtime: str = ""
    waiting: list[StreamKey] = field(default_factory=list)
    failures: int = 0
    retry_s: float = 0.0
    began_s: float = 0.0
    used_s: float = 0.0
    may_go_s: float = 0.0
    busy: bool = False


class Naive:
    """One list of models in order of coming and one of runtimes in order of starting."""

    def __init__(self, most: int, *, evict: bool) -> None:
        self.most = most
        self.evict = evict
        self.lanes = {model: Lane() for model in MODELS}
        self.line: list[tuple[ModelId, float]] = []
        self.alive: list[ModelId] = []
        self.looked: set[ModelId] = set()
        self.born = 0

    def want(self, model: ModelId, waiter: StreamKey, now: float) -> str:
        """Somebody wants it."""
        lane = self.lanes[model]
        if lane.state == "ready":
            return "ready"
        if lane.state in ("failed", "stopping") and lane.failures and now < lane.retry_s:
            return "unavailable"
        lane.waiting.append(waiter)
        if lane.state == "failed":
            lane.state = "absent"
        if lane.state == "absent":
            self.join(model, now)
        return "wait"

    def join(self, model: ModelId, now: float) -> None:
        """It waits for room, unless it does already."""
        if model not in [one for one, _ in self.line]:
            self.line.append((model, now))
            self.looked.discard(model)

    def out(self, model: ModelId) -> None:
        """It does not wait for room any more."""
        self.line = [one for one in self.line if one[0] != model]

    def gone(self, model: ModelId, now: float) -> None:
        """Its runtime has ended."""
        lane = self.lanes[model]
        self.alive.remove(model)
        lane.busy = False
        lane.state = "failed" if lane.failures and not lane.waiting else "absent"
        if lane.waiting:
            self.join(model, now)

    def failed(self, model: ModelId, now: float) -> list[StreamKey]:
        """Its load has failed: who is told."""
        lane = self.lanes[model]
        lane.retry_s = now + min(BACKOFF.max_s, BACKOFF.first_s * 2**lane.failures)
        lane.failures += 1
        told, lane.waiting = lane.waiting, []
        return told

    def steps(self, now: float) -> list[Said]:
        """Everything that is done now for those who wait for room."""
        said: list[Said] = []
        while self.line and (step := self.step(now)) is not None:
            said.append(step)
        return said

    def step(self, now: float) -> Said | None:
        """What is done for the first in line."""
        model, since = self.line[0]
        staying = [one for one in self.alive if self.lanes[one].state != "stopping"]
        if not self.most or len(self.alive) < self.most:
            return self.start(model, now)
        crowded = len(staying) >= self.most
        if crowded and not self.evict:
            return self.refuse(model)
        ready = [one for one in staying if self.lanes[one].state == "ready"]
        idle = [one for one in ready if not self.lanes[one].busy]
        if crowded and (old := self.old(idle, now)):
            return self.clear(model, old)
        if now >= since + WAIT_S:
            return self.refuse(model)
        if crowded and not idle and now >= since + TURN_S and (old := self.old(ready, now)):
            return self.clear(model, old)
        return None

    def old(self, models: list[ModelId], now: float) -> list[ModelId]:
        """Those of them that may go, the least recently used first."""
        found = [one for one in models if self.lanes[one].may_go_s <= now]
        return sorted(found, key=lambda one: self.lanes[one].used_s)

    def start(self, model: ModelId, now: float) -> Said:
        """There is room."""
        lane = self.lanes[model]
        self.born += 1
        lane.state, lane.began_s, lane.runtime = "loading", now, f"{model}#{self.born}"
        self.alive.append(model)
        self.out(model)
        return ("load", lane.runtime)

    def refuse(self, model: ModelId) -> Said:
        """There is none."""
        self.out(model)
        told, self.lanes[model].waiting = self.lanes[model].waiting, []
        return ("tell", ",".join(str(one.stream) for one in told))

    def clear(self, model: ModelId, old: list[ModelId]) -> Said:
        """The least recently used goes, once the newcomer's files have been looked at."""
        if model not in self.looked:
            self.looked.add(model)
            return ("look", model)
        self.lanes[old[0]].state = "stopping"
        return ("clear", self.lanes[old[0]].runtime)


class Both:
    """The real one and the naive one, told the same."""

    def __init__(self, most: int, *, evict: bool) -> None:
        room = RoomSettings(most, 0, MIN_S, TURN_S, WAIT_S, evict=evict)
        self.real = Residency(BACKOFF, room)
        self.naive = Naive(most, evict=evict)
        self.now = 0.0
        self.asked = 0

    def do(self, what: What, pick: int) -> None:
        """One thing happens to one of those it can happen to; then all that it makes possible."""
        able = [model for model, lane in self.naive.lanes.items() if _can(what, lane)]
        if able:
            self.happen(what, able[pick % len(able)])
        self.settle()

    def happen(self, what: What, model: ModelId) -> None:
        """One thing happens to this one."""
        lane = self.naive.lanes[model]
        runtime = RuntimeId(lane.runtime)
        if what == "want":
            self.want(model)
        elif what == "leave":
            self.leave(model, lane.waiting[0])
        elif what == "loaded":
            lane.state, lane.failures = "ready", 0
            lane.used_s = self.now
            lane.may_go_s = self.now + max(MIN_S, self.now - lane.began_s)
            told, lane.waiting = lane.waiting, []
            assert list(self.real.on_loaded(runtime, self.now)) == told
        elif what == "failed":
            told = self.naive.failed(model, self.now)
            self.naive.alive.remove(model)
            lane.state = "failed"
            assert list(self.real.on_load_failed(runtime, FAILED, self.now)) == told
        elif what == "hung":
            told = self.naive.failed(model, self.now)
            lane.state = "stopping"
            assert list(self.real.on_hung(runtime, FAILED, self.now)) == told
        elif what == "gone":
            self.naive.gone(model, self.now)
            self.real.on_gone(runtime, self.now)
        elif what == "use":
            lane.busy, lane.used_s = not lane.busy, self.now
            self.real.ledger.used(runtime, self.now)

    def want(self, model: ModelId) -> None:
        """Somebody new wants the model."""
        self.asked += 1
        waiter = key(self.asked)
        answer = self.naive.want(model, waiter, self.now)
        real = self.real.want(model, waiter, self.now)
        kinds: dict[type, str] = {Ready: "ready", Unavailable: "unavailable"}
        assert kinds.get(type(real), "wait") == answer

    def leave(self, model: ModelId, waiter: StreamKey) -> None:
        """Somebody does not wait any more."""
        lane = self.naive.lanes[model]
        lane.waiting.remove(waiter)
        if not lane.waiting:
            self.naive.out(model)
        self.real.leave(model, waiter)

    def settle(self) -> None:
        """Both do all they can, the same; then they have come to the same."""
        assert self.real_steps() == self.naive.steps(self.now)
        lanes = self.naive.lanes
        for one in self.real.residences():
            lane = lanes[one.model]
            assert (one.state, one.waiting) == (lane.state, len(lane.waiting))
        most = self.naive.most
        assert not most or len(self.naive.alive) <= most

    def real_steps(self) -> list[Said]:
        """What the real one does, in the naive one's words."""
        busy = [RuntimeId(lane.runtime) for lane in self.naive.lanes.values() if lane.busy]
        said: list[Said] = []
        while (step := self.real.step(OFFERS, busy, self.now)) is not None:
            match step:
                case Load():
                    said.append(("load", step.runtime))
                case Look(model):
                    said.append(("look", model))
                    assert self.real.on_looked(model, None, self.now) == ()
                case Clear(runtimes):
                    (runtime,) = runtimes
                    said.append(("clear", runtime))
                    assert self.real.retire(runtime)
                case TellAll():
                    said.append(("tell", ",".join(str(one.stream) for one in step.waiting)))
        return said


KINDS_OF_EVENT = st.sampled_from(
    (*["want"] * 4, *["loaded"] * 3, *["use"] * 2, *["gone"] * 2, "leave", "failed", "hung")
)
WAITS = st.sampled_from((0.0, 0.0, 0.5, 2.0, 6.0, 12.0, 30.0))
HAPPENINGS = st.lists(st.tuples(KINDS_OF_EVENT, st.integers(0, 3), WAITS), min_size=20, max_size=60)


def _can(what: What, lane: Lane) -> bool:
    """Whether this can happen to a model."""
    match what:
        case "want":
            return True
        case "leave":
            return bool(lane.waiting)
        case "use":
            return lane.state == "ready"
        case "gone":
            # Others than those that are on their way out die as well, but that is rare.
            return lane.state == "stopping" or (lane.state == "ready" and lane.busy)
        case _:
            return lane.state == "loading"


@settings(max_examples=200)
@given(happenings=HAPPENINGS, most=st.sampled_from((1, 2, 3, 0)), evict=st.sampled_from((1, 1, 0)))
def test_whatever_happens_both_do_the_same(
    happenings: list[tuple[What, int, float]], most: int, evict: int
) -> None:
    """Loads, failures, hangs, deaths, use and time: the same who loads, goes, waits and is told."""
    both = Both(most, evict=bool(evict))
    for what, pick, seconds in happenings:
        both.do(what, pick)
        both.now += seconds
        both.settle()
