"""DECIDER: which KV a model keeps in which layer, derived from its checked GGUF header.

Only architectures whose caches are known to be plain, or whose exceptions are known, get an answer.
Others may keep a compressed state, or a recurrent one, and a number for them would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from roost.core.kv import KvLayers, KvShape
from roost.errors import RoostError
from roost.text import ggml
from roost.text.gguf import ArrayRef, Header, Value, read_numbers

if TYPE_CHECKING:
    from roost.text.gguf import Buffer

LAYERS_MAX = 4096

# Every layer keeps keys and values of every token.
_PLAIN = frozenset(
    {
        *("llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "phi2", "phi3", "gemma"),
        *(
            "stablelm",
            "starcoder2",
            "olmo",
            "olmo2",
            "granite",
            "granitemoe",
            "internlm2",
            "falcon",
        ),
        *(
            "gpt2",
            "gptneox",
            "smollm3",
            "minicpm",
            "command-r",
            "nemotron",
            "openelm",
            "deci",
            "mistral3",
        ),
    }
)


class _Windows(msgspec.Struct, frozen=True):
    """Sliding windows where the file does not say: every layer but the last of each `period`.

    `window` is the width where the file states none, 0 for "then there are none". From layer
    `own_layers` on, layers use the KV of earlier ones; 0 for "all have their own".
    """

    period: int
    window: int = 0
    own_layers: int = 0


_WINDOWS = {
    "gemma2": _Windows(2, window=4096),
    "gemma3": _Windows(6),
    "gemma3n": _Windows(5, own_layers=20),
    "cohere2": _Windows(4),
    "gpt-oss": _Windows(2),
}


def read_kv_shape(buffer: Buffer, header: Header) -> KvShape | None:
    """Derive the shape from `header`, which `read_header` made from this very `buffer`.

    None for an architecture that is not known, and for a file that does not say enough.
    """
    meta = _Metadata(buffer, header.metadata)
    architecture = meta.architecture
    if architecture not in _PLAIN and architecture not in _WINDOWS:
        return None
    count = meta.number("block_count")
    if not 0 < count <= LAYERS_MAX:
        return None
    heads = meta.numbers("attention.head_count", count)
    kv_heads = meta.numbers("attention.head_count_kv", count, heads)
    if not heads or not kv_heads:
        return None
    usual = meta.number("embedding_length") // heads[0] if heads[0] else 0
    key = meta.number("attention.key_length") or usual
    value = meta.number("attention.value_length") or usual
    if not key or not value:
        return None
    windows = _windows(meta, _WINDOWS.get(architecture), count)
    own = _own_layers(meta, _WINDOWS.get(architecture), count)
    return _shape([(n * key, n * value) for n in kv_heads[:own]], windows)


def _shape(rows: Sequence[tuple[int, int]], windows: Sequence[int]) -> KvShape:
    layers = [(*row, window) for row, window in zip(rows, windows, strict=False) if any(row)]
    runs = [(kind, len(list(same))) for kind, same in groupby(layers)]
    return KvShape(tuple(KvLayers(count, *kind) for kind, count in runs))


def _windows(meta: _Metadata, rule: _Windows | None, count: int) -> list[int]:
    """Give each layer's window, 0 for none."""
    if rule is None:
        return [0] * count
    window = meta.number("attention.sliding_window") or rule.window
    pattern = meta.numbers("attention.sliding_window_pattern", count)
    key = f"{meta.architecture}.attention.sliding_window_pattern"
    if isinstance(meta.values.get(key), ArrayRef) and pattern:
        return [window if slides else 0 for slides in pattern]
    period = (pattern[0] if pattern else 0) or rule.period
    return [window if layer % period < period - 1 else 0 for layer in range(count)]


def _own_layers(meta: _Metadata, rule: _Windows | None, count: int) -> int:
    if rule is None or not rule.own_layers:
        return count
    shared = meta.number("attention.shared_kv_layers")
    return max(0, count - shared) if shared else min(count, rule.own_layers)


class _Metadata:
    """The numbers of one architecture, whatever the file has under their names."""

    def __init__(self, buffer: Buffer, values: dict[str, Value]) -> None:
        self.values = values
        self._buffer = buffer
        name = values.get("general.architecture")
        self.architecture = name if isinstance(name, str) else ""

    def number(self, key: str) -> int:
        """Give a whole number from 0 on; 0 where there is none."""
        value = self.values.get(f"{self.architecture}.{key}")
        return value if type(value) is int and 0 < value < 2**31 else 0

    def numbers(self, key: str, count: int, unsaid: Sequence[int] = ()) -> list[int]:
        """Give one number for each layer, from one for all or from a list.

        `unsaid` where the file has nothing under this key, [] where it has something else.
        """
        value = self.values.get(f"{self.architecture}.{key}")
        if value is None:
            return list(unsaid)
        if not isinstance(value, ArrayRef):
            one = self.number(key)
            return [one] * count if one else []
        if value.count < count or value.kind not in ggml.SCALARS:
            return []
        try:
            found = [int(n) for n in read_numbers(self._buffer, value)[:count]]
        except (RoostError, ValueError, OverflowError):
            return []
        return found if all(0 <= n < 2**31 for n in found) else []
