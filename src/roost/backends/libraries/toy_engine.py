"""SHELL: a library to be hosted that has no dependency: small, quick, and exactly repeatable.

Every byte is a token. The model has learned nothing before: it expects what followed the same few
bytes earlier in its own context, so it repeats lists and finishes patterns, as small models do. A
slot keeps what it has counted, and a prompt with the same beginning goes on from there.

The model is a JSON file, whose fields are those of `Model`: times to make it as slow as a real one,
and faults for those who test what becomes of everybody else.
"""

from __future__ import annotations

import logging
import math
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from roost.backends.byte_vectors import vector
from roost.backends.hosted.engine import CannotLoad, Running
from roost.backends.hosted.frames import Began, Filled, Load, Loaded, Run, Said
from roost.core.events import TokenChoice, TokenLogprob
from roost.core.prefixes import common_length
from roost.core.request import Sampling
from roost.core.vectors import packed

BOS, START, END = 256, 257, 258
SPECIAL = {"<s>": BOS, "<|im_start|>": START, "<|im_end|>": END}
VOCAB_SIZE = 259
CTX = 4096
ORDERS = (8, 4, 2, 1, 0)
"""How many bytes of context are compared; what has followed more of them weighs more."""

SMOOTH = 1e-3
FOREVER_S = 3600.0
_SPLIT = re.compile("|".join(map(re.escape, SPECIAL)))


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long everything takes, and what goes wrong: at the load, or after so many tokens.

    Of vectors it goes wrong with so many inputs at once.

    `stuck_after` stops in the middle of a step for good, `crash_after` ends the process,
    `garbage_after` writes what is no frame, `raise_after` raises. `hog_bytes` are taken at the load
    and again after `hog_after` tokens.
    """

    load_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    stuck_after: int | None = None
    crash_after: int | None = None
    garbage_after: int | None = None
    raise_after: int | None = None
    hog_bytes: int = 0
    hog_after: int | None = None


class _Slot:
    """What a slot holds: tokens, and what has followed each few of them."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], Counter[int]] = {}

    def push(self, token: int) -> None:
        """Take one more token."""
        size = len(self.tokens)
        for order in ORDERS:
            if order <= size:
                context = tuple(self.tokens[size - order :])
                self._after.setdefault(context, Counter())[token] += 1
        self.tokens.append(token)

    def weights(self) -> dict[int, float]:
        """Give what may come next, with weights that add up to 1."""
        weights = dict.fromkeys(range(VOCAB_SIZE), SMOOTH / VOCAB_SIZE)
        rest, size = 1.0 - SMOOTH, len(self.tokens)
        for order in ORDERS:
            seen = self._after.get(tuple(self.tokens[size - order :])) if order <= size else None
            if not seen:
                continue
            part = rest if order == 0 else rest * 0.99
            rest -= part
            total = seen.total()
            for token, count in seen.items():
                weights[token] += part * count / total
        return weights


class ToyEngine:
    """The library, with one model in memory."""

    def __init__(self, model: Model, load: Load) -> None:
        self._model = model
        self._batch = load.batch
        self._slots = [_Slot() for _ in range(load.slots)]
        self.loaded = Loaded(load.ctx or CTX, VOCAB_SIZE, (BOS,), 12, "toy 1")
        self._hoard = [bytearray(model.hog_bytes)]

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Give bytes, and special tokens where they are wanted; see `engine.Engine`."""
        at = 0
        for found in _SPLIT.finditer(piece) if special else ():
            yield from piece[at : found.start()].encode()
            yield SPECIAL[found.group()]
            at = found.end()
        yield from piece[at:].encode()

    def embed(self, batch: Sequence[Sequence[int]]) -> tuple[int, bytes]:
        """Make vectors near where texts have the same bytes; see `engine.VectorEngine`."""
        self._fail(len(batch))
        time.sleep(sum(map(len, batch)) * self._model.prefill_ms / 1000)
        vectors = [vector(tuple(one)) for one in batch]
        return len(vectors[0]), packed(vectors)

    def run(self, job: Run) -> Running:
        """Compute the prompt, then speak; see `engine.Engine`."""
        held = self._slots[job.slot].tokens if job.reuse else []
        common = common_length(held, job.tokens[:-1])
        slot = self._slots[job.slot] = _Slot()
        for token in job.tokens[:common]:
            slot.push(token)
        yield Began(job.run, common)
        for at in range(common, len(job.tokens), self._batch):
            part = job.tokens[at : at + self._batch]
            time.sleep(len(part) * self._model.prefill_ms / 1000)
            for token in part:
                slot.push(token)
            yield Filled(job.run, at + len(part))
        return (yield from self._answer(job, slot))

    def _answer(self, job: Run, slot: _Slot) -> Running:
        # A continued answer draws on from where it was, and not the same numbers again.
        dice = random.Random(f"{job.sampling.seed} {len(job.tokens)}")
        for number in range(job.limit):
            self._fail(number)
            time.sleep(self._model.decode_ms / 1000)
            weights = slot.weights()
            for token in (BOS, START, END) if job.ignore_eos else (BOS, START):
                del weights[token]
            token = drawn(weights, job.sampling, dice)
            slot.push(token)
            choice = None if job.top_logprobs is None else chosen(weights, token, job.top_logprobs)
            yield Said(job.run, token, _raw(token), choice=choice)
            if token >= BOS:
                return "stop"
        return "length"

    def _fail(self, number: int) -> None:
        model = self._model
        if number == model.stuck_after:
            logging.getLogger(__name__).warning("stuck, as the model says")
            time.sleep(FOREVER_S)
        if number == model.crash_after:
            os.abort()
        if number == model.garbage_after:
            os.write(int(sys.argv[1]), b"\xff" * 64)
        if number == model.raise_after:
            raise RuntimeError("the toy is told to break here")
        if number == model.hog_after:
            self._hoard.append(bytearray(model.hog_bytes))


def load(order: Load, on_progress: Callable[[float], None]) -> ToyEngine:
    """Load a model from its JSON file; see `engine.Loader`."""
    try:
        model = msgspec.json.decode(Path(order.path).read_bytes(), type=Model)
    except (OSError, msgspec.DecodeError):
        raise CannotLoad("The model's file is no toy.") from None
    for part in range(4):
        on_progress(part / 4)
        time.sleep(model.load_ms / 4000)
    return ToyEngine(model, order)


def drawn(weights: dict[int, float], sampling: Sampling, dice: random.Random) -> int:
    """Draw a token: the likeliest at temperature 0, the lowest of several that are equally so."""
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    best = sorted(weights, key=lambda token: (-weights[token], token))
    if sampling.top_k:
        best = best[: sampling.top_k]
    if temperature == 0:
        return best[0]
    parts = [weights[token] ** (1 / max(temperature, 0.05)) for token in best]
    return dice.choices(best, parts)[0]


def chosen(weights: dict[int, float], token: int, count: int) -> TokenChoice:
    """Tell how likely the token was, and which ones were likelier."""
    total = sum(weights.values())
    best = sorted(weights, key=lambda one: (-weights[one], one))[:count]
    return TokenChoice(
        _likely(token, weights[token] / total),
        tuple(_likely(one, weights[one] / total) for one in best),
    )


def _likely(token: int, part: float) -> TokenLogprob:
    raw = _raw(token)
    return TokenLogprob(raw.decode("utf-8", "replace"), min(0.0, math.log(part)), raw)


def _raw(token: int) -> bytes:
    return bytes((token,)) if token < BOS else b""
