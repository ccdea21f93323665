"""MACHINE: what each key has used of what it may: rates, requests under way, and quotas of tokens.

    on_request ──▶ reserved: one request, one place, the tokens that it will probably take
    on_spent   ──▶ settled: the tokens count that it has really taken, and the place is free once
                   nothing that came together with it is under way

Rates are buckets that fill again evenly over a minute. A request that needs more than a whole
bucket is let in when it is full, and what it takes beyond that has to fill again before the next
one is. A quota lets a request in as long as anything of it is left. Nothing is ever reserved for a
request that is refused, and nothing stays reserved for one that is over.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

import msgspec

from roost.core.allowance import Account, Allowance, Left, Spent, Standing
from roost.core.ids import ModelId, RequestId
from roost.core.request import Terms
from roost.errors import Failure
from roost.fleet.line.refusals import hint_s

BYTES_PER_TOKEN = 4
"""What a prompt is taken to weigh until its tokens are counted."""
AT_ONCE_RETRY_S = 2
DAY_S = 86_400
_MINUTE_S = 60.0
_EPOCH = date(1970, 1, 1).toordinal()
_ROUNDING = 1e-6


class AllowanceSettings(msgspec.Struct, frozen=True):
    """For an answer at most `answer_tokens` are reserved, until its length is known."""

    answer_tokens: int = 1024


class Refused(msgspec.Struct, frozen=True):
    """Which limit keeps a request out, and what its client is told."""

    limit: str
    failure: Failure
    wait_s: float = 0.0


@dataclass(slots=True)
class _Use:
    """What one key has out: missing is what has been taken from a bucket and not filled again."""

    at_s: float
    allowance: Allowance
    requests_missing: float = 0.0
    tokens_missing: float = 0.0
    under_way: int = 0
    reserved: int = 0
    unsaved: Counter[int] = field(default_factory=Counter)
    saving: Counter[int] = field(default_factory=Counter)

    def fill(self, now: float) -> None:
        """Let the buckets fill for the time that has passed."""
        allowance = self.allowance
        passed_min = max(0.0, now - self.at_s) / _MINUTE_S
        self.at_s = max(self.at_s, now)
        self.requests_missing -= passed_min * allowance.requests_per_minute
        self.requests_missing = max(0.0, self.requests_missing)
        self.tokens_missing -= passed_min * allowance.tokens_per_minute
        self.tokens_missing = max(0.0, self.tokens_missing)

    @property
    def is_idle(self) -> bool:
        """Whether it is as if it had never been used."""
        missing = self.requests_missing or self.tokens_missing
        return not (self.under_way or self.reserved or self.unsaved or missing)


class _Ticket(msgspec.Struct, frozen=True):
    """What is reserved for one request: `tokens`, of which so many came out of a bucket.

    `place` is the request whose place it has: its own, or that of those that come together.
    """

    account: Account
    tokens: int
    from_bucket: int
    place: RequestId


class Allowances:
    """The use of all keys of one gateway. `aliases` are other names of models."""

    def __init__(self, settings: AllowanceSettings) -> None:
        self._settings = settings
        self._uses: dict[str, _Use] = {}
        self._tickets: dict[RequestId, _Ticket] = {}
        self._places: Counter[RequestId] = Counter()
        self._saved: dict[str, dict[int, int]] = {}
        self.aliases: Mapping[str, str] = {}

    # Requests.

    def on_request(
        self, terms: Terms, model: ModelId, now: float, unix_s: float, *, is_free: bool = False
    ) -> Refused | None:
        """Reserve for a request what it will probably take, or say why it is kept out.

        One that `is_free` takes no tokens. One that comes with another, which was asked for all
        that come together, takes no more than its tokens: they have one place, until the last of
        them is over, whichever that is.
        """
        account = terms.account
        if account is None:
            return None
        need = 0 if is_free else self._need(terms)
        use = self._use(account, now)
        if terms.parts:
            refused = self._refusal(use, account, model, need * terms.parts, unix_s)
            if refused is not None:
                return refused
        allowance, place = account.allowance, terms.comes_with or terms.request_id
        from_bucket = need if allowance.tokens_per_minute else 0
        use.tokens_missing += from_bucket
        use.requests_missing += int(terms.parts > 0 and allowance.requests_per_minute > 0)
        use.under_way += int(not self._places[place])
        self._places[place] += 1
        use.reserved += need
        self._tickets[terms.request_id] = _Ticket(account, need, from_bucket, place)
        return None

    def on_spent(self, request: RequestId, tokens: int, now: float, unix_s: float) -> None:
        """A request is over, however it ended, and has taken so many tokens."""
        ticket = self._tickets.pop(request, None)
        if ticket is None:
            return
        use = self._use(ticket.account, now)
        self._places[ticket.place] -= 1
        if not self._places[ticket.place]:
            del self._places[ticket.place]
            use.under_way -= 1
        use.reserved -= ticket.tokens
        if ticket.account.allowance.tokens_per_minute:
            more = tokens - ticket.from_bucket
            use.tokens_missing = max(0.0, use.tokens_missing + more)
        if tokens:
            use.unsaved[_day(unix_s)] += tokens

    def may_use(self, allowance: Allowance, model: str) -> bool:
        """Whether a model, by its own name or another one, is among those that are allowed."""
        if not allowance.models:
            return True
        real = self.aliases.get(model, model)
        return any(self.aliases.get(name, name) == real for name in allowance.models)

    # What outlives the process.

    def take_unsaved(self) -> tuple[Spent, ...]:
        """Return what has been used since the last time; `on_saved` or `on_not_saved` follows."""
        taken = []
        for key, use in self._uses.items():
            assert not use.saving, "one save follows the other"
            use.saving, use.unsaved = use.unsaved, Counter()
            taken += [Spent(key, day, tokens) for day, tokens in use.saving.items()]
        return tuple(taken)

    def on_saved(self, totals: Iterable[Spent], now: float) -> None:
        """What was taken is kept; these are all totals since the month began, whoever used it."""
        saved: dict[str, dict[int, int]] = {}
        for one in totals:
            saved.setdefault(one.key, {})[one.day] = one.tokens
        self._saved = saved
        for key, use in list(self._uses.items()):
            use.saving.clear()
            use.fill(now)
            if use.is_idle:
                del self._uses[key]

    def on_not_saved(self) -> None:
        """What was taken could not be kept: it is to be saved with what comes."""
        for use in self._uses.values():
            use.unsaved.update(use.saving)
            use.saving.clear()

    # Views.

    def standing(self, account: Account, now: float) -> Standing:
        """Return what is left of the rates of a key."""
        allowance, use = account.allowance, self._use(account, now)
        return Standing(
            _left(allowance.requests_per_minute, use.requests_missing),
            _left(allowance.tokens_per_minute, use.tokens_missing),
        )

    def under_way(self, key: str) -> int:
        """Count the requests of a key that are not over."""
        use = self._uses.get(key)
        return use.under_way if use is not None else 0

    def reserved(self, key: str) -> int:
        """Count the tokens that are reserved for those."""
        use = self._uses.get(key)
        return use.reserved if use is not None else 0

    def used(self, key: str, unix_s: float) -> tuple[int, int]:
        """Return the tokens that a key has used on this day, and in this month."""
        today, days = _day(unix_s), Counter(self._saved.get(key, {}))
        use = self._uses.get(key)
        if use is not None:
            days += use.unsaved + use.saving
        first = first_of_month(today)
        return days[today], sum(tokens for day, tokens in days.items() if first <= day <= today)

    # Deciding.

    def _use(self, account: Account, now: float) -> _Use:
        use = self._uses.get(account.key)
        if use is None:
            use = self._uses[account.key] = _Use(now, account.allowance)
        use.fill(now)
        use.allowance = account.allowance
        return use

    def _need(self, terms: Terms) -> int:
        prompt = terms.prompt_tokens or math.ceil(terms.prompt_bytes / BYTES_PER_TOKEN)
        most = self._settings.answer_tokens
        return prompt + min(most, most if terms.max_tokens is None else terms.max_tokens)

    def _refusal(
        self, use: _Use, account: Account, model: ModelId, need: int, unix_s: float
    ) -> Refused | None:
        """Return what keeps a request out for longest; None where nothing does."""
        allowance = account.allowance
        if not self.may_use(allowance, model):
            return Refused("models", not_allowed(model))
        found = [
            *_at_once(use, allowance),
            *_rates(use, allowance, need),
            *self._quotas(use, account, unix_s),
        ]
        return max(found, key=lambda one: one.wait_s, default=None)

    def _quotas(self, use: _Use, account: Account, unix_s: float) -> Iterable[Refused]:
        allowance = account.allowance
        if not (allowance.tokens_per_day or allowance.tokens_per_month):
            return
        day, month = self.used(account.key, unix_s)
        today = _day(unix_s)
        if 0 < allowance.tokens_per_month <= month + use.reserved:
            yield _used_up("month", allowance.tokens_per_month, _next_month(today), unix_s)
        if 0 < allowance.tokens_per_day <= day + use.reserved:
            yield _used_up("day", allowance.tokens_per_day, today + 1, unix_s)


def _at_once(use: _Use, allowance: Allowance) -> Iterable[Refused]:
    if not 0 < allowance.at_once <= use.under_way:
        return
    message = (
        f"This key may have {allowance.at_once} requests under way at once. Retry when one of them "
        "has ended."
    )
    yield Refused("at_once", _limited(message, AT_ONCE_RETRY_S), AT_ONCE_RETRY_S)


def _rates(use: _Use, allowance: Allowance, need: int) -> Iterable[Refused]:
    wait_s = _wait_s(allowance.requests_per_minute, use.requests_missing, 1)
    if wait_s:
        message = (
            f"This key may make {allowance.requests_per_minute} requests a minute. Retry in "
            f"{math.ceil(wait_s)} s."
        )
        yield Refused("requests", _limited(message, wait_s), wait_s)
    wait_s = _wait_s(allowance.tokens_per_minute, use.tokens_missing, need)
    if wait_s:
        message = (
            f"This key may use {allowance.tokens_per_minute} tokens a minute, and this request may "
            f"take {need}. Retry in {math.ceil(wait_s)} s."
        )
        yield Refused("tokens", _limited(message, wait_s), wait_s)


def _wait_s(per_minute: int, missing: float, need: int) -> float:
    """Return how long a bucket needs to fill until there is enough in it; 0 where there is."""
    if not per_minute:
        return 0.0
    over = missing + min(need, per_minute) - per_minute
    return round(over * _MINUTE_S / per_minute, 6) if over > _ROUNDING else 0.0


def _left(per_minute: int, missing: float) -> Left | None:
    if not per_minute:
        return None
    left = max(0, math.floor(per_minute - missing + _ROUNDING))
    return Left(per_minute, left, missing * _MINUTE_S / per_minute)


def _limited(message: str, wait_s: float) -> Failure:
    return Failure("rate_limit_exceeded", message, retry_after_s=hint_s(wait_s, AT_ONCE_RETRY_S))


def _used_up(span: str, quota: int, until_day: int, unix_s: float) -> Refused:
    wait_s = until_day * DAY_S - unix_s
    message = (
        f"This key's {quota} tokens of this {span} are used up. They begin anew on "
        f"{date.fromordinal(_EPOCH + until_day).isoformat()} at 00:00 UTC."
    )
    failure = Failure("insufficient_quota", message, retry_after_s=hint_s(wait_s, 1))
    return Refused(span, failure, wait_s)


def not_allowed(model: str) -> Failure:
    """Say that a key may not use a model, whether or not there is such a one."""
    return Failure(
        "model_not_allowed",
        f"This key may not use the model `{model[:100]}`. GET /v1/models lists those that it may.",
        param="model",
    )


def first_of_month(day: int) -> int:
    """Return the first day of the month that a day is in; days are counted from 1970."""
    return date.fromordinal(_EPOCH + day).replace(day=1).toordinal() - _EPOCH


def _next_month(day: int) -> int:
    # No month has more than 31 days, so 31 days after its first one is always the next.
    return first_of_month(first_of_month(day) + 31)


def _day(unix_s: float) -> int:
    return int(unix_s // DAY_S)
