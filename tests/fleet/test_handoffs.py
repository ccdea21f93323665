"""Prompts that were computed ahead: once, for one tenant, for a while, and not too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.core.request import TextPrompt
from roost.errors import Failure
from roost.fleet.conversations.handoffs import Handoff, Handoffs, HandoffSettings

ANN, BOB = TenantId("key:ann"), TenantId("key:bob")
SETTINGS = HandoffSettings(each_max=2, all_max=3, ttl_s=100.0)


def handoff(text: str = "p") -> Handoff:
    """A prompt on a node."""
    return Handoff(TextPrompt(text), Pin(NodeId("n"), ModelId("m"), 9))


def made(handoffs: Handoffs, tenant: TenantId, secret: str, now: float = 0.0) -> None:
    """Reserve and place one."""
    assert handoffs.reserve(tenant, now) is None
    handoffs.place(tenant, secret, handoff(secret), now)


def reason(outcome: Handoff | Failure | None) -> str:
    """Why not; "" where it worked."""
    return outcome.reason if isinstance(outcome, Failure) else ""


def test_it_is_spent_once() -> None:
    """By its secret, and then its place is free."""
    handoffs = Handoffs(SETTINGS)
    made(handoffs, ANN, "s")
    assert handoffs.spend(ANN, "s", 1.0) == handoff("s")
    assert reason(handoffs.spend(ANN, "s", 1.0)) == "expired_handoff"
    assert len(handoffs) == 0


def test_it_is_its_tenants() -> None:
    """Whoever else has the secret gets what a stranger gets, and spends nothing."""
    handoffs = Handoffs(SETTINGS)
    made(handoffs, ANN, "s")
    assert handoffs.spend(BOB, "s", 1.0) == handoffs.spend(BOB, "never", 1.0)
    assert reason(handoffs.spend(BOB, "s", 1.0)) == "expired_handoff"
    assert handoffs.spend(ANN, "s", 1.0) == handoff("s")


def test_it_expires() -> None:
    """To the moment."""
    handoffs = Handoffs(SETTINGS)
    made(handoffs, ANN, "s", 0.0)
    made(handoffs, ANN, "t", 50.0)
    assert reason(handoffs.spend(ANN, "s", 100.0)) == "expired_handoff"
    assert (len(handoffs), handoffs.spend(ANN, "t", 149.9)) == (1, handoff("t"))


def test_room_is_reserved_and_nobody_makes_room_for_another() -> None:
    """Of one tenant and of all; with when it is worth coming back."""
    handoffs = Handoffs(SETTINGS)
    made(handoffs, ANN, "a", 0.0)
    assert handoffs.reserve(ANN, 1.0) is None
    full = handoffs.reserve(ANN, 40.0)
    assert full is not None
    assert (full.reason, full.retry_after_s) == ("rate_limit_exceeded", 60)
    made(handoffs, BOB, "b", 40.0)
    assert reason(handoffs.reserve(BOB, 40.0)) == "rate_limit_exceeded"
    handoffs.give_up(ANN)
    assert handoffs.reserve(BOB, 41.0) is None
    assert handoffs.spend(ANN, "a", 42.0) == handoff("a")
    assert handoffs.reserve(ANN, 43.0) is None


STEPS = st.lists(
    st.tuples(st.sampled_from("mugw"), st.sampled_from([ANN, BOB]), st.integers(0, 5)), max_size=60
)


@given(STEPS)
def test_a_naive_list_agrees(steps: list[tuple[str, TenantId, int]]) -> None:
    """Whatever is made, spent, given up and waited for."""
    handoffs, now = Handoffs(SETTINGS), 0.0
    live: list[tuple[TenantId, str, float]] = []
    count = 0
    for what, tenant, number in steps:
        live = [one for one in live if now < one[2]]
        if what == "w":
            now += 30.0 * number
        elif what == "u" and live:
            owner, secret, _ = live[number % len(live)]
            found = handoffs.spend(tenant, secret, now)
            assert isinstance(found, Handoff) == (owner == tenant)
            live = [one for one in live if isinstance(found, Failure) or one[1] != secret]
        elif what in "mg":
            mine = sum(one[0] == tenant for one in live)
            room = mine < SETTINGS.each_max and len(live) < SETTINGS.all_max
            assert (handoffs.reserve(tenant, now) is None) == room
            if room and what == "g":
                handoffs.give_up(tenant)
            elif room:
                count += 1
                handoffs.place(tenant, f"s{count}", handoff(f"s{count}"), now)
                live.append((tenant, f"s{count}", now + SETTINGS.ttl_s))
    assert reason(handoffs.spend(ANN, "never", now)) == "expired_handoff"
    assert len(handoffs) == sum(now < one[2] for one in live)
