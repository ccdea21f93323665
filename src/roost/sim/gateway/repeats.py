"""MACHINE: requests under keys, and the same ones again: what a gateway's shell does about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from roost.core.ids import RequestId, TenantId
from roost.fleet.streams.idempotency import Claim, Fresh, Idempotency, Running, Told
from roost.sim.history import History
from roost.sim.request_facts import Repeat, Trace
from roost.sim.scenario import Traffic
from roost.sim.world import World

if TYPE_CHECKING:
    from random import Random


How: TypeAlias = Literal["same", "changed", "stranger"]
"""Whether it is sent again as it was, with another body, or as it was by another tenant."""


class Plan(msgspec.Struct, frozen=True):
    """A key for a request, and when it is sent again and how."""

    key: str
    again: tuple[tuple[float, How], ...]


def plan(traffic: Traffic, dice: Random) -> Plan | None:
    """Draw whether a request has a key; nothing is drawn where no traffic has any."""
    if not traffic.keyed or dice.random() >= traffic.keyed:
        return None
    times = dice.randint(*traffic.again)
    again = [(dice.uniform(*traffic.again_s), _how(traffic, dice)) for _ in range(times)]
    return Plan(f"k{dice.randrange(traffic.keys)}", tuple(again))


def _how(traffic: Traffic, dice: Random) -> How:
    roll = dice.random()
    if roll < traffic.changed:
        return "changed"
    return "stranger" if roll < traffic.changed + traffic.strangers else "same"


class Repeats:
    """Stands before the gateway: what is fresh may go in, everything else is answered here."""

    def __init__(self, world: World, history: History, keys: Idempotency) -> None:
        self._world = world
        self._history = history
        self._keys = keys

    def admits(self, claim: Claim, trace: Trace) -> bool:
        """A request has come with a key."""
        verdict = self._keys.on_request(claim, self._world.now)
        self._world.log(f"key {claim.request} {claim.key} {type(verdict).__name__}")
        if isinstance(verdict, Fresh):
            trace.key, trace.fingerprint = claim.key, claim.fingerprint
            return True
        repeat = Repeat(claim.request, claim.tenant, claim.key, claim.fingerprint, self._world.now)
        if isinstance(verdict, Running | Told):
            repeat.twin = verdict.request
        if isinstance(verdict, Told) and verdict.answer is not None:
            repeat.answer = verdict.answer.decode()
        self._history.repeats.append(repeat)
        return False

    def ended(self, claim: Claim, trace: Trace) -> None:
        """A request under a key has come to its ending."""
        kind, _ = trace.endings[-1]
        if kind == "complete" or (kind == "broken" and trace.text):
            answer = trace.text.encode()
            kept = self._keys.on_bytes(claim, len(answer))
            self._keys.on_told(claim, answer if kept else None, self._world.now)
        else:
            self._keys.on_untold(claim)


def claim_of(plan: Plan, tenant: TenantId, body: RequestId, request: RequestId) -> Claim:
    """A request under the key of a plan; `body` stands for what it asks."""
    return Claim(tenant, plan.key, body.encode(), request)
