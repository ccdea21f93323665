"""DECIDER: what memory a model takes in a runtime, before it is loaded: weights, KV, workspace.

The workspace is llama.cpp's scratch space for one step: of each token the rows that are alive at
once in the widest part of a layer, and one mask entry for each cell that the token could see. It is
known for models with one plain feed-forward part; experts and others get no number, for that would
be a guess.
"""

from __future__ import annotations

import msgspec

from roost.core.kv import KvPlan, cells_of, cost_of
from roost.core.model import Manifest

HOST = "host"
"""The name of the machine's own memory among its devices."""
FLOAT_BYTES = 4
MASK_BYTES = 2
# Rows alive at once: gate, up and their product; the input, its norm, and what is added up.
FEED_FORWARD_ROWS = 3
EMBEDDING_ROWS = 5


class Footprint(msgspec.Struct, frozen=True):
    """Bytes that a runtime allocates; None where nobody knows.

    `total` is None as soon as one part is.
    """

    weights_bytes: int
    kv_bytes: int | None
    kv_token_bytes: int | None
    workspace_bytes: int | None
    total_bytes: int | None


def footprint_of(model: Manifest, plan: KvPlan) -> Footprint:
    """Compute what the model takes with the slots, context and step of `plan`."""
    weights = model.weight_bytes or model.size_bytes
    cost = cost_of(model.kv, plan) if model.kv else None
    workspace = _workspace(model, plan)
    known = cost is not None and workspace is not None
    return Footprint(
        weights_bytes=weights,
        kv_bytes=cost.total if cost else None,
        kv_token_bytes=cost.per_token if cost else None,
        workspace_bytes=workspace,
        total_bytes=weights + cost.total + workspace if cost and known and workspace else None,
    )


def _workspace(model: Manifest, plan: KvPlan) -> int | None:
    if model.kv is None or model.widths is None:
        return None
    widths = model.widths
    rows = FEED_FORWARD_ROWS * widths.feed_forward + EMBEDDING_ROWS * widths.embedding
    mask = MASK_BYTES * sum(cells_of(model.kv, plan))
    scores = plan.slots * model.vocab_size * FLOAT_BYTES
    return plan.batch * (rows * FLOAT_BYTES + mask) + scores
