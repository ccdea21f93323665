"""SHELL: the next token, drawn out of a library's logits.

Libraries that draw for themselves do it each in its own way, keep their dice to themselves and say
nothing of likelihoods. Here it is done once for all of them, so that a seed, a penalty and a
log probability mean the same wherever a model runs.
"""

from __future__ import annotations

import math
import random
import secrets
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.events import TokenChoice, TokenLogprob
from roost.core.request import Sampling

if TYPE_CHECKING:
    import numpy as np

Logits: TypeAlias = "np.ndarray"
"""32-bit floats, one for each token of a vocabulary."""

SEED_MAX = 2**32
LEAST = (1e-2, 1e-3, 1e-4, 1e-5)
"""Tokens that are at least this likely, beside the likeliest, are looked at first: the few of them
nearly always hold all that a cut leaves."""

BLOCK = 256
"""So many tokens are added up at once where one is drawn among all."""

COLDEST = 1e-30
"""Floats of 32 bits are divided by no less."""


class Defaults(msgspec.Struct, frozen=True):
    """How a model is to be sampled where a client says nothing; 0 and 1 switch a cut off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


def defaults_of(told: object) -> Defaults:
    """Take the defaults out of what a model's own files say; greedy ones are for benchmarks.

    `told` has attributes of these names, any of which may be missing or None.
    """
    if not getattr(told, "do_sample", False):
        return Defaults()
    stated = {
        name: getattr(told, name)
        for name in Defaults.__struct_fields__
        if getattr(told, name, None) is not None
    }
    return msgspec.convert(stated, Defaults, strict=False)


class Draw:
    """Draws the tokens of one run; `said` are those that it begins behind.

    One number is drawn per token, whatever the sampling is: so a run that goes on behind tokens
    that were said elsewhere draws what an uncut one would have.
    """

    def __init__(
        self, sampling: Sampling, defaults: Defaults, said: Collection[int], top: int | None
    ) -> None:
        self._sampling = sampling
        self._top = top
        self._temperature = wanted_or(sampling.temperature, defaults.temperature)
        self._top_p = wanted_or(sampling.top_p, defaults.top_p)
        self._top_k = int(wanted_or(sampling.top_k, defaults.top_k))
        self._min_p = wanted_or(sampling.min_p, defaults.min_p)
        self._counts = Counter(said)
        seed = secrets.randbelow(SEED_MAX) if sampling.seed is None else sampling.seed
        self._dice = random.Random(seed)
        for _ in said:
            self._dice.random()

    def next(
        self, logits: Logits, barred: Collection[int], raw: Callable[[int], bytes]
    ) -> tuple[int, TokenChoice | None]:
        """Draw a token, none of `barred`, and say how likely it was where that was asked for.

        The logits are left as they are.
        """
        if barred:
            logits = logits.copy()
            logits[list(barred)] = float("-inf")
        token = self._drawn(logits)
        self._counts[token] += 1
        return token, None if self._top is None else _choice(logits, token, self._top, raw)

    def _drawn(self, logits: Logits) -> int:
        rolled = self._dice.random()
        logits = self._weighed(logits)
        if self._temperature == 0:
            return int(logits.argmax())
        weights = _weights(logits, self._temperature)
        if not 0 < self._top_k < len(weights) and self._top_p >= 1 and self._min_p <= 0:
            return _among_all(weights, rolled)
        tokens = self._kept(logits, weights)
        return int(tokens[_place(weights[tokens], rolled)])

    def _kept(self, logits: Logits, weights: np.ndarray) -> np.ndarray:
        """Give the tokens that no cut takes, at least one, the likeliest first."""
        size = min(self._top_k or len(weights), len(weights))
        enough = self._top_p * float(weights.sum(dtype=float))
        places = _likely_ones(weights, size, enough, self._min_p)
        # By logits, which differ where weights have been rounded to the same.
        tokens = _likeliest(logits, places, size)
        parts = weights[tokens].astype(float)
        good = (parts.cumsum() - parts < enough) & (parts >= self._min_p * parts[0])
        good[0] = True
        return tokens[: int(good.sum())]

    def _weighed(self, logits: Logits) -> Logits:
        """Add what a client wants: biases, and penalties for what was said."""
        presence = wanted_or(self._sampling.presence_penalty, 0.0)
        frequency = wanted_or(self._sampling.frequency_penalty, 0.0)
        counts = self._counts if presence or frequency else {}
        if not (counts or self._sampling.logit_bias):
            return logits
        logits = logits.copy()
        for token, bias in self._sampling.logit_bias:
            logits[token] += bias
        for token, count in counts.items():
            logits[token] -= presence + frequency * count
        return logits


def logits_of(values: object) -> Logits:
    """Take logits out of another library's array, which tells its bytes or its numbers."""
    import numpy as np

    return np.asarray(values, dtype=np.float32)


def wanted_or(wanted: float | None, default: float) -> float:
    """Give what a client wants, or else the default."""
    return default if wanted is None else wanted


def _weights(logits: Logits, temperature: float) -> np.ndarray:
    """Say how likely each token is beside the likeliest, which is 1.

    In 32 bits, which is ten times as quick as in 64; what is added up is in 64, where small parts
    still count.
    """
    import numpy as np

    weights = logits - logits.max()
    # In place: a fresh array of a whole vocabulary costs more than what is computed into it.
    if temperature != 1:
        weights /= np.float32(max(temperature, COLDEST))
    return np.exp(weights, out=weights)


def _among_all(weights: np.ndarray, rolled: float) -> int:
    """Draw a token where none is cut off: first its block, then within it."""
    import numpy as np

    sums = np.add.reduceat(weights, np.arange(0, len(weights), BLOCK), dtype=float)
    block = _place(sums, rolled)
    # What is left of the number, as a share of this block.
    left = (rolled * float(sums.sum()) - float(sums[:block].sum())) / float(sums[block])
    at = block * BLOCK
    return at + _place(weights[at : at + BLOCK], max(left, 0.0))


def _place(parts: np.ndarray, rolled: float) -> int:
    """Find the part at this share, 0..1, of their sum; never one that is nothing."""
    sums = parts.cumsum(dtype=float)
    place = int(sums.searchsorted(rolled * float(sums[-1]), side="right"))
    # Sums are rounded: a share next to 1 may lie at their very end.
    return place if place < len(parts) else int(parts.nonzero()[0][-1])


def _likely_ones(weights: np.ndarray, size: int, enough: float, least: float) -> np.ndarray:
    """Give the places of all that are likelier than some bound, in their order.

    There are `size` of them, or together they weigh more than `enough`, or `least` is all that is
    wanted: so whatever is less likely is cut off.
    """
    import numpy as np

    for bound in LEAST:
        places = (weights >= bound).nonzero()[0]
        if len(places) >= size or bound < least or weights[places].sum(dtype=float) > enough:
            return places
    return np.arange(len(weights))


def _likeliest(values: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Give the places of the largest among these, largest first; of equal ones the lower place."""
    import numpy as np

    if size < len(places):
        there = values[places]
        least = np.partition(there, len(there) - size)[len(there) - size]
        places = places[there >= least]
    return places[np.argsort(-values[places], kind="stable")][:size]


def _choice(logits: Logits, token: int, top: int, raw: Callable[[int], bytes]) -> TokenChoice:
    weights = _weights(logits, 1.0)
    places = _likely_ones(weights, top, float("inf"), 0.0)
    best = _likeliest(logits, places, top).tolist() if top else []
    norm = float(logits.max()) + math.log(float(weights.sum(dtype=float)))
    chosen, *others = [likely(float(logits[one]) - norm, raw(one)) for one in (token, *best)]
    return TokenChoice(chosen, tuple(others))


def likely(logprob: float, raw: bytes) -> TokenLogprob:
    """Say how likely a token of these bytes is; rounding may put it above 0, which none is."""
    return TokenLogprob(raw.decode("utf-8", "replace"), min(0.0, logprob), raw)
