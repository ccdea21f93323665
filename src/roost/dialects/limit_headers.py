"""DECIDER: how an account stands, in the reply headers that clients of each API look for."""

from __future__ import annotations

from datetime import UTC, datetime

from roost.core.allowance import Left, Standing

Header = tuple[bytes, bytes]


def openai_limits(standing: Standing) -> list[Header]:
    """Give `x-ratelimit-*`: what is left, and how long until all is back, as `1m30s`."""
    return [
        header
        for what, left in _limited(standing)
        for header in (
            _header(f"x-ratelimit-limit-{what}", left.most),
            _header(f"x-ratelimit-remaining-{what}", left.left),
            _header(f"x-ratelimit-reset-{what}", _duration(left.whole_in_s)),
        )
    ]


def anthropic_limits(standing: Standing, unix_s: float) -> list[Header]:
    """Give `anthropic-ratelimit-*`: the same, and when all is back as a time in UTC."""
    return [
        header
        for what, left in _limited(standing)
        for header in (
            _header(f"anthropic-ratelimit-{what}-limit", left.most),
            _header(f"anthropic-ratelimit-{what}-remaining", left.left),
            _header(f"anthropic-ratelimit-{what}-reset", _moment(unix_s + left.whole_in_s)),
        )
    ]


def _limited(standing: Standing) -> list[tuple[str, Left]]:
    both = (("requests", standing.requests), ("tokens", standing.tokens))
    return [(what, left) for what, left in both if left is not None]


def _header(name: str, value: object) -> Header:
    return name.encode(), str(value).encode()


def _duration(seconds: float) -> str:
    """Write a time as OpenAI does: `20ms`, `1.5s`, `6m0s`."""
    # Rounded before anything is decided by it: nothing is 1000ms, 60s or 1m60s.
    if (thousandths := round(seconds * 1000)) < 1000:
        return f"{thousandths}ms"
    if (tenths := round(seconds, 1)) < 60:
        return f"{tenths:g}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s"


def _moment(unix_s: float) -> str:
    """Write a time as RFC 3339, in whole seconds that are not too early."""
    return datetime.fromtimestamp(int(unix_s) + 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
