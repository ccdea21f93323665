"""SHELL: the next token, drawn out of a library's logits.

Libraries that draw for themselves do it each in its own way, keep their dice to themselves and say
nothing of likelihoods. Here it is done once for all of them, so that a seed, a penalty and a
log probability mean the same wherever a model runs.
"""

from __future__ import annotations

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
LIKELY = 1024
"""So many tokens are sorted first; they nearly always hold all that a cut leaves."""


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
        self._temperature = _or(sampling.temperature, defaults.temperature)
        self._top_p = _or(sampling.top_p, defaults.top_p)
        self._top_k = int(_or(sampling.top_k, defaults.top_k))
        self._min_p = _or(sampling.min_p, defaults.min_p)
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
        parts, tokens = self._kept(_shares(logits, self._temperature))
        sums = parts.cumsum()
        place = int(sums.searchsorted(rolled * float(sums[-1]), side="right"))
        place = min(place, len(sums) - 1)
        return place if tokens is None else int(tokens[place])

    def _kept(self, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Cut off what is too unlikely and sort the rest, at least one; None is every token."""
        size = min(self._top_k or len(parts), len(parts))
        if size == len(parts) and self._top_p >= 1 and self._min_p <= 0:
            return parts, None
        tokens = _likeliest(parts, min(size, LIKELY))
        kept = self._cut(parts[tokens])
        if len(kept) == len(tokens) < size:
            tokens = _likeliest(parts, size)
            kept = self._cut(parts[tokens])
        return kept, tokens[: len(kept)]

    def _cut(self, parts: np.ndarray) -> np.ndarray:
        before = parts.cumsum() - parts
        good = (before < self._top_p) & (parts >= self._min_p * parts[0])
        good[0] = True
        return parts[: int(good.sum())]

    def _weighed(self, logits: Logits) -> Logits:
        """Add what a client wants: biases, and penalties for what was said."""
        presence = _or(self._sampling.presence_penalty, 0.0)
        frequency = _or(self._sampling.frequency_penalty, 0.0)
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


def _or(wanted: float | None, default: float) -> float:
    return default if wanted is None else wanted


def _shares(logits: Logits, temperature: float) -> np.ndarray:
    """Say how likely each token is, together 1; in double, where small parts still add up."""
    import numpy as np

    shares = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    return shares / shares.sum()


def _likeliest(parts: np.ndarray, size: int) -> np.ndarray:
    """Give the places of the largest, largest first; of equal ones the lower place."""
    import numpy as np

    if size < len(parts):
        least = np.partition(parts, len(parts) - size)[len(parts) - size]
        places = np.flatnonzero(parts >= least)
    else:
        places = np.arange(len(parts))
    return places[np.argsort(-parts[places], kind="stable")][:size]


def _choice(logits: Logits, token: int, top: int, raw: Callable[[int], bytes]) -> TokenChoice:
    import numpy as np

    best = _likeliest(logits, top).tolist() if top else []
    most = float(logits.max())
    norm = most + float(np.log(np.exp((logits - most).astype(np.float64)).sum()))
    likely = [_likely(float(logits[one]) - norm, raw(one)) for one in (token, *best)]
    return TokenChoice(likely[0], tuple(likely[1:]))


def _likely(logprob: float, raw: bytes) -> TokenLogprob:
    return TokenLogprob(raw.decode("utf-8", "replace"), min(0.0, logprob), raw)
