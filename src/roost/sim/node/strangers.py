"""MACHINE: what gateways ask of a simulated node that nobody in the simulation knows.

One takes every place there is; others say again what has been said, as if they had taken over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from roost.core.fence import Epoch, Fence
from roost.core.ids import RequestId, StreamId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message
from roost.core.snapshots import ModelOffer
from roost.wire.messages import Open

KEPT_OPENS = 16
"""How many of the newest Opens a fault may say again."""
STRANGER = 0
"""Number of the link of another gateway, or less; those of the node's own gateway count from 1."""


class Strangers:
    """Makes their Opens; `heard` is each of the node's own gateway."""

    def __init__(self) -> None:
        self._opens: deque[Open] = deque(maxlen=KEPT_OPENS)
        self._links = 0

    def heard(self, message: Open) -> None:
        """Remember it, for a while."""
        self._opens.append(message)

    def link(self) -> int:
        """Number a new link."""
        self._links += 1
        return STRANGER - self._links

    def crowd(self, offers: Sequence[ModelOffer]) -> Iterator[Open]:
        """Ask for every place of every model."""
        wanted = [offer.model for offer in offers for _ in range(offer.slots)]
        for number, model in enumerate(wanted):
            prompt = ChatPrompt((Message("user", f"stranger {number}"),))
            request = GenerateRequest(model, prompt, max_tokens=1000)
            rid = RequestId(f"stranger {number}")
            yield Open(StreamId(number), rid, TenantId("key:stranger"), request, credit=10_000)

    def again(self, generation: int) -> Iterator[Open]:
        """Ask for what was asked for last, just as it was for 0, else as that generation."""
        for number, message in enumerate(list(self._opens)):
            assert message.fence is not None, "the gateway fences whatever it asks for"
            fence = message.fence
            if generation:
                fence = Fence(fence.key, Epoch(generation, number, "another"))
            yield msgspec.structs.replace(message, stream=StreamId(number), fence=fence)
