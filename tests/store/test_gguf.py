"""Tests of the GGUF header reader: good files, bad files, and files mutated at random."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.store.models import vocabulary
from roost.text import gguf
from tests.store.gguf_writer import TENSORS, Gguf, Tensor, Typed, metadata, text, tiny

TINY = tiny()


def verdict(raw: bytes, file_bytes: int | None = None) -> str:
    """Return the message with which `raw` is refused."""
    with pytest.raises(RoostError) as caught:
        gguf.read_header(raw, file_bytes)
    assert caught.value.failure.reason == "bad_request"
    return caught.value.failure.message


def with_tensor(tensor: Tensor) -> bytes:
    """Build a file of one tensor without other content."""
    return Gguf(metadata(), (tensor,)).build()


def start(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    """Build the first 24 bytes of a file."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def test_header_of_a_good_file() -> None:
    """Counts, alignment and the extent of tensor data are read as they were written."""
    header = gguf.read_header(TINY)
    assert (header.version, header.tensor_count, header.alignment) == (3, 3, 32)
    assert header.data_offset % 32 == 0
    assert header.data_offset + header.data_bytes == len(TINY)
    assert header.metadata["llama.context_length"] == 256


def test_version_2_is_read_the_same() -> None:
    """Versions 2 and 3 share one little-endian layout."""
    assert gguf.read_header(Gguf(metadata(), TENSORS, version=2).build()).version == 2


def test_scalars_of_every_kind() -> None:
    """Each scalar type arrives as the Python value it stands for."""
    more = {
        "a.u": Typed("u64", 2**64 - 1),
        "a.i": Typed("i32", -5),
        "a.f": Typed("f32", 0.5),
        "a.b": Typed("bool", value=True),
        "a.s": Typed("str", "größe"),
    }
    read = gguf.read_header(Gguf(metadata() | more).build()).metadata
    values = [2**64 - 1, -5, 0.5, True, "größe"]
    assert [read[key] for key in more] == values


def test_arrays_are_references_until_asked() -> None:
    """Arrays stay undecoded; strings and numbers come out whole when they are read."""
    raw = Gguf({"s": Typed("str[]", ["a", "", "bc"]), "n": Typed("i32[]", [1, -2])}).build()
    header = gguf.read_header(raw)
    strings, numbers = header.metadata["s"], header.metadata["n"]
    assert isinstance(strings, gguf.ArrayRef)
    assert isinstance(numbers, gguf.ArrayRef)
    assert list(gguf.read_strings(raw, strings)) == [b"a", b"", b"bc"]
    assert gguf.read_numbers(raw, numbers) == (1, -2)
    with pytest.raises(RoostError):
        list(gguf.read_strings(raw, numbers))
    with pytest.raises(RoostError):
        gguf.read_numbers(raw, strings)


def test_nested_arrays_up_to_two_levels() -> None:
    """An array of arrays is walked; a third level is refused."""
    inner = struct.pack("<IQ", 4, 1) + b"\1\0\0\0"
    nested = text("k") + struct.pack("<IIQ", 9, 9, 1)
    raw = start(pairs=1) + nested + inner
    assert isinstance(gguf.read_header(raw).metadata["k"], gguf.ArrayRef)
    deeper = start(pairs=1) + nested + struct.pack("<IQ", 9, 1) + inner
    assert "nested" in verdict(deeper)


@pytest.mark.parametrize("raw", [b"", b"GG", b"PK\x03\x04" + b"\0" * 60, b"\0" * 100])
def test_other_files_are_not_gguf(raw: bytes) -> None:
    """Anything without the mark is called what it is: no GGUF file."""
    assert "not a GGUF file" in verdict(raw)


@pytest.mark.parametrize(
    ("version", "words"), [(1, "version 1"), (4, "version 4"), (0x03000000, "big-endian")]
)
def test_other_versions_are_named(version: int, words: str) -> None:
    """An unsupported version, and a big-endian file, are named in the verdict."""
    assert words in verdict(start(version=version))


def test_every_truncation_is_refused() -> None:
    """No proper prefix of a good file passes, wherever it is cut."""
    for length in range(len(TINY)):
        message = verdict(TINY[:length])
        assert message == gguf.TRUNCATED or length < 4


def test_a_beginning_is_enough_when_the_length_is_told() -> None:
    """The header can be read from a file's first bytes, and data is checked against its length."""
    offset = gguf.read_header(TINY).data_offset
    assert gguf.read_header(TINY[:offset], len(TINY)).data_bytes == len(TINY) - offset
    assert verdict(TINY[:offset], len(TINY) - 1) == gguf.TRUNCATED


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (start(tensors=2**64 - 1), "tensors"),
        (start(pairs=2**64 - 1), "metadata entries"),
        (start(pairs=1) + struct.pack("<Q", 2**63) + b"k", "a text of"),
        (start(pairs=1) + text("k") + struct.pack("<I", 13), "value type 13"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 13, 1), "value type 13"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 8, 2**61), "an array of"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 10, 2**61), "cut short"),
        (start(pairs=1) + text("k") + struct.pack("<IIQ", 9, 9, 2**40), "an array of"),
        (start(pairs=1) + text("k") + struct.pack("<IQ", 8, 2**63), "a text of"),
        (start(pairs=1) + text("k") + struct.pack("<IIQQ", 9, 8, 1, 2**63), "a text of"),
        (start(pairs=1) + text("k") + struct.pack("<IIQQ", 9, 8, 2, 2000), "cut short"),
        (start(pairs=2) + 2 * (text("k") + struct.pack("<II", 4, 1)), "appears twice"),
        (Gguf({"general.alignment": Typed("u32", 0)}).build(), "power of two"),
        (Gguf({"general.alignment": Typed("u32", 48)}).build(), "power of two"),
        (Gguf({"general.alignment": Typed("str", "32")}).build(), "power of two"),
        (Gguf({}, (TENSORS[0], TENSORS[0])).build(), "tensor name appears twice"),
        (with_tensor(Tensor("t", (1, 1, 1, 1, 1), 0, 4)), "5 dimensions"),
        (with_tensor(Tensor("t", (33,), 3, 40)), "whole blocks"),
        (with_tensor(Tensor("t", (2**62, 4), 0, 4)), "more elements"),
        (with_tensor(Tensor("t", (2**63, 2**63, 0), 0, 4)), "more elements"),
        (with_tensor(Tensor("t", (1,), 0, 4, offset=8)), "not aligned"),
        (with_tensor(Tensor("t", (2**40,), 0, 4)), "cut short"),
        (Gguf({}, (Tensor("t", (1,), 0, 4, offset=0),)).build()[:-32], "cut short"),
    ],
)
def test_each_lie_has_its_verdict(raw: bytes, words: str) -> None:
    """Counts, lengths, types, sizes and offsets that cannot be true are refused by name."""
    assert words in verdict(raw)


def test_a_type_of_tomorrow_passes_with_its_offset_checked() -> None:
    """An unknown tensor type has no known size, so only its offset has to lie in the file."""
    assert gguf.read_header(with_tensor(Tensor("t", (7,), 99, 64))).tensor_count == 1
    behind_the_end = with_tensor(Tensor("t", (7,), 99, 0, offset=64))[:-64]
    assert verdict(behind_the_end) == gguf.TRUNCATED


def test_a_vocabulary_alone_is_a_file() -> None:
    """A file without tensors may end where its header ends."""
    raw = Gguf(metadata()).build().rstrip(b"\0") + b"\0\0\0\0"
    assert gguf.read_header(raw).tensor_count == 0


def test_a_header_longer_than_any_real_one() -> None:
    """A header that goes on past the limit is refused as too long, not as cut short."""
    with pytest.raises(RoostError) as caught:
        gguf.read_header(TINY, max_header_bytes=64)
    assert caught.value.failure.message == gguf.TOO_LONG


def test_a_large_vocabulary_is_quick() -> None:
    """A vocabulary of 50,000 tokens takes no time worth speaking of."""
    tokens = [f"token{index}" for index in range(50_000)]
    raw = tiny(
        tokenizer__ggml__tokens=Typed("str[]", tokens),
        tokenizer__ggml__token_type=Typed("i32[]", [1] * len(tokens)),
    )
    began = time.process_time()
    facts = vocabulary.read_facts(raw, gguf.read_header(raw))
    assert facts.vocab_size == 50_000
    assert time.process_time() - began < 2.0


def judge(raw: bytes) -> None:
    """Read everything of a file; the only exception allowed is a verdict."""
    with contextlib.suppress(RoostError):
        vocabulary.read_facts(raw, gguf.read_header(raw))


@pytest.mark.slow
@settings(max_examples=700, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TINY) - 9),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([2**31, 2**32 - 1, 2**63, 2**64 - 1]).map(
                    lambda number: struct.pack("<Q", number)
                ),
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_mutants_meet_a_verdict_or_pass(changes: list[tuple[int, bytes]]) -> None:
    """Bytes overwritten anywhere never raise anything but a verdict, nor allocate beyond reason."""
    raw = bytearray(TINY)
    for position, piece in changes:
        raw[position : position + len(piece)] = piece
    tracemalloc.start()
    try:
        judge(bytes(raw))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(TINY)),
    st.integers(0, len(TINY)),
    st.binary(max_size=40),
)
def test_spliced_files_meet_a_verdict_or_pass(first: int, second: int, middle: bytes) -> None:
    """Pieces removed, repeated or inserted never raise anything but a verdict."""
    judge(TINY[:first] + middle + TINY[second:])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_noise_after_the_mark(noise: bytes) -> None:
    """Random bytes behind a true mark are judged like everything else."""
    judge(b"GGUF\3\0\0\0" + noise)
