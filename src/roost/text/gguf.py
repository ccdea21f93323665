"""DECIDER: reads and judges the header of a GGUF file before any native code sees the file.

The file is hostile until proven otherwise: every count, length and offset in it is compared with
the bytes that are really there before it is used, so a header can neither read outside the file nor
make this process allocate more than the file is long. Layout (all little endian):

    "GGUF" version:u32 tensors:u64 pairs:u64
    pairs ×   key:string type:u32 value
    tensors × name:string dims:u32 dim:u64… type:u32 offset:u64
    padding to general.alignment, then the tensors' data; offsets count from here
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.errors import RoostError, fail
from roost.text import ggml

if TYPE_CHECKING:
    import mmap

    Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

TRUNCATED = "The GGUF file is cut short: its header or its tensors continue after the end of file."
TOO_LONG = "The GGUF file is corrupt: its header is longer than any real one."


class ArrayRef(msgspec.Struct, frozen=True):
    """An array, checked but not decoded: `count` elements of value type `kind` at `start`."""

    kind: int
    count: int
    start: int


Value: TypeAlias = bool | int | float | str | ArrayRef


class Header(msgspec.Struct, frozen=True):
    """A header whose every count and offset lies inside its file.

    `metadata` maps keys to scalars, text, or references to arrays.
    `data_offset` and `data_bytes` are where tensor data begins and how many bytes tensors reach.
    """

    version: int
    metadata: dict[str, Value]
    tensor_count: int
    alignment: int
    data_offset: int
    data_bytes: int


def read_header(
    buffer: Buffer,
    file_bytes: int | None = None,
    *,
    max_header_bytes: int = ggml.MAX_HEADER_BYTES,
) -> Header:
    """Check and read the header at the start of `buffer`.

    `file_bytes` is the length of the whole file when `buffer` holds only its beginning.
    Raises `bad_request` with a verdict; with the message `TRUNCATED` when bytes are missing, which
    also is the answer when `buffer` does not hold all of the header.
    """
    size = len(buffer) if file_bytes is None else file_bytes
    cursor = _Cursor(buffer, max_header_bytes)
    version = _read_magic(cursor)
    tensors = cursor.u64()
    pairs = cursor.u64()
    if tensors > ggml.MAX_TENSORS:
        raise _corrupt(f"it claims {tensors} tensors")
    if pairs > ggml.MAX_PAIRS:
        raise _corrupt(f"it claims {pairs} metadata entries")
    metadata = _read_metadata(cursor, pairs)
    alignment = _alignment(metadata)
    data_bytes = _read_tensors(cursor, tensors, alignment)
    data_offset = -(-cursor.position // alignment) * alignment
    if tensors and data_offset + data_bytes > size:
        raise fail("bad_request", TRUNCATED)
    return Header(version, metadata, tensors, alignment, data_offset, data_bytes)


def pairs(buffer: Buffer, header: Header) -> Iterator[tuple[str, int, int]]:
    """Yield each metadata entry of a header that was read from `buffer`: key, start and end."""
    cursor = _Cursor(buffer, header.data_offset)
    _read_magic(cursor)
    cursor.u64()
    for _ in range(cursor.u64()):
        start = cursor.position
        key = _text(cursor.string(ggml.MAX_KEY_BYTES))
        _read_value(cursor, cursor.u32())
        yield key, start, cursor.position


def read_strings(buffer: Buffer, ref: ArrayRef) -> Iterator[bytes]:
    """Yield the raw bytes of each string of an array that `read_header` has checked in `buffer`."""
    if ref.kind != ggml.STRING:
        raise _corrupt("an array that should hold text holds something else")
    position = ref.start
    for _ in range(ref.count):
        (length,) = _U64.unpack_from(buffer, position)
        position += 8 + length
        yield bytes(buffer[position - length : position])


def read_numbers(buffer: Buffer, ref: ArrayRef) -> tuple[int | float | bool, ...]:
    """Decode an array of numbers that `read_header` has checked in `buffer`."""
    letter = ggml.SCALARS.get(ref.kind)
    if letter is None:
        raise _corrupt("an array that should hold numbers holds something else")
    return struct.unpack_from(f"<{ref.count}{letter}", buffer, ref.start)


def _corrupt(what: str) -> RoostError:
    return fail("bad_request", f"The GGUF file is corrupt: {what}. Download it again.")


class _Cursor:
    """A position in a buffer that cannot leave it."""

    def __init__(self, buffer: Buffer, max_bytes: int) -> None:
        self.buffer = buffer
        self.position = 0
        self.end = min(len(buffer), max_bytes)
        self.items_left = ggml.MAX_ARRAY_ITEMS

    def advance(self, length: int) -> int:
        """Move over `length` bytes, which must exist, and return where they began."""
        start = self.position
        if length > self.end - start:
            cut = self.end == len(self.buffer)
            raise fail("bad_request", TRUNCATED if cut else TOO_LONG)
        self.position = start + length
        return start

    def u32(self) -> int:
        start = self.advance(4)
        return int(_U32.unpack_from(self.buffer, start)[0])

    def u64(self) -> int:
        start = self.advance(8)
        return int(_U64.unpack_from(self.buffer, start)[0])

    def string(self, limit: int = ggml.MAX_STRING_BYTES) -> bytes:
        length = self.u64()
        if length > limit:
            raise _corrupt(f"it claims a text of {length} bytes")
        start = self.advance(length)
        return bytes(self.buffer[start : start + length])

    def spend_items(self, count: int) -> None:
        """Count array elements that have to be walked one by one."""
        self.items_left -= count
        if self.items_left < 0:
            raise _corrupt(f"it claims an array of {count} elements")

    def skip_strings(self, count: int) -> None:
        """Walk over `count` strings; the hot loop of the whole reader, hence no calls in it."""
        self.spend_items(count)
        unpack, buffer, end = _U64.unpack_from, self.buffer, self.end
        position = self.position
        for _ in range(count):
            if end - position < 8:
                break
            (length,) = unpack(buffer, position)
            if length > ggml.MAX_STRING_BYTES:
                raise _corrupt(f"it claims a text of {length} bytes")
            position += 8 + length
        else:
            self.advance(position - self.position)
            return
        self.advance(self.end - self.position + 1)


def _read_magic(cursor: _Cursor) -> int:
    if bytes(cursor.buffer[:4]) != b"GGUF":
        raise fail("bad_request", "This is not a GGUF file: it does not begin with the mark GGUF.")
    cursor.advance(4)
    version = cursor.u32()
    if version in {2, 3}:
        return version
    if version & 0xFFFF == 0:
        raise fail("bad_request", "The GGUF file is big-endian, which is not supported.")
    raise fail("bad_request", f"GGUF version {version} is not supported; versions 2 and 3 are.")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _read_metadata(cursor: _Cursor, pairs: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(pairs):
        key = _text(cursor.string(ggml.MAX_KEY_BYTES))
        if key in metadata:
            raise _corrupt("a metadata key appears twice")
        metadata[key] = _read_value(cursor, cursor.u32())
    return metadata


def _read_value(cursor: _Cursor, kind: int) -> Value:
    if kind == ggml.STRING:
        return _text(cursor.string())
    if kind == ggml.ARRAY:
        return _read_array(cursor, depth=1)
    letter = ggml.SCALARS.get(kind)
    if letter is None:
        raise _corrupt(f"value type {kind} does not exist")
    start = cursor.advance(struct.calcsize("<" + letter))
    value: Value = struct.unpack_from("<" + letter, cursor.buffer, start)[0]
    return value


def _read_array(cursor: _Cursor, depth: int) -> ArrayRef:
    kind = cursor.u32()
    count = cursor.u64()
    ref = ArrayRef(kind, count, cursor.position)
    if kind == ggml.STRING:
        cursor.skip_strings(count)
    elif kind == ggml.ARRAY:
        if depth >= ggml.MAX_ARRAY_DEPTH:
            raise _corrupt("its arrays are nested too deeply")
        cursor.spend_items(count)
        for _ in range(count):
            _read_array(cursor, depth + 1)
    elif kind in ggml.SCALARS:
        cursor.advance(count * struct.calcsize("<" + ggml.SCALARS[kind]))
    else:
        raise _corrupt(f"value type {kind} does not exist")
    return ref


def _alignment(metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", ggml.DEFAULT_ALIGNMENT)
    good = type(value) is int and 0 < value <= ggml.MAX_ALIGNMENT and value & (value - 1) == 0
    if not good or not isinstance(value, int):
        raise _corrupt("its alignment is not a power of two")
    return value


def _read_tensors(cursor: _Cursor, count: int, alignment: int) -> int:
    """Check each tensor's description; return how far the furthest reaches into the data region."""
    names: set[bytes] = set()
    reach = 0
    for _ in range(count):
        name = cursor.string(ggml.MAX_KEY_BYTES)
        if name in names:
            raise _corrupt("a tensor name appears twice")
        names.add(name)
        reach = max(reach, _read_tensor(cursor, alignment))
    return reach


def _read_tensor(cursor: _Cursor, alignment: int) -> int:
    """Return the offset behind the tensor's last byte, counted from the start of the data."""
    rank = cursor.u32()
    if rank > ggml.MAX_DIMS:
        raise _corrupt(f"a tensor has {rank} dimensions")
    dims = [cursor.u64() for _ in range(rank)]
    kind = cursor.u32()
    offset = cursor.u64()
    if offset % alignment:
        raise _corrupt("a tensor is not aligned")
    return offset + _tensor_bytes(dims, kind)


def _tensor_bytes(dims: list[int], kind: int) -> int:
    # Zero dimensions count as one here: native code multiplies in 64 bits whatever the order, and
    # a huge dimension beside a zero one must not slip through.
    guard = 1
    elements = 1
    for dim in dims:
        guard *= max(dim, 1)
        elements *= dim
    if guard > ggml.MAX_ELEMENTS:
        raise _corrupt("a tensor has more elements than can be counted")
    block = ggml.BLOCKS.get(kind)
    if block is None:
        return 0
    if (dims[0] if dims else 1) % block.elements:
        raise _corrupt("a tensor's rows do not fill whole blocks")
    return elements // block.elements * block.size_bytes
