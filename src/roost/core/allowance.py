"""VALUE: what a key may use."""

from __future__ import annotations

import msgspec


class Allowance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one key; 0 is no limit.

    `requests_per_minute` and `tokens_per_minute` fill again evenly; `at_once` is how many requests
    may be under way. `tokens_per_day` and `tokens_per_month` are quotas of days and months in UTC.
    Tokens are those of prompt and answer. `models` are names of models, empty for all.
    """

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    at_once: int = 0
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    models: tuple[str, ...] = ()

    @property
    def counts_tokens(self) -> bool:
        """Whether it can be kept only by who knows how many tokens a request took."""
        return bool(self.tokens_per_minute or self.tokens_per_day or self.tokens_per_month)

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited but the models."""
        return self.counts_tokens or bool(self.requests_per_minute or self.at_once)


NO_LIMITS = Allowance()


class Account(msgspec.Struct, frozen=True):
    """On whose account a request goes: the id of a key, who pays, and what it may use."""

    key: str
    tenant: str
    allowance: Allowance = NO_LIMITS


class Left(msgspec.Struct, frozen=True):
    """One limit as it stands: what it is, what is left of it, and until it is whole again."""

    most: int
    left: int
    whole_in_s: float


class Standing(msgspec.Struct, frozen=True):
    """How an account stands; None for what is not limited."""

    requests: Left | None = None
    tokens: Left | None = None


class Spent(msgspec.Struct, frozen=True):
    """Tokens that a key has used on one day, counted from 1970."""

    key: str
    day: int
    tokens: int
