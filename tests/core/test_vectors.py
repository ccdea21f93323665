"""Vectors as bytes, cut to a size, and which sizes a model has."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.vectors import numbers, packed, shortened, why_not

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(FLOATS, min_size=3, max_size=3), max_size=4))
def test_numbers_of_32_bits_come_back_as_they_were(vectors: list[list[float]]) -> None:
    """One behind the other, four bytes each, whatever machine wrote them."""
    data = packed(vectors)
    assert len(data) == 12 * len(vectors)
    rows = [data[at : at + 12] for at in range(0, len(data), 12)]
    assert [list(numbers(row)) for row in rows] == vectors
    assert packed([[1.0]]) == b"\0\0\x80\x3f"


def test_a_number_without_32_bits_is_an_error() -> None:
    """It does not become infinite behind anybody's back."""
    with pytest.raises(OverflowError):
        packed([[1e39]])


def test_a_shorter_vector_has_length_1_again() -> None:
    """Its direction is that of its beginning; of nothing but zeros there is none."""
    assert shortened((3.0, 4.0, 12.0), 2) == (0.6, 0.8)
    assert math.isclose(math.hypot(*shortened([0.1] * 9, 4)), 1.0)
    assert shortened((0.0, 0.0, 1.0), 2) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("dimensions", "sizes", "words"),
    [
        (0, (), ""),
        (8, (16, 8), ""),
        (16, (16,), ""),
        (8, (16,), "have 16 numbers, and it was not trained for fewer"),
        (4, (16, 8), "can have 16 or 8 numbers"),
        (8, (), "is not known"),
    ],
)
def test_only_sizes_that_a_model_has_can_be_asked_for(
    dimensions: int, sizes: tuple[int, ...], words: str
) -> None:
    """The refusal says what there is, and what to do."""
    failure = why_not(dimensions, sizes)
    if not words:
        assert failure is None
        return
    assert failure is not None
    assert (failure.reason, failure.param) == ("unsupported", "dimensions")
    assert words in failure.message
    assert "leave 'dimensions' out" in failure.message
