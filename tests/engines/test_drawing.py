"""The next token out of logits: what sampling means is the same for every hosted library."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.hosted.drawing import Defaults, Draw, defaults_of
from roost.core.request import Sampling

if TYPE_CHECKING:
    import numpy as np

pytestmark = [pytest.mark.engine, pytest.mark.long]
LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40)

EDGE = 1e-6
"""Shares are computed in 32 bits."""


def raw(token: int) -> bytes:
    """Give a token's bytes."""
    return b"%d" % token


def array_of(logits: list[float]) -> np.ndarray:
    """Give logits as a library would."""
    import numpy as np

    return np.array(logits, dtype=np.float32)


def draws(
    logits: list[float], sampling: Sampling, count: int, said: tuple[int, ...] = ()
) -> list[int]:
    """Draw so many tokens out of the same logits."""
    draw = Draw(sampling, Defaults(), said, None)
    array = array_of(logits)
    return [draw.next(array, (), raw)[0] for _ in range(count)]


def allowed(logits: list[float], sampling: Sampling) -> set[int]:
    """Say which tokens a cut leaves, in the plainest way; those at its very edge as well."""
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    parts = [math.exp((one - max(logits)) / temperature) for one in logits]
    parts = [one / sum(parts) for one in parts]
    order = sorted(range(len(parts)), key=lambda one: -logits[one])
    good, before = set(), 0.0
    for place, one in enumerate(order):
        within = (
            not sampling.top_k or parts[one] >= parts[order[min(sampling.top_k, len(order)) - 1]]
        )
        likely = parts[one] >= (sampling.min_p or 0.0) * max(parts) - EDGE
        if place == 0 or (within and likely and before < (sampling.top_p or 1.0) + EDGE):
            good.add(one)
        before += parts[one]
    return good


@given(
    LOGITS,
    st.floats(0.1, 2),
    st.floats(0.01, 1),
    st.integers(0, 50),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_nothing_is_drawn_that_a_cut_leaves_out(
    logits: list[float], temperature: float, top_p: float, top_k: int, min_p: float, seed: int
) -> None:
    """And the same seed draws the same."""
    sampling = Sampling(temperature, top_p, top_k, min_p=min_p, seed=seed)
    drawn = draws(logits, sampling, 8)
    assert set(drawn) <= allowed(logits, sampling)
    assert drawn == draws(logits, sampling, 8)
    # Whoever goes on behind tokens that were said draws what an uncut run would have.
    assert drawn[3:] == draws(logits, sampling, 5, tuple(drawn[:3]))


def test_a_cut_may_leave_more_than_are_sorted_first() -> None:
    """Three thousand equal tokens of which a nucleus of 0.9 keeps nine in ten."""
    drawn = draws([0.0] * 3000, Sampling(1.0, 0.9, seed=1), 2000)
    assert max(drawn) > 2500
    assert max(drawn) < 2750


def test_shares_are_those_of_the_logits() -> None:
    """Drawn often, tokens come as often as they are likely."""
    counts = Counter(draws([math.log(one) for one in (1, 2, 7)], Sampling(seed=3), 4000))
    assert [round(counts[token] / 4000, 1) for token in range(3)] == [0.1, 0.2, 0.7]


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(top_p=0.7), Sampling(0.6, 0.9, 300), Sampling(1.8, min_p=0.02)],
)
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_a_large_vocabulary_is_drawn_from_as_a_small_one(spread: float, sampling: Sampling) -> None:
    """Sums by blocks, and looking at the likeliest first, draw what plain running sums would."""
    dice = random.Random(9)
    logits = array_of([dice.gauss(0.0, spread) for _ in range(1000)]).tolist()
    parts = [math.exp(one / (sampling.temperature or 1.0)) for one in logits]
    order = list(range(1000))
    if sampling != Sampling():
        order = sorted(allowed(logits, sampling), key=lambda one: -logits[one])
    sums = list(accumulate(parts[one] for one in order))
    rolls = random.Random(7)
    plain = [order[bisect_right(sums, rolls.random() * sums[-1])] for _ in range(300)]
    drawn = draws(logits, msgspec.structs.replace(sampling, seed=7), 300)
    # A share that ends where the dice fell may be rounded to either side.
    assert sum(one != other for one, other in zip(drawn, plain, strict=True)) <= 1


def test_zero_is_the_likeliest_and_the_first_of_equals() -> None:
    """Without any dice."""
    assert draws([1, 3, 3, 2], Sampling(temperature=0.0), 3) == [1, 1, 1]


def test_penalties_and_biases_count() -> None:
    """A token that was said is less likely, one that a client wants is more."""
    greedy = Sampling(temperature=0.0, presence_penalty=2.0)
    assert draws([2.0, 1.0, 0.5], greedy, 3) == [0, 1, 2]
    often = Sampling(temperature=0.0, frequency_penalty=0.6)
    assert draws([2.0, 1.0], often, 4) == [0, 0, 1, 0]
    biased = Sampling(temperature=0.0, logit_bias=((2, 5.0), (0, -100.0)))
    assert draws([3.0, 1.0, 0.5], biased, 1) == [2]


def test_logits_are_left_as_they_are() -> None:
    """A library may hand out its own memory."""
    array = array_of([1.0, 2.0, 3.0])
    array.flags.writeable = False
    sampling = Sampling(temperature=0.0, presence_penalty=1.0, logit_bias=((1, 1.0),))
    assert Draw(sampling, Defaults(), (2,), 1).next(array, (2,), raw)[0] == 1


@given(LOGITS, st.integers(0, 20))
def test_log_probabilities_are_those_of_the_model(logits: list[float], top: int) -> None:
    """Of the model, not of the draw; the likeliest first, and together no more than all."""
    draw = Draw(Sampling(temperature=0.3, seed=1), Defaults(), (), top)
    token, choice = draw.next(array_of(logits), (), raw)
    assert choice is not None
    whole = math.log(sum(math.exp(one) for one in logits))
    assert choice.chosen.raw == raw(token)
    assert choice.chosen.logprob == pytest.approx(min(0.0, logits[token] - whole), abs=1e-4)
    likely = [one.logprob for one in choice.top]
    assert likely == sorted(likely, reverse=True)
    assert len(likely) == min(top, len(logits))
    assert sum(map(math.exp, likely)) <= 1 + 1e-6


def test_defaults_are_the_models_unless_they_are_greedy() -> None:
    """What is not stated, or is for benchmarks, is left alone."""

    class Told:
        do_sample = True
        temperature = 0.6
        top_k = None
        top_p = 0.9

    assert defaults_of(Told) == Defaults(0.6, 0.9)
    Told.do_sample = False
    assert defaults_of(Told) == Defaults()


def test_without_a_seed_answers_differ() -> None:
    """The dice are not those of anybody else."""
    random.seed(1)
    logits = [0.0] * 1000
    assert draws(logits, Sampling(), 8) != draws(logits, Sampling(), 8)
