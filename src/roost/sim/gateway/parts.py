"""VALUE: what a simulated gateway is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from roost.fleet.conversations.handoffs import Handoffs
from roost.fleet.coordinator import Coordinator
from roost.fleet.line.allowances import Allowances
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.said import Said
from roost.sim.gateway.handovers import MakeHandover
from roost.sim.gateway.talks import MakeTalks, TalkParts

RelayMaker: TypeAlias = Callable[[RelaySettings, bool, float, Said | None], Relay]


class FrontParts(msgspec.Struct, frozen=True):
    """What each life of the gateway is made of; tests put defective parts in."""

    coordinator: Callable[[], Coordinator]
    relay: RelayMaker
    relay_settings: RelaySettings
    talk_parts: Callable[[], TalkParts]
    talks: MakeTalks
    handover: MakeHandover
    allowances: Callable[[], Allowances]
    handoffs: Callable[[], Handoffs]
