"""VALUE: the tables of the GGUF format: block sizes of tensor types, value types, limits."""

from __future__ import annotations

import msgspec


class Block(msgspec.Struct, frozen=True):
    """How a tensor type is stored: `elements` numbers in each run of `size_bytes` bytes."""

    elements: int
    size_bytes: int


BLOCKS: dict[int, Block] = {
    0: Block(1, 4),  # F32
    1: Block(1, 2),  # F16
    2: Block(32, 18),  # Q4_0
    3: Block(32, 20),  # Q4_1
    6: Block(32, 22),  # Q5_0
    7: Block(32, 24),  # Q5_1
    8: Block(32, 34),  # Q8_0
    9: Block(32, 36),  # Q8_1
    10: Block(256, 84),  # Q2_K
    11: Block(256, 110),  # Q3_K
    12: Block(256, 144),  # Q4_K
    13: Block(256, 176),  # Q5_K
    14: Block(256, 210),  # Q6_K
    15: Block(256, 292),  # Q8_K
    16: Block(256, 66),  # IQ2_XXS
    17: Block(256, 74),  # IQ2_XS
    18: Block(256, 98),  # IQ3_XXS
    19: Block(256, 50),  # IQ1_S
    20: Block(32, 18),  # IQ4_NL
    21: Block(256, 110),  # IQ3_S
    22: Block(256, 82),  # IQ2_S
    23: Block(256, 136),  # IQ4_XS
    24: Block(1, 1),  # I8
    25: Block(1, 2),  # I16
    26: Block(1, 4),  # I32
    27: Block(1, 8),  # I64
    28: Block(1, 8),  # F64
    29: Block(256, 56),  # IQ1_M
    30: Block(1, 2),  # BF16
    34: Block(256, 54),  # TQ1_0
    35: Block(256, 66),  # TQ2_0
    39: Block(32, 17),  # MXFP4
}
"""Types whose size is known; a file may hold others, of which only the offset can be checked."""

STRING = 8
ARRAY = 9
FLOAT32 = 6
INT32 = 5
UINT32 = 4

SCALARS: dict[int, str] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    UINT32: "I",
    INT32: "i",
    FLOAT32: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Value type code to the letter of the `struct` module; all little endian."""

MAX_HEADER_BYTES = 256 * 2**20
MAX_TENSORS = 65_536
MAX_PAIRS = 65_536
MAX_KEY_BYTES = 65_535
MAX_STRING_BYTES = 16 * 2**20
MAX_ARRAY_DEPTH = 2
MAX_ARRAY_ITEMS = 8 * 2**20
"""Strings and nested arrays of a whole file together: what has to be walked one by one."""
MAX_DIMS = 4
MAX_ELEMENTS = 2**63 - 1
MAX_ALIGNMENT = 2**20
DEFAULT_ALIGNMENT = 32
