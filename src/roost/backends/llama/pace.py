"""SHELL: how many prompt tokens a llama.cpp server may take in one step on this machine.

Nothing interrupts a step: everybody who is answered waits for its end, and so does a client that
leaves. So a short prompt is timed at the first load, and if steps of the size asked for would take
too long, the server is started again with smaller ones. What was found is remembered elsewhere.
"""

from __future__ import annotations

import asyncio

import msgspec

from roost.backends.llama.answer import Timings
from roost.backends.llama.link import Link
from roost.backends.llama.prefills import PROBE_TOKENS, STEP_MIN, step_for

PROBES = 3
"""The best of them counts: a machine may be busy, but never faster than it is."""

PROBE_TIMEOUT_S = 10.0


class SlowError(Exception):
    """The server is too slow for the steps that it was started with; `tokens` fit."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens


class _Answer(msgspec.Struct):
    timings: Timings


async def measured_step(link: Link, vocab_size: int, budget_ms: int, most: int) -> int:
    """Time a short prompt on the first slot, and leave that empty; raises `Lost`.

    A server that does not get through in `PROBE_TIMEOUT_S` takes the smallest steps.
    """
    prompt = [(place * 7 + 11) % vocab_size for place in range(min(PROBE_TOKENS, most))]
    body = {"prompt": prompt, "n_predict": 0, "id_slot": 0, "stream": False}
    body |= {"cache_prompt": False, "ignore_eos": True}
    best: list[float] = []
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            for _ in range(PROBES):
                answer = await link.ask("/completion", _Answer, msgspec.json.encode(body))
                best.append(answer.timings.prompt_ms / max(1, answer.timings.prompt_n))
    except TimeoutError:
        await link.until_free(0)
    if not best:
        return min(STEP_MIN, most)
    return step_for(min(best), budget_ms, most)


async def check_pace(link: Link, vocab_size: int, budget_ms: int, step: int) -> None:
    """Raise `SlowError` where steps of this size take too long."""
    tokens = await measured_step(link, vocab_size, budget_ms, step)
    if tokens < step:
        raise SlowError(tokens)
