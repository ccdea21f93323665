"""VALUE: a request of a client, and what whoever asks it needs of the workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from roost.core.ids import RequestId
from roost.core.request import GenerateRequest, Message, Terms
from roost.sim.gateway.lines import Reader
from roost.sim.request_facts import Trace
from roost.sim.traffic.clients import Manners, nothing


class Asked(msgspec.Struct, frozen=True):
    """A request on its way, how its client behaves, and what follows its end.

    `enter` is how it comes in, where that is not as a request like any other.
    """

    trace: Trace
    request: GenerateRequest
    terms: Terms
    messages: tuple[Message, ...]
    manners: Manners
    ended: Callable[[], None] = nothing
    enter: Callable[[Reader], None] | None = None


class Sender(Protocol):
    """What whoever asks needs of the workload, whatever is asked."""

    def new_id(self) -> RequestId:
        """Name one more request."""
        ...

    def put(self, asked: Asked) -> None:
        """Put a request on its way."""
        ...
