"""VALUE: vectors as bytes: 32-bit floats, little-endian, one vector behind the other.

That is what models compute in, what clients get as base64, and a quarter of the same in text.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from roost.errors import Failure

FLOAT_BYTES = 4
DIMENSIONS_MAX = 1_000_000


def packed(vectors: Sequence[Sequence[float]]) -> bytes:
    """Write vectors; raises `OverflowError` for a number that no 32 bits hold."""
    return b"".join(struct.pack(f"<{len(one)}f", *one) for one in vectors)


def numbers(data: bytes) -> tuple[float, ...]:
    """Read the numbers of one vector."""
    return struct.unpack(f"<{len(data) // FLOAT_BYTES}f", data)


def shortened(vector: Sequence[float], size: int) -> tuple[float, ...]:
    """Keep the first `size` numbers of a vector, and make its length 1 again."""
    kept = vector[:size]
    length = math.hypot(*kept)
    return tuple(kept) if not length else tuple(one / length for one in kept)


def why_not(dimensions: int, sizes: Sequence[int]) -> Failure | None:
    """Say why vectors of so many numbers cannot be had; None where they can, 0 is any.

    `sizes` are those of the model, its own first: only a model that was trained for shorter ones
    keeps its meaning in the beginning of a vector.
    """
    if not dimensions or dimensions in sizes:
        return None
    if not sizes:
        why = "How many numbers vectors of this model have is not known, nor whether fewer would do"
    elif len(sizes) == 1:
        why = f"Vectors of this model have {sizes[0]} numbers, and it was not trained for fewer"
    else:
        why = f"Vectors of this model can have {' or '.join(map(str, sizes))} numbers"
    message = f"{why}: leave 'dimensions' out, or have its `vector_sizes` say what it can."
    return Failure("unsupported", message, param="dimensions")
