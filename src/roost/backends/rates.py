"""DECIDER: how fast a runtime is, learned from the last answer that was long enough to tell."""

from __future__ import annotations

from roost.backends.base import Telemetry

TOKENS_MIN = 16
"""A rate measured over fewer tokens says nothing."""


def learned(before: Telemetry, prefill: tuple[int, float], decode: tuple[int, float]) -> Telemetry:
    """Give the rates after an answer that computed so many tokens in so many seconds."""
    return Telemetry(
        prefill_tokens_per_s=_rate(*prefill) or before.prefill_tokens_per_s,
        decode_tokens_per_s=_rate(*decode) or before.decode_tokens_per_s,
    )


def _rate(tokens: int, took_s: float) -> float | None:
    return tokens / took_s if tokens >= TOKENS_MIN and took_s > 0 else None
