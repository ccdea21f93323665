"""DECIDER: a model's vocabulary as a GGUF file of its own: its tokeniser, and hardly any weights.

Whatever decides how a text becomes tokens stands in a header's `tokenizer.` entries and in what
`general.` says of the model. They are copied byte for byte, in front of a network with one layer of
32 numbers, all zero: the same engine that runs the model reads it in a moment, and tokenises as it
would with all of the weights.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from roost.errors import fail
from roost.text import ggml
from roost.text.gguf import ArrayRef, pairs

if TYPE_CHECKING:
    from roost.text.gguf import Buffer, Header

_WIDTH = 32
_COPIED = ("tokenizer.", "general.")
# What is said of the file's own make, and of the network that is left out.
_LEFT_OUT = frozenset(
    {"general.architecture", "general.alignment", "general.file_type", "tokenizer.chat_template"}
)
_U32, _F32, _STRING = 4, 6, 8
_FLOAT, _Q4_0 = 0, 2
_SHAPE: tuple[tuple[str, int | float], ...] = (
    ("context_length", 131_072),
    ("embedding_length", _WIDTH),
    ("block_count", 1),
    ("feed_forward_length", _WIDTH),
    ("attention.head_count", 1),
    ("attention.head_count_kv", 1),
    ("attention.layer_norm_rms_epsilon", 1e-5),
    ("rope.dimension_count", _WIDTH),
)


def vocabulary_file(buffer: Buffer, header: Header) -> bytes:
    """Write the file for a model whose header `read_header` has made from this very buffer.

    Raises `bad_request` for a model that lists no tokens.
    """
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, ArrayRef) or not tokens.count:
        raise fail("bad_request", "The model's file lists no tokens.")
    entries = [_entry("general.architecture", "llama")]
    entries += [_entry(f"llama.{name}", value) for name, value in _SHAPE]
    for key, start, end in pairs(buffer, header):
        if key.startswith(_COPIED) and key not in _LEFT_OUT:
            entries.append(bytes(buffer[start:end]))
    tensors = tuple(_tensors(tokens.count))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    offset, described = 0, b""
    for name, dims, kind in tensors:
        described += _text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        block = ggml.BLOCKS[kind]
        offset += _padded(prod(dims) // block.elements * block.size_bytes)
    head += described
    return head.ljust(_padded(len(head)), b"\0") + bytes(offset)


def _tensors(tokens: int) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yield names, dimensions and types of all tensors; of the first one a token costs 18 bytes."""
    yield "token_embd.weight", (_WIDTH, tokens), _Q4_0
    yield "output_norm.weight", (_WIDTH,), _FLOAT
    for name in ("attn_norm", "ffn_norm"):
        yield f"blk.0.{name}.weight", (_WIDTH,), _FLOAT
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        yield f"blk.0.{name}.weight", (_WIDTH, _WIDTH), _FLOAT


def _entry(key: str, value: str | float) -> bytes:
    match value:
        case str():
            return _text(key) + struct.pack("<I", _STRING) + _text(value)
        case int():
            return _text(key) + struct.pack("<II", _U32, value)
        case _:
            return _text(key) + struct.pack("<If", _F32, value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padded(size: int) -> int:
    return -(-size // ggml.DEFAULT_ALIGNMENT) * ggml.DEFAULT_ALIGNMENT
