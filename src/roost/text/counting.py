"""MACHINE: how many tokens a prompt will have, learned from prompts that were really counted.

The gateway has no tokenizer; it plans with an estimate until the node has counted. A tiny prompt is
mostly template, so it says little about the text to come: an observation weighs by its size.
"""

from __future__ import annotations

import math

START_TOKENS_PER_BYTE = 0.3
"""Before anything was seen: a little above English, so that first plans err on the safe side."""

WEIGHT_MAX = 0.1
"""The share of the newest observation in the rate, once it is `FULL_WEIGHT_BYTES` long."""

FULL_WEIGHT_BYTES = 2048


class TokenRate:
    """One model's learned tokens per byte of prompt, exponentially weighted."""

    def __init__(self, start: float = START_TOKENS_PER_BYTE) -> None:
        self._rate = start

    @property
    def tokens_per_byte(self) -> float:
        """The present rate, above 0 and at most 1."""
        return self._rate

    def observe(self, prompt_bytes: int, tokens: int) -> None:
        """Learn from a prompt of that size that had `tokens` tokens; nonsense is ignored."""
        if prompt_bytes <= 0 or tokens <= 0:
            return
        # No tokenizer makes more than one token of a byte; what is above that is the template's.
        rate = min(tokens, prompt_bytes) / prompt_bytes
        weight = WEIGHT_MAX * min(1.0, prompt_bytes / FULL_WEIGHT_BYTES)
        self._rate += weight * (rate - self._rate)

    def estimate(self, prompt_bytes: int) -> int:
        """Expect this many tokens in a prompt of that size; at least 1 for any text at all."""
        return math.ceil(max(0, prompt_bytes) * self._rate)


class TokenRates:
    """Rates by model, for at most `max_models`; the one learned least recently makes room."""

    def __init__(self, max_models: int = 256) -> None:
        if max_models < 1:
            raise ValueError("max_models must be at least 1")
        self._max_models = max_models
        self._rates: dict[str, TokenRate] = {}

    def observe(self, model: str, prompt_bytes: int, tokens: int) -> None:
        """Learn from a counted prompt for `model`."""
        rate = self._rates.pop(model, None) or TokenRate()
        rate.observe(prompt_bytes, tokens)
        self._rates[model] = rate
        if len(self._rates) > self._max_models:
            del self._rates[next(iter(self._rates))]

    def estimate(self, model: str, prompt_bytes: int) -> int:
        """Expect this many tokens of `model` in a prompt of `prompt_bytes` bytes."""
        rate = self._rates.get(model)
        return (rate or TokenRate()).estimate(prompt_bytes)
