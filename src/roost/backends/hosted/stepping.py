"""SHELL: a run, step by step, over a library that gives the logits of what comes next.

Such a library computes tokens behind others and can go back to a beginning of them. All the rest is
the same for each: a prompt in batches, one token after the other, an end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from roost.backends.hosted.drawing import Defaults, Draw, Logits
from roost.backends.hosted.engine import Running
from roost.backends.hosted.frames import Began, Filled, Run, Said
from roost.backends.hosted.hf_texts import Texts
from roost.core.prefixes import common_length


class Held(Protocol):
    """What a slot holds of one sequence: the library's own memory of `tokens`, and of no others."""

    @property
    def tokens(self) -> list[int]:
        """What was computed, in its order."""
        ...

    def back_to(self, size: int) -> int:
        """Forget all behind the first `size` tokens; give how many are left, where it cannot 0."""
        ...

    def step(self, tokens: tuple[int, ...]) -> Logits:
        """Compute these behind the others; give the logits of what comes next."""
        ...


class Speaker(NamedTuple):
    """What a model is, beside its sequences: `batch` is the most prompt tokens in one step."""

    texts: Texts
    ends: Collection[int]
    defaults: Defaults
    batch: int


def steps(job: Run, held: Held, speaker: Speaker) -> Running:
    """Compute the prompt, then speak; see `engine.Engine.run`."""
    yield Began(job.run, _kept(job, held))
    logits = None
    for part in _parts(job, len(held.tokens), speaker.batch):
        logits = _step(held, part)
        yield Filled(job.run, len(held.tokens))
    assert logits is not None, "at least one token is always computed"
    said = job.tokens[len(job.tokens) - job.said :]
    draw = Draw(job.sampling, speaker.defaults, said, job.top_logprobs)
    barred = speaker.ends if job.ignore_eos else frozenset()
    raw = speaker.texts.raw
    while True:
        token, choice = draw.next(logits, barred, raw)
        yield Said(job.run, token, raw(token), choice=choice)
        if token in speaker.ends:
            return "stop"
        logits = _step(held, (token,))


def _kept(job: Run, held: Held) -> int:
    """Go back to what is a beginning of the prompt, all but its last token."""
    if not job.reuse:
        return held.back_to(0)
    return held.back_to(common_length(held.tokens, job.tokens[:-1]))


def _parts(job: Run, done: int, batch: int) -> Iterator[tuple[int, ...]]:
    """Cut what is to be computed into steps: batches of the prompt, what was said one by one.

    A batch has other roundings than single tokens have, by enough to tip a close decision.
    """
    prompt = max(done, len(job.tokens) - job.said)
    for at in range(done, prompt, batch):
        yield job.tokens[at : min(at + batch, prompt)]
    for token in job.tokens[prompt:]:
        yield (token,)


def _step(held: Held, tokens: tuple[int, ...]) -> Logits:
    try:
        return held.step(tokens)
    except BaseException:
        # Half of a step may be in its memory, and nobody knows which half.
        held.back_to(0)
        raise
