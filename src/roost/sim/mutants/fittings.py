"""WIRING: production parts with one of them replaced, as a mutant needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from roost.core.snapshots import ModelOffer
from roost.fleet.choice.routing import Dice
from roost.fleet.conversations.compaction import Compaction
from roost.fleet.conversations.registry import Conversations
from roost.fleet.coordinator import Coordinator
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay
from roost.node.agent import Agent
from roost.node.settings import AgentSettings
from roost.sim.gateway.front import Front
from roost.sim.gateway.parts import RelayMaker
from roost.sim.gateway.talks import Talks
from roost.sim.play import Parts

Case: TypeAlias = tuple[str, Parts, str, str]
"""A mutant: its name, its parts, the scenario that shows it, the claim that it breaks."""


def front(kind: type[Front]) -> Parts:
    """Production parts in a shell that is not."""
    return Parts(front=kind)


def coordinator(kind: type[Coordinator]) -> Parts:
    """Production parts but for the coordinator."""
    return Parts(coordinator=kind)


def settings(**changes: float) -> Parts:
    """A coordinator that ignores one of its limits."""

    def make(given: FleetSettings, dice: Dice) -> Coordinator:
        return Coordinator(msgspec.structs.replace(given, **changes), dice)

    return Parts(coordinator=make)


def relay(kind: type[Relay]) -> Parts:
    """Production parts but for the relay."""
    return Parts(relay=_relay(kind))


def _relay(kind: type[Relay]) -> RelayMaker:
    return lambda given, streamed, now, said: kind(given, streamed=streamed, now=now, said=said)


def registry(kind: type[Conversations]) -> Parts:
    """Production parts but for the registry of conversations."""
    return Parts(registry=kind)


def compaction(kind: type[Compaction]) -> Parts:
    """Production parts but for who makes pasts shorter."""
    return Parts(compaction=kind)


def talks(kind: type[Talks]) -> Parts:
    """Production parts, and a shell that does not keep conversations as it should."""
    return Parts(talks=kind)


def agent(kind: type[Agent]) -> Parts:
    """Production parts but for the node's agent."""

    def make(given: AgentSettings, offers: Sequence[ModelOffer]) -> Agent:
        return kind(given, offers)

    return Parts(agent=make)
