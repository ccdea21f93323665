"""What keys may use: each limit alone, several together, and any order of events beside sums."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from itertools import permutations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.core.allowance import Account, Allowance, Left, Spent
from roost.core.ids import ModelId, RequestId, TenantId
from roost.core.request import Terms
from roost.fleet.line.allowances import Allowances, AllowanceSettings, first_of_month

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
TODAY = int(NOON // 86_400)
MODEL = ModelId("m")


def allowances(answer_tokens: int = 100) -> Allowances:
    """Make the machine; answers reserve so much."""
    return Allowances(AllowanceSettings(answer_tokens))


def terms(
    number: int, allowance: Allowance, prompt_tokens: int = 10, parts: int = 1, first: int = 0
) -> Terms:
    """Make the terms of a request under such a key; `first` is the one that it comes with."""
    return Terms(
        RequestId(f"r{number}"),
        TenantId("t"),
        prompt_tokens=prompt_tokens,
        account=Account("key-1", "t", allowance),
        parts=0 if first else parts,
        comes_with=RequestId(f"r{first}" if first else ""),
    )


def ask(
    machine: Allowances, number: int, allowance: Allowance, now: float = 0.0, **asked: int
) -> str:
    """Give which limit keeps a request out, "" for none."""
    refused = machine.on_request(terms(number, allowance, **asked), MODEL, now, NOON + now)
    return refused.limit if refused is not None else ""


def test_requests_fill_again_evenly() -> None:
    """Two a minute: the third waits half a minute, and is told so."""
    machine, two = allowances(), Allowance(requests_per_minute=2)
    assert [ask(machine, number, two) for number in (1, 2)] == ["", ""]
    refused = machine.on_request(terms(3, two), MODEL, 10.0, NOON)
    assert refused is not None
    assert (refused.limit, refused.failure.reason) == ("requests", "rate_limit_exceeded")
    assert refused.failure.retry_after_s == 20
    assert "2 requests a minute" in refused.failure.message
    assert ask(machine, 4, two, 30.0) == ""
    assert ask(machine, 5, two, 30.0) == "requests"


def test_tokens_are_reserved_and_settled() -> None:
    """What a request did not take comes back, and what it took beyond has to fill again."""
    machine, few = allowances(), Allowance(tokens_per_minute=240)
    assert [ask(machine, number, few) for number in (1, 2, 3)] == ["", "", "tokens"]
    machine.on_spent(RequestId("r1"), 10, 0.0, NOON)
    assert ask(machine, 3, few) == ""
    machine.on_spent(RequestId("r2"), 1000, 0.0, NOON)
    refused = machine.on_request(terms(4, few), MODEL, 0.0, NOON)
    assert refused is not None
    # 10 and 1000 are spent, 110 reserved and 110 wanted, of 240 that come in 60 s.
    assert refused.wait_s == pytest.approx((10 + 1000 + 110 + 110 - 240) / 4)
    assert refused.failure.retry_after_s == 120


def test_more_than_a_bucket_is_let_in_when_it_is_full() -> None:
    """A request that needs more than a minute's tokens is not refused for ever."""
    machine, few = allowances(), Allowance(tokens_per_minute=50)
    assert ask(machine, 1, few, prompt_tokens=1000) == ""
    assert ask(machine, 2, few, 60.0, prompt_tokens=1000) == "tokens"


def test_requests_at_once() -> None:
    """A place is free when a request is over, however often that is said."""
    machine, one = allowances(), Allowance(at_once=1)
    assert [ask(machine, number, one) for number in (1, 2)] == ["", "at_once"]
    for _ in range(2):
        machine.on_spent(RequestId("r1"), 5, 0.0, NOON)
    assert [ask(machine, number, one) for number in (2, 3)] == ["", "at_once"]
    assert (machine.under_way("key-1"), machine.reserved("key-1")) == (1, 110)


def test_quotas_last_until_their_day_and_month_are_over() -> None:
    """As long as something is left a request is let in, and it is served to its end."""
    machine = allowances()
    quota = Allowance(tokens_per_day=100, tokens_per_month=150)
    assert ask(machine, 1, quota) == ""
    assert ask(machine, 2, quota) == "day", "what is reserved counts"
    machine.on_spent(RequestId("r1"), 99, 0.0, NOON)
    assert ask(machine, 2, quota) == ""
    machine.on_spent(RequestId("r2"), 60, 0.0, NOON)
    refused = machine.on_request(terms(3, quota), MODEL, 0.0, NOON)
    assert refused is not None
    assert (refused.limit, refused.failure.reason) == ("month", "insufficient_quota")
    assert "2026-12-01 at 00:00 UTC" in refused.failure.message
    assert machine.used("key-1", NOON) == (159, 159)
    assert machine.used("key-1", NOON + 86_400) == (0, 0), "a new month has begun"
    assert machine.on_request(terms(4, quota), MODEL, 0.0, NOON + 43_200) is None


def test_a_day_that_is_used_up_leaves_the_month() -> None:
    """The next day of the same month begins with what the month has left."""
    machine = allowances()
    quota = Allowance(tokens_per_day=100, tokens_per_month=150)
    first = NOON - 29 * 86_400
    assert machine.on_request(terms(1, quota), MODEL, 0.0, first) is None
    machine.on_spent(RequestId("r1"), 120, 0.0, first)
    refused = machine.on_request(terms(2, quota), MODEL, 0.0, first)
    assert refused is not None
    assert (refused.limit, "2026-11-02" in refused.failure.message) == ("day", True)
    assert machine.on_request(terms(2, quota), MODEL, 0.0, first + 86_400) is None
    assert machine.used("key-1", first + 86_400) == (0, 120)


@pytest.mark.parametrize("order", list(permutations((2, 3, 4))))
def test_what_comes_together_is_one_request(order: tuple[int, ...]) -> None:
    """It needs the tokens of all its parts, and one place until the last one is over."""
    machine = allowances()
    limited = Allowance(requests_per_minute=2, tokens_per_minute=400, at_once=1)
    assert ask(machine, 1, limited) == ""
    machine.on_spent(RequestId("r1"), 100, 0.0, NOON)
    assert ask(machine, 2, limited, parts=3) == "tokens"
    assert ask(machine, 2, limited, 15.0, parts=3) == ""
    assert [ask(machine, number, limited, 15.0, first=2) for number in (3, 4)] == ["", ""]
    assert (machine.under_way("key-1"), machine.reserved("key-1")) == (1, 330)
    for number in order:
        assert machine.under_way("key-1") == 1
        assert ask(machine, 5, limited, 300.0) == "at_once"
        for _ in range(2):
            machine.on_spent(RequestId(f"r{number}"), 20, 15.0, NOON)
    assert (machine.under_way("key-1"), machine.reserved("key-1")) == (0, 0)
    assert ask(machine, 5, limited, 300.0) == ""


def test_models_by_any_of_their_names() -> None:
    """A list may name a model or another name of it; what is not on it is refused unseen."""
    machine = allowances()
    machine.aliases = {"gpt": "m"}
    for names, limit in ((("m",), ""), (("gpt",), ""), (("n",), "models"), ((), "")):
        allowance = Allowance(models=names)
        assert machine.may_use(allowance, "gpt") is (not limit)
        assert machine.may_use(allowance, "m") is (not limit)
        assert ask(machine, 1, allowance) == limit
    assert not machine.may_use(Allowance(models=("m",)), "no such model")


def test_who_is_refused_has_taken_nothing() -> None:
    """Of several limits the one that lasts longest is told, and none of them is touched."""
    machine = allowances()
    limited = Allowance(requests_per_minute=10, tokens_per_minute=120, at_once=1)
    assert ask(machine, 1, limited) == ""
    before = machine.standing(terms(1, limited).account or Account("", ""), 0.0)
    assert [ask(machine, number, limited) for number in range(2, 9)] == ["tokens"] * 7
    assert machine.standing(terms(1, limited).account or Account("", ""), 0.0) == before
    assert before.requests == Left(10, 9, 6.0)
    assert before.tokens == Left(120, 10, 55.0)


def test_nobody_without_an_account_is_limited() -> None:
    """Without a key there is nothing to count."""
    machine = allowances()
    free = Terms(RequestId("r"), TenantId("addr:1"))
    assert machine.on_request(free, MODEL, 0.0, NOON) is None
    machine.on_spent(RequestId("r"), 5, 0.0, NOON)
    assert machine.take_unsaved() == ()


def test_what_takes_no_tokens_counts_as_a_request() -> None:
    """Counting the tokens of a prompt takes none."""
    machine, limited = allowances(), Allowance(requests_per_minute=1, tokens_per_minute=5)
    assert machine.on_request(terms(1, limited), MODEL, 0.0, NOON, is_free=True) is None
    assert machine.reserved("key-1") == 0
    assert ask(machine, 2, limited) == "requests"


def test_limits_change_while_requests_run() -> None:
    """A new limit counts what is used already, as far as that was limited before."""
    machine, wide = allowances(), Allowance(tokens_per_minute=1000)
    assert ask(machine, 1, wide) == ""
    narrow = msgspec.structs.replace(wide, tokens_per_minute=150)
    assert ask(machine, 2, narrow) == "tokens"
    machine.on_spent(RequestId("r1"), 20, 0.0, NOON)
    assert ask(machine, 2, narrow) == ""


def test_use_is_saved_once_and_counts_meanwhile() -> None:
    """What is being saved counts; what could not be saved is tried again with what came since."""
    machine, quota = allowances(), Allowance(tokens_per_day=1000)
    assert ask(machine, 1, quota) == ""
    machine.on_spent(RequestId("r1"), 30, 0.0, NOON)
    assert machine.take_unsaved() == (Spent("key-1", TODAY, 30),)
    assert machine.used("key-1", NOON) == (30, 30)
    assert ask(machine, 2, quota) == ""
    machine.on_spent(RequestId("r2"), 12, 0.0, NOON)
    machine.on_not_saved()
    assert machine.take_unsaved() == (Spent("key-1", TODAY, 42),)
    # Another gateway of the same home has used 8 of them.
    machine.on_saved([Spent("key-1", TODAY, 50), Spent("key-2", TODAY - 29, 7)], 100.0)
    assert machine.used("key-1", NOON) == (50, 50)
    assert machine.used("key-2", NOON) == (0, 7)
    assert machine.take_unsaved() == ()


@pytest.mark.parametrize(
    ("day", "first"), [("2026-11-30", "2026-11-01"), ("2024-02-29", "2024-02-01")]
)
def test_months(day: str, first: str) -> None:
    """Months are those of the calendar."""
    days = [
        int(datetime.fromisoformat(f"{d}T00:00+00:00").timestamp() // 86_400) for d in (day, first)
    ]
    assert first_of_month(days[0]) == days[1]


class AllowanceWorld(RuleBasedStateMachine):
    """Any order of events beside books that are added up anew, in exact numbers, every time."""

    LIMITS = Allowance(requests_per_minute=6, tokens_per_minute=600, at_once=3, tokens_per_day=4000)

    def __init__(self) -> None:
        super().__init__()
        self.machine = allowances()
        self.now = 0
        self.number = 0
        self.log: list[tuple[int, str, int]] = []
        self.live: dict[int, int] = {}
        self.first: dict[int, int] = {}
        self.used = 0

    def level(self, what: str, per_minute: int) -> Fraction:
        """Work out what is missing in a bucket, from everything that ever happened to it."""
        missing, at = Fraction(0), 0
        for when, kind, amount in [*self.log, (self.now, what, 0)]:
            missing = max(Fraction(0), missing - Fraction((when - at) * per_minute, 60))
            at = when
            if kind == what:
                missing = max(Fraction(0), missing + amount)
        return missing

    def expected(self, need: int) -> set[str]:
        """Say which limits keep a request out."""
        limits = self.LIMITS
        found = set()
        if self.level("requests", limits.requests_per_minute) + 1 > limits.requests_per_minute:
            found.add("requests")
        tokens = limits.tokens_per_minute
        if self.level("tokens", tokens) + min(need, tokens) > tokens:
            found.add("tokens")
        if self.places() >= limits.at_once:
            found.add("at_once")
        if self.used + sum(self.live.values()) >= limits.tokens_per_day:
            found.add("day")
        return found

    def places(self) -> int:
        """Count what came together as one."""
        return len({self.first[number] for number in self.live})

    @rule(seconds=st.integers(0, 40))
    def advance(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @rule(prompt_tokens=st.integers(1, 700), parts=st.sampled_from((1, 1, 3)))
    def request(self, prompt_tokens: int, parts: int) -> None:
        """A request comes, of one or more parts: it is let in if nothing keeps it out."""
        first = self.number = self.number + 1
        need = prompt_tokens + 100
        found = self.expected(need * parts)
        asked = {"prompt_tokens": prompt_tokens, "parts": parts}
        limit = ask(self.machine, first, self.LIMITS, self.now, **asked)
        assert (limit in found) if found else not limit
        if limit:
            return
        self.log.append((self.now, "requests", 1))
        for number in range(first, first + parts):
            if number > first:
                asked = {"prompt_tokens": prompt_tokens, "first": first}
                assert not ask(self.machine, number, self.LIMITS, self.now, **asked)
            self.log.append((self.now, "tokens", need))
            self.live[number], self.first[number] = need, first
        self.number = first + parts - 1

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tokens=st.integers(0, 900))
    def over(self, data: st.DataObject, tokens: int) -> None:
        """A request ends, in whichever way, having taken anything."""
        number = data.draw(st.sampled_from(sorted(self.live)))
        self.log.append((self.now, "tokens", tokens - self.live.pop(number)))
        self.used += tokens
        self.machine.on_spent(RequestId(f"r{number}"), tokens, self.now, NOON)

    @rule(kept=st.booleans())
    def save(self, kept: bool) -> None:
        """What is used is saved, or cannot be."""
        taken = self.machine.take_unsaved()
        if kept and self.used:
            self.machine.on_saved([Spent("key-1", TODAY, self.used)], self.now)
        else:
            self.machine.on_not_saved()
        assert all(one.tokens > 0 for one in taken)

    @invariant()
    def nothing_leaks(self) -> None:
        """Counts are those of the requests that live, and sums those of the ones that are over."""
        assert self.machine.under_way("key-1") == self.places()
        assert self.machine.reserved("key-1") == sum(self.live.values())
        assert self.machine.used("key-1", NOON) == (self.used, self.used)


TestAllowances = AllowanceWorld.TestCase
TestAllowances.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
