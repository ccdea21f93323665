"""VALUE: where a conversation's KV is."""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId, NodeId

REWRITTEN = "compacted"
"""Why a pin is `moved` whose KV is that of another past than the next turn goes on from."""


class Pin(msgspec.Struct, frozen=True):
    """Where a conversation's KV is: `tokens` of it, of this model, on this node.

    `moved` is why it is not where its last turn ran, "" where it is.
    """

    node: NodeId
    model: ModelId
    tokens: int = 0
    moved: str = ""
