"""VALUE: what a node keeps of conversations, as operators see it, and what they may ask of it.

Nothing here has anything of a prompt; tenants go by the names that the node salts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ModelId, TenantId
from roost.errors import Failure

StateTier = Literal["slot", "ram", "disk"]
StateStatus = Literal["ready", "moving", "busy"]
StateAction = Literal["save", "erase", "pin", "unpin", "promote", "demote"]
StateWish: TypeAlias = Literal["list"] | StateAction

IDS_MAX = 100
"""States that one order may name."""


class StateView(msgspec.Struct, frozen=True):
    """One state: in a slot, or put aside (`st_…`) in memory or on disk.

    `size_bytes` is None where nobody has measured it, `idle_s` since it was last in use, and
    `expires_in_s` when it goes for that; None for what is in a slot. `reusable` says whether a
    runtime that lives can read it. `tokens` counts all that it holds.
    """

    id: str
    model: ModelId
    tier: StateTier
    status: StateStatus
    tenant: TenantId
    tokens: int
    size_bytes: int | None = None
    idle_s: float | None = None
    expires_in_s: float | None = None
    pinned: bool = False
    reusable: bool = True


class StateResult(msgspec.Struct, frozen=True):
    """What came of a wish about one state; no `failure` is success."""

    id: str
    failure: Failure | None = None
