"""VALUE: what happens on the account of a simulated tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roost.core.ids import RequestId

Kind = Literal["in", "out", "over", "reborn"]


@dataclass(slots=True)
class Booking:
    """What happened on a tenant's account: a request was let `in`, kept `out`, or is `over`.

    `reborn` is a gateway that has forgotten all of it. At its end a request had taken `tokens`; for
    the others these are what it would probably take.
    """

    kind: Kind
    at_s: float
    request: RequestId
    tenant: str = ""
    tokens: int = 0
