"""Workers of system 1: alive, stale, dead by the age of a heartbeat; one place for one name."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from roost.core.worker import WorkerBeat, WorkerHealth
from roost.errors import Failure
from roost.fleet.nodes.workers import Join, Leave, Refresh, Rest, Workers, WorkerSettings


def beat(worker: str = "w", url: str = "http://a") -> WorkerBeat:
    """A heartbeat."""
    return WorkerBeat(worker, url, WorkerHealth())


def statuses(workers: Workers, now: float) -> dict[str, str]:
    """What each is at this moment."""
    return {line.beat.worker: line.status for line in workers.lines(now)}


def test_ages_decide() -> None:
    """Under 30 s alive, under 60 s stale, then dead, and forgotten at the next cleanup."""
    workers = Workers(WorkerSettings(), 0.0)
    assert workers.on_heartbeat(beat(), 5.0) == [Join(beat())]
    assert workers.next_tick() == 35.0
    assert statuses(workers, 34.9) == {"w": "alive"}
    assert statuses(workers, 35.0) == {"w": "stale"}
    assert workers.on_tick(35.0) == [Rest("w")]
    assert workers.on_tick(35.1) == []
    assert workers.next_tick() == 60.0
    assert workers.on_tick(60.0) == []
    assert workers.next_tick() == 65.0
    assert workers.on_tick(65.0) == [Leave("w")]
    assert statuses(workers, 65.0) == {"w": "dead"}
    assert workers.next_tick() == 120.0
    assert workers.on_tick(120.0) == []
    assert statuses(workers, 120.0) == {}
    assert workers.next_tick() is None


def test_a_heartbeat_makes_it_alive_again() -> None:
    """One that rests gets work again; one that was dead is linked anew."""
    workers = Workers(WorkerSettings(cleanup_s=1000.0), 0.0)
    workers.on_heartbeat(beat(), 0.0)
    assert workers.on_heartbeat(beat(), 10.0) == [Refresh(beat())]
    assert workers.on_tick(40.0) == [Rest("w")]
    assert workers.on_heartbeat(beat(), 45.0) == [Refresh(beat())]
    assert statuses(workers, 45.0) == {"w": "alive"}
    assert workers.on_tick(75.0) == [Rest("w")]
    assert workers.on_tick(105.0) == [Leave("w")]
    assert workers.on_heartbeat(beat(), 110.0) == [Join(beat())]


def test_a_name_has_one_place() -> None:
    """Somebody else under it is refused until it is dead; a refusal changes nothing."""
    workers = Workers(WorkerSettings(), 0.0)
    workers.on_heartbeat(beat(), 0.0)
    refused = workers.on_heartbeat(beat(url="http://b"), 59.9)
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.status) == ("worker_id_taken", 409)
    assert [line.beat.url for line in workers.lines(59.9)] == ["http://a"]
    # Dead by its age before any tick has said so: the link that is left ends first.
    assert workers.on_heartbeat(beat(url="http://b"), 60.0) == [
        Leave("w"),
        Join(beat(url="http://b")),
    ]


def test_a_link_that_ended_is_made_anew_with_the_next_heartbeat() -> None:
    """Until then the worker is stale: it lives, but not for us."""
    workers = Workers(WorkerSettings(), 0.0)
    workers.on_heartbeat(beat(), 0.0)
    workers.on_unlinked("w", 5.0)
    assert statuses(workers, 5.0) == {"w": "stale"}
    assert workers.on_heartbeat(beat(), 10.0) == [Join(beat())]
    assert statuses(workers, 10.0) == {"w": "alive"}
    workers.on_unlinked("nobody", 11.0)
    workers.on_unlinked("w", 12.0)
    moved = beat(url="http://b")
    assert workers.on_heartbeat(moved, 13.0) == [Join(moved)], "nobody is where it was"


def test_another_key_is_another_process() -> None:
    """Its link is made anew at once: nothing that was there before is there now."""
    workers = Workers(WorkerSettings(), 0.0)
    first = WorkerBeat("w", "http://a", WorkerHealth(), key="1")
    then = WorkerBeat("w", "http://a", WorkerHealth(), key="2")
    workers.on_heartbeat(first, 0.0)
    assert workers.on_heartbeat(then, 1.0) == [Leave("w"), Join(then)]
    assert workers.on_heartbeat(then, 2.0) == [Refresh(then)]


def test_there_is_room_for_so_many() -> None:
    """One more is refused, unless one of them is dead."""
    workers = Workers(WorkerSettings(most=1, cleanup_s=1000.0), 0.0)
    workers.on_heartbeat(beat("a"), 0.0)
    refused = workers.on_heartbeat(beat("b"), 1.0)
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.retry_after_s) == ("overloaded", 60)
    assert workers.on_tick(30.0) == [Rest("a")]
    assert workers.on_tick(60.0) == [Leave("a")]
    assert workers.on_heartbeat(beat("b"), 61.0) == [Join(beat("b"))]
    assert statuses(workers, 61.0) == {"b": "alive"}


def test_its_own_sleep_is_held_against_nobody() -> None:
    """A tick that comes an hour late finds everybody as old as they were."""
    workers = Workers(WorkerSettings(), 0.0)
    workers.on_heartbeat(beat(), 0.0)
    assert workers.on_tick(3600.0) == [Rest("w")]
    assert statuses(workers, 3600.0) == {"w": "stale"}


class AnyOrder(RuleBasedStateMachine):
    """Links follow from effects alone, whatever happens in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.workers = Workers(WorkerSettings(most=3), self.now)
        self.linked: dict[str, str] = {}

    @rule(name=st.sampled_from("abcd"), url=st.sampled_from("xy"))
    def hears(self, name: str, url: str) -> None:
        """A heartbeat."""
        effects = self.workers.on_heartbeat(beat(name, url), self.now)
        if not isinstance(effects, Failure):
            self.perform(effects)

    @rule(seconds=st.floats(0.0, 45.0))
    def waits(self, seconds: float) -> None:
        """Time passes, with every tick at its time."""
        until = self.now + seconds
        while (due := self.workers.next_tick()) is not None and due <= until:
            self.now = due
            self.perform(self.workers.on_tick(self.now))
        self.now = until

    @rule(name=st.sampled_from("abcd"))
    def unlinks(self, name: str) -> None:
        """A link ends by itself."""
        self.linked.pop(name, None)
        self.workers.on_unlinked(name, self.now)

    def perform(self, effects: list[Join | Refresh | Rest | Leave]) -> None:
        """Keep the links as told, and never make one twice."""
        for effect in effects:
            match effect:
                case Join(joined):
                    assert joined.worker not in self.linked
                    self.linked[joined.worker] = joined.url
                case Refresh(again):
                    assert self.linked[again.worker] == again.url
                case Rest(worker):
                    assert worker in self.linked
                case Leave(worker):
                    del self.linked[worker]

    @invariant()
    def who_has_a_link_is_not_dead(self) -> None:
        """Whoever is alive has a link, and no dead one has."""
        for line in self.workers.lines(self.now):
            linked = line.beat.worker in self.linked
            assert linked or line.status != "alive"
            assert not linked or line.status != "dead"
        assert len(self.workers.lines(self.now)) <= 3


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
