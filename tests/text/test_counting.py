"""The estimate starts where it should, learns by weight and stays sane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.text.counting import START_TOKENS_PER_BYTE, TokenRate, TokenRates


def test_the_first_estimate() -> None:
    """Nothing learned: 0.3 tokens a byte, rounded up, nothing for nothing."""
    rate = TokenRate()
    assert [rate.estimate(n) for n in (0, 1, 10, 1000, -5)] == [0, 1, 3, 300, 0]


def test_it_converges() -> None:
    """After many prompts at 0.25 tokens a byte the estimate is right."""
    rate = TokenRate()
    for _ in range(100):
        rate.observe(4000, 1000)
    assert rate.estimate(8000) == pytest.approx(2000, abs=2)


def test_one_step_is_weighted_by_size() -> None:
    """A full-sized prompt moves the rate by a tenth of the way, a tiny one hardly at all."""
    full, tiny = TokenRate(), TokenRate()
    full.observe(4096, 4096)
    assert full.tokens_per_byte == pytest.approx(0.37)
    tiny.observe(2, 30)
    assert tiny.tokens_per_byte == pytest.approx(0.3, abs=1e-3)


@given(st.lists(st.tuples(st.integers(-5, 1 << 40), st.integers(-5, 1 << 60))))
def test_nonsense_does_no_harm(observations: list[tuple[int, int]]) -> None:
    """Whatever a node reports, the rate stays above 0 and at most 1."""
    rate = TokenRate()
    for prompt_bytes, tokens in observations:
        rate.observe(prompt_bytes, tokens)
    assert 0 < rate.tokens_per_byte <= 1


def test_models_learn_apart() -> None:
    """One model's prompts do not move another's estimate."""
    rates = TokenRates()
    rates.observe("a", 4096, 4096)
    assert rates.estimate("a", 100) == 37
    assert rates.estimate("b", 100) == 100 * START_TOKENS_PER_BYTE


def test_models_are_bounded() -> None:
    """With room for two, the one learned least recently is forgotten."""
    rates = TokenRates(max_models=2)
    for model in ("a", "b", "a", "c"):
        rates.observe(model, 4096, 4096)
    assert [rates.estimate(model, 100) > 30 for model in "abc"] == [True, False, True]


def test_room_for_no_model_is_refused() -> None:
    """A table without room is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least 1"):
        TokenRates(max_models=0)
