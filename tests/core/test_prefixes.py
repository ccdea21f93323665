"""Two sequences are alike up to the first difference, or to the end of the shorter one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.model import ctx_within
from roost.core.prefixes import common_length

_TOKENS = st.lists(st.integers(0, 2), max_size=12)


@given(_TOKENS, _TOKENS)
def test_the_longest_common_beginning(one: list[int], other: list[int]) -> None:
    """So many are equal, and the next ones are not both there and equal."""
    length = common_length(one, other)
    assert one[:length] == other[:length]
    assert one[length : length + 1] != other[length : length + 1] or length == len(one)


def test_kinds_of_sequences() -> None:
    """Tuples and lists of tokens, and texts."""
    assert common_length((1, 2, 3), [1, 2, 4]) == 2
    assert common_length("abc", "abx") == 2
    assert common_length((), (1,)) == 0


@pytest.mark.parametrize(
    ("asked", "most", "ctx"),
    [(0, 0, 0), (0, 512, 512), (256, 0, 256), (256, 512, 256), (1024, 512, 512)],
)
def test_a_context_is_what_is_asked_for_and_learned(asked: int, most: int, ctx: int) -> None:
    """Not above what a model was trained for; who asks for none gets that."""
    assert ctx_within(asked, most) == ctx
