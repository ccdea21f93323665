"""What a key stands for, and what is given up when memory is full."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from roost.core.ids import RequestId, TenantId
from roost.fleet.streams.idempotency import (
    Changed,
    Claim,
    Fresh,
    Full,
    Idempotency,
    IdempotencySettings,
    Running,
    Told,
    Verdict,
)

ANN, BOB = TenantId("key:ann"), TenantId("key:bob")


def claim(
    key: str = "k", request: str = "r1", tenant: TenantId = ANN, body: bytes = b"one"
) -> Claim:
    """A request under a key."""
    return Claim(tenant, key, body, RequestId(request))


def keys(**limits: float) -> Idempotency:
    """Nothing known yet."""
    return Idempotency(IdempotencySettings(**limits))  # type: ignore[arg-type]


def run(known: Idempotency, one: Claim, answer: bytes, now: float = 0.0) -> None:
    """Let a request run and be answered."""
    assert known.on_request(one, now) == Fresh()
    kept = known.on_bytes(one, len(answer))
    known.on_told(one, answer if kept else None, now)


def test_the_first_runs_and_the_second_waits() -> None:
    """While the first runs its twin learns its id; nothing else is said about it."""
    known = keys()
    assert known.on_request(claim(), 0.0) == Fresh()
    assert known.on_request(claim(request="r2"), 1.0) == Running(RequestId("r1"))


@pytest.mark.parametrize("over", [False, True])
def test_another_body_is_another_request(over: bool) -> None:
    """A key that stands for something else is refused, before and after the end."""
    known = keys()
    known.on_request(claim(), 0.0)
    if over:
        known.on_told(claim(), b"answer", 1.0)
    assert known.on_request(claim(request="r2", body=b"two"), 2.0) == Changed()


def test_the_answer_is_told_again_until_it_is_too_old() -> None:
    """Byte for byte, with the id of the request that ran; then the key is free."""
    known = keys(ttl_s=100)
    run(known, claim(), b"answer", now=10.0)
    assert known.on_request(claim(request="r2"), 109.0) == Told(RequestId("r1"), b"answer")
    assert known.on_request(claim(request="r3"), 110.0) == Fresh()
    assert known.held_bytes == 0


def test_tenants_do_not_share_keys() -> None:
    """The same key of somebody else is another key."""
    known = keys()
    run(known, claim(), b"for ann")
    assert known.on_request(claim(request="r2", tenant=BOB), 0.0) == Fresh()
    known.on_untold(claim(request="r2", tenant=BOB))
    assert known.on_request(claim(request="r3"), 0.0) == Told(RequestId("r1"), b"for ann")


def test_what_was_not_told_frees_the_key() -> None:
    """A refusal is not remembered: the next one tries again."""
    known = keys()
    known.on_request(claim(), 0.0)
    known.on_bytes(claim(), 5)
    known.on_untold(claim())
    assert (len(known), known.held_bytes) == (0, 0)
    assert known.on_request(claim(request="r2"), 0.0) == Fresh()


def test_news_of_a_request_that_has_lost_its_key_changes_nothing() -> None:
    """Whoever ended long ago cannot speak for the one that runs now."""
    known = keys()
    known.on_request(claim(), 0.0)
    known.on_untold(claim())
    known.on_request(claim(request="r2"), 0.0)
    known.on_told(claim(), b"late", 0.0)
    known.on_untold(claim())
    assert not known.on_bytes(claim(), 1)
    assert known.on_request(claim(request="r3"), 0.0) == Running(RequestId("r2"))


def test_an_answer_that_is_too_large_is_remembered_without_its_text() -> None:
    """It has run, so it does not run again, and nothing of it is held."""
    known = keys(answer_max_bytes=10)
    known.on_request(claim(), 0.0)
    assert known.on_bytes(claim(), 10)
    assert not known.on_bytes(claim(), 1)
    assert not known.on_bytes(claim(), 1)
    assert known.held_bytes == 0
    known.on_told(claim(), None, 0.0)
    assert known.on_request(claim(request="r2"), 0.0) == Told(RequestId("r1"), None)


def test_the_oldest_answers_make_room_and_their_keys_stay() -> None:
    """A full memory forgets what was said before it forgets that it was said."""
    known = keys(answers_max_bytes=10)
    for number in range(3):
        run(known, claim(f"k{number}", f"r{number}"), b"12345")
    assert known.held_bytes == 10
    answers = [known.on_request(claim(f"k{n}", "again"), 0.0) for n in range(3)]
    assert answers == [
        Told(RequestId("r0"), None),
        Told(RequestId("r1"), b"12345"),
        Told(RequestId("r2"), b"12345"),
    ]


def test_answers_in_the_making_count_too() -> None:
    """What is being collected is bounded together with what is kept."""
    known = keys(answers_max_bytes=10)
    known.on_request(claim("k1", "r1"), 0.0)
    known.on_request(claim("k2", "r2"), 0.0)
    assert known.on_bytes(claim("k1", "r1"), 8)
    assert not known.on_bytes(claim("k2", "r2"), 8)
    known.on_told(claim("k1", "r1"), b"12345678", 0.0)
    assert known.held_bytes == 8


def test_the_oldest_key_makes_room_for_a_new_one() -> None:
    """The number of keys is bounded; a running one is never given up."""
    known = keys(entries=2)
    known.on_request(claim("running", "r0"), 0.0)
    run(known, claim("k1", "r1"), b"x")
    run(known, claim("k2", "r2"), b"x")
    assert len(known) == 2
    assert known.on_request(claim("running", "r3"), 0.0) == Running(RequestId("r0"))
    assert isinstance(known.on_request(claim("k2", "r4"), 0.0), Told)
    assert known.on_request(claim("k1", "r5"), 0.0) == Fresh()
    assert known.on_request(claim("k3", "r6"), 0.0) == Full()


def test_a_flood_of_keys_pushes_out_its_own() -> None:
    """Whoever has more than a share gives up one of its own for the next."""
    known = keys(entries=4)
    run(known, claim("b", "b", BOB), b"x")
    for number in range(20):
        run(known, claim(f"k{number}", f"r{number}"), b"x")
    assert isinstance(known.on_request(claim("b", "again", BOB), 0.0), Told)


def test_a_flood_of_answers_pushes_out_its_own() -> None:
    """Whoever fills the memory for answers forgets what it was told itself."""
    known = keys(answers_max_bytes=40)
    run(known, claim("b", "b", BOB), b"for bob")
    for number in range(20):
        run(known, claim(f"k{number}", f"r{number}"), b"12345")
    assert known.on_request(claim("b", "again", BOB), 0.0) == Told(RequestId("b"), b"for bob")
    assert known.on_request(claim("k19", "again"), 0.0) == Told(RequestId("r19"), b"12345")
    assert known.held_bytes <= 40


def test_answers_in_the_making_push_out_no_one_elses() -> None:
    """A tenant that fills the memory with what still runs does without, and others keep theirs."""
    known = keys(answers_max_bytes=20)
    run(known, claim("b", "b", BOB), b"for bob")
    assert known.on_request(claim(), 0.0) == Fresh()
    assert known.on_bytes(claim(), 13)
    assert not known.on_bytes(claim(), 1)
    assert known.on_request(claim("b", "again", BOB), 0.0) == Told(RequestId("b"), b"for bob")


@dataclass
class Life:
    """What a client knows of one key of its own."""

    body: bytes
    request: RequestId
    answer: bytes | None = None
    running: bool = True


TENANTS = st.sampled_from([ANN, BOB])
KEYS = st.sampled_from(["k1", "k2", "k3"])
BODIES = st.sampled_from([b"one", b"two"])


class Clients(RuleBasedStateMachine):
    """Any order of requests, endings and time, against what the clients themselves remember."""

    def __init__(self) -> None:
        super().__init__()
        self.known = keys(ttl_s=50, answer_max_bytes=6)
        self.lives: dict[tuple[TenantId, str], Life] = {}
        self.ends_s: dict[tuple[TenantId, str], float] = {}
        self.now = 0.0
        self.requests = 0

    @rule(tenant=TENANTS, key=KEYS, body=BODIES)
    def ask(self, tenant: TenantId, key: str, body: bytes) -> None:
        """A request comes with a key."""
        self.requests += 1
        request = RequestId(f"r{self.requests}")
        verdict = self.known.on_request(Claim(tenant, key, body, request), self.now)
        assert verdict == self.expected(tenant, key, body)
        if verdict == Fresh():
            self.lives[tenant, key] = Life(body, request)
            self.ends_s.pop((tenant, key), None)

    def expected(self, tenant: TenantId, key: str, body: bytes) -> Verdict:
        """What a client may expect to hear."""
        life = self.lives.get((tenant, key))
        if life is None or self.ends_s.get((tenant, key), self.now + 1) <= self.now:
            return Fresh()
        if life.body != body:
            return Changed()
        return Running(life.request) if life.running else Told(life.request, life.answer)

    @rule(tenant=TENANTS, key=KEYS, answer=st.binary(max_size=9), told=st.booleans())
    def end(self, tenant: TenantId, key: str, answer: bytes, told: bool) -> None:
        """A request that runs comes to an end."""
        life = self.lives.get((tenant, key))
        if life is None or not life.running:
            return
        one = Claim(tenant, key, life.body, life.request)
        growths = [self.known.on_bytes(one, 1) for _ in answer]
        kept = all(growths)
        if not told:
            self.known.on_untold(one)
            del self.lives[tenant, key]
            return
        life.answer, life.running = (answer if kept else None), False
        self.ends_s[tenant, key] = self.now + 50
        self.known.on_told(one, life.answer, self.now)
        assert kept == (len(answer) <= 6)

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @invariant()
    def holds_what_it_must(self) -> None:
        """Bytes are those of answers that are kept, and of nothing else."""
        most = sum(len(life.answer or b"") for life in self.lives.values())
        assert 0 <= self.known.held_bytes <= most


Clients.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestClients = Clients.TestCase
