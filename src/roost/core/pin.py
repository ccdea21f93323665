"""VALUE: where a conversation's KV is."""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId, NodeId


class Pin(msgspec.Struct, frozen=True):
    """Where a conversation's KV is: `tokens` of it, of this model, on this node."""

    node: NodeId
    model: ModelId
    tokens: int = 0
