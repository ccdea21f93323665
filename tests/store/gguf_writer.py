"""Writes small GGUF files for tests, right or wrong, straight from the layout of the format."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

PAIR_KINDS: dict[str, int] = {
    "u16": 2,
    "u32": 4,
    "i32": 5,
    "f32": 6,
    "bool": 7,
    "str": 8,
    "u64": 10,
}
LETTERS = {"u16": "H", "u32": "I", "i32": "i", "f32": "f", "bool": "?", "u64": "Q"}


@dataclass(frozen=True)
class Typed:
    """A metadata value with its type: a scalar (`u32` …), or with `[]` appended an array of it."""

    kind: str
    value: object


@dataclass(frozen=True)
class Tensor:
    """A tensor description; `offset` None places it behind the one before."""

    name: str
    dims: tuple[int, ...]
    kind: int
    size_bytes: int
    offset: int | None = None


@dataclass(frozen=True)
class Gguf:
    """The parts of a file; `build` puts them together."""

    metadata: dict[str, Typed] = field(default_factory=dict)
    tensors: tuple[Tensor, ...] = ()
    version: int = 3
    alignment: int = 32

    def build(self) -> bytes:
        """Return the bytes of the whole file."""
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.metadata))
        for key, typed in self.metadata.items():
            head += text(key) + value(typed)
        at = 0
        for tensor in self.tensors:
            offset = at if tensor.offset is None else tensor.offset
            head += text(tensor.name) + struct.pack("<I", len(tensor.dims))
            head += struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims)
            head += struct.pack("<IQ", tensor.kind, offset)
            at = padded(offset + tensor.size_bytes, self.alignment)
        head += b"\0" * (padded(len(head), self.alignment) - len(head))
        return head + (bytes(range(251)) * (at // 251 + 1))[:at]


def padded(length: int, alignment: int) -> int:
    """Round `length` up to a multiple of `alignment`."""
    return -(-length // alignment) * alignment


def text(words: str | bytes) -> bytes:
    """Encode a string with its length in front."""
    raw = words.encode() if isinstance(words, str) else words
    return struct.pack("<Q", len(raw)) + raw


def value(typed: Typed) -> bytes:
    """Encode a typed metadata value."""
    if typed.kind.endswith("[]"):
        assert isinstance(typed.value, list | tuple)
        kind = typed.kind[:-2]
        body = b"".join(bare(kind, item) for item in typed.value)
        return struct.pack("<IIQ", 9, PAIR_KINDS[kind], len(typed.value)) + body
    return struct.pack("<I", PAIR_KINDS[typed.kind]) + bare(typed.kind, typed.value)


def bare(kind: str, item: object) -> bytes:
    """Encode one value without its type."""
    if kind == "str":
        assert isinstance(item, str | bytes)
        return text(item)
    return struct.pack("<" + LETTERS[kind], item)


TOKENS = ("<unk>", "<s>", "</s>", "<|im_end|>", "Ġhello", "he", "ĠäĊ", "<0x41>", "<think>")
TYPES = (2, 3, 3, 3, 1, 1, 1, 6, 4)


def metadata(**more: Typed) -> dict[str, Typed]:
    """Metadata of a tiny model with nine tokens; `more` adds or replaces keys (`__` for a dot)."""
    pairs = {
        "general.architecture": Typed("str", "llama"),
        "general.name": Typed("str", "Tiny Test"),
        "general.license": Typed("str", "apache-2.0"),
        "llama.context_length": Typed("u32", 256),
        "tokenizer.ggml.model": Typed("str", "gpt2"),
        "tokenizer.ggml.tokens": Typed("str[]", TOKENS),
        "tokenizer.ggml.token_type": Typed("i32[]", TYPES),
        "tokenizer.ggml.bos_token_id": Typed("u32", 1),
        "tokenizer.ggml.eos_token_id": Typed("u32", 2),
        "tokenizer.chat_template": Typed("str", "{{ messages }}"),
    }
    pairs.update({key.replace("__", "."): typed for key, typed in more.items()})
    return pairs


TENSORS = (
    Tensor("token_embd.weight", (64, 9), 0, 64 * 9 * 4),
    Tensor("output.weight", (64, 9), 3, 64 * 9 // 32 * 20),
    Tensor("output_norm.weight", (64,), 0, 64 * 4),
)


def tiny(**more: Typed) -> bytes:
    """Return a whole valid little model file of about 3 KB."""
    return Gguf(metadata(**more), TENSORS).build()


def shards(count: int = 3, **more: Typed) -> list[bytes]:
    """Return the files of a tiny model in `count` parts, its tensors spread over them."""
    tensors = [*TENSORS, *(Tensor(f"t{number}", (32,), 0, 128) for number in range(count))]
    made: list[bytes] = []
    for number in range(count):
        split = {
            "split.no": Typed("u16", number),
            "split.count": Typed("u16", count),
            "split.tensors.count": Typed("i32", len(tensors)),
        }
        pairs = metadata(**more) | split if number == 0 else split
        made.append(Gguf(pairs, tuple(tensors[number::count])).build())
    return made
