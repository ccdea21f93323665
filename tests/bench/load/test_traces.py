"""Recorded traffic, in the two public formats."""

from __future__ import annotations

import pytest

from roost.bench.load.traces import Traced, read_trace, scaled

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
MOONCAKE = """{"timestamp": 100, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 3100, "input_length": 700, "output_length": 9, "hash_ids": [0, 2], "more": 1}

"""


def test_azure_is_read() -> None:
    """Times count from the first; seven digits of a second are more than needed."""
    first, second = read_trace("azure", AZURE.splitlines(), 10)
    assert first == Traced(0.0, 4808, 10)
    assert (second.prompt_tokens, second.answer_tokens) == (3180, 8)
    assert second.due_s == pytest.approx(0.052, abs=1e-6)


def test_mooncake_is_read() -> None:
    """Milliseconds, lengths, and the ids of blocks; what else there is does not matter."""
    assert read_trace("mooncake", MOONCAKE.splitlines(), 10) == [
        Traced(0.0, 600, 5, (0, 1)),
        Traced(3.0, 700, 9, (0, 2)),
    ]
    assert len(read_trace("mooncake", MOONCAKE.splitlines(), 1)) == 1


def test_a_trace_is_stretched() -> None:
    """In time and in length; a length stays at least one token."""
    assert scaled([Traced(3.0, 600, 5, (0,))], 0.5, 0.1) == [Traced(1.5, 60, 1, (0,))]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "line 2"),
        ("a,b\n1,2\n", "line 2"),
        ("", "no requests"),
    ],
)
def test_what_is_no_azure_trace_says_where(text: str, wrong: str) -> None:
    """The line is named."""
    with pytest.raises(ValueError, match=wrong):
        read_trace("azure", text.splitlines(), 10)


@pytest.mark.parametrize("line", ["{", "[]", '{"timestamp": "x", "input_length": 1}'])
def test_what_is_no_mooncake_trace_says_where(line: str) -> None:
    """The line is named."""
    with pytest.raises(ValueError, match="line 1 is not of a Mooncake trace"):
        read_trace("mooncake", [line], 10)
