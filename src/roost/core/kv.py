"""DECIDER: what a model's KV cache costs, exactly: bytes per token, per slot and in all.

A layer keeps one key and one value for each cell. A layer with a sliding window has its own, fewer
cells, however long the context is: its bytes are a fixed cost of the slot, not one of a token.
Whoever shares the KV of another layer keeps nothing, and is not in the shape.

The rounding is llama.cpp's: a sequence gets whole blocks of cells, and windows are kept for one
more step than they are wide.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

CacheType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

# How many numbers of this type fill how many bytes.
_BLOCKS: dict[str, tuple[int, int]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
}
CELLS_STEP = 256
"""Cells of a sequence come in whole blocks of so many."""


class KvLayers(msgspec.Struct, frozen=True):
    """So many layers in a row that keep the same.

    `key` and `value` are numbers per cell and layer (KV heads × head size), `window` is how many
    tokens back the layers look, 0 for all of them.
    """

    count: int
    key: int
    value: int
    window: int = 0


class KvShape(msgspec.Struct, frozen=True):
    """The layers of a model that keep KV of their own, in order."""

    layers: tuple[KvLayers, ...]


class KvPlan(msgspec.Struct, frozen=True):
    """How much cache a runtime is asked for: `slots` sequences of `ctx` tokens, each its own.

    `batch` is the most tokens of one step. What is kept as `key_type` and `value_type` is smaller
    and less exact than `f16`.
    """

    ctx: int
    slots: int
    batch: int
    key_type: CacheType = "f16"
    value_type: CacheType = "f16"


class KvCost(msgspec.Struct, frozen=True):
    """Bytes: `per_token` of a sequence, `per_slot` whatever it holds, `total` of the runtime."""

    per_token: int
    per_slot: int
    total: int


def cost_of(shape: KvShape, plan: KvPlan) -> KvCost | None:
    """Compute what the cache of `plan` takes; None where its types do not fit the model's heads."""
    cells = _padded(plan.ctx)
    per_token = per_slot = 0
    for layers in shape.layers:
        key = _row_bytes(layers.key, plan.key_type)
        value = _row_bytes(layers.value, plan.value_type)
        if key is None or value is None:
            return None
        row_bytes = layers.count * (key + value)
        if layers.window:
            per_slot += row_bytes * _padded(min(cells, layers.window + plan.batch))
        else:
            per_token += row_bytes
    return KvCost(per_token, per_slot, plan.slots * (cells * per_token + per_slot))


def cells_of(shape: KvShape, plan: KvPlan) -> tuple[int, ...]:
    """Cells of one sequence in each of its caches: the one for all tokens, and those of windows."""
    cells = _padded(plan.ctx)
    windows = {layers.window for layers in shape.layers}
    return tuple(
        _padded(min(cells, window + plan.batch)) if window else cells for window in sorted(windows)
    )


def _row_bytes(numbers: int, type_: CacheType) -> int | None:
    """Bytes of one row of a cache; quantised rows have to fill whole blocks."""
    elements, size_bytes = _BLOCKS[type_]
    blocks, rest = divmod(numbers, elements)
    return None if rest else blocks * size_bytes


def _padded(cells: int) -> int:
    return -(-cells // CELLS_STEP) * CELLS_STEP
