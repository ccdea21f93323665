"""How an account stands, in the headers of OpenAI and of Anthropic."""

from __future__ import annotations

import pytest

from roost.core.allowance import Left, Standing
from roost.dialects.limit_headers import anthropic_limits, openai_limits

BOTH = Standing(Left(60, 59, 1.0), Left(90_000, 0, 60.0))


def test_openai() -> None:
    """Counts, and how long until all is back."""
    assert dict(openai_limits(BOTH)) == {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1s",
        b"x-ratelimit-limit-tokens": b"90000",
        b"x-ratelimit-remaining-tokens": b"0",
        b"x-ratelimit-reset-tokens": b"1m0s",
    }


def test_anthropic() -> None:
    """Counts, and when all is back: a time that is not too early."""
    assert dict(anthropic_limits(Standing(Left(60, 59, 1.2)), 1_796_000_000.5)) == {
        b"anthropic-ratelimit-requests-limit": b"60",
        b"anthropic-ratelimit-requests-remaining": b"59",
        b"anthropic-ratelimit-requests-reset": b"2026-11-30T00:53:22Z",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, b"0ms"), (0.02, b"20ms"), (0.9996, b"1s"), (1.54, b"1.5s")),
        *((59.94, b"59.9s"), (59.96, b"1m0s"), (119.4, b"1m59s"), (119.9, b"2m0s")),
        (373.0, b"6m13s"),
    ],
)
def test_times(seconds: float, text: bytes) -> None:
    """Times are written as OpenAI writes them."""
    (_, _, (_, reset)) = openai_limits(Standing(Left(1, 1, seconds)))
    assert reset == text


def test_nothing_is_said_of_what_is_not_limited() -> None:
    """No header stands for no limit."""
    assert openai_limits(Standing()) == anthropic_limits(Standing(), 0.0) == []
