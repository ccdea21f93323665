"""SHELL: `python -m roost.bench.frames`: what a token of a hosted library costs on its way.

From the library's word to the events that a node reads, over a real socket: written, sent,
received, cut, read, decoded to text, searched for stop strings, counted. Child and node are one
process here, so that is the processor time of both; what a token takes inside a library is not.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence
from time import process_time

import msgspec

from roost.backends.base import Prepared
from roost.backends.hosted.answer import Answer
from roost.backends.hosted.frames import Began, Over, Said, Splitter, Step, Word, pack
from roost.bench.numbers import calibration
from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, TextPrompt

BAR_US = 10.0
CALIBRATION_STEPS = 200_000
READ_BYTES = 65_536


class Cost(msgspec.Struct, frozen=True):
    """Microseconds per token, and the same in steps of the calibration loop."""

    token_us: float
    steps: float


def measured(tokens: int, *, stop: tuple[str, ...] = ()) -> Cost:
    """Send one answer of so many tokens through; raises where an event is missing."""
    step_us = calibration(process_time, CALIBRATION_STEPS) * 1000 / CALIBRATION_STEPS
    request = GenerateRequest(ModelId("m"), TextPrompt("x"), tokens, stop)
    answer = Answer(0, Prepared(request, (1,), tokens))
    began_s = process_time()
    seen = _sent(answer, tokens)
    token_us = (process_time() - began_s) * 1e6 / tokens
    assert seen == tokens + 2, "Started, a delta for each token, Finished"
    return Cost(token_us, token_us / step_us)


def _sent(answer: Answer, tokens: int) -> int:
    splitter, decoder = Splitter(), msgspec.msgpack.Decoder(Word)
    child, node = socket.socketpair()
    seen = 0
    with child, node:
        words: list[Step | Over] = [Began(1)]
        words += [Said(1, number % 50_000, b" word") for number in range(tokens)]
        for word in [*words, Over(1, "length")]:
            child.sendall(pack(word))
            for frame in splitter.push(node.recv(READ_BYTES)):
                said = decoder.decode(frame)
                assert isinstance(said, (Step, Over)), "nothing else was sent"
                seen += len(answer.on_word(said))
    return seen


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell; the status says whether the bar was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args(argv)
    worst = 0.0
    for name, stop in (("plain", ()), ("stops", ("\n\nUser:", "</s>"))):
        costs = [measured(arguments.tokens, stop=stop) for _ in range(arguments.repeats)]
        least = min(costs, key=lambda cost: cost.token_us)
        worst = max(worst, least.token_us)
        sys.stdout.write(
            f"{name} {least.token_us:.2f} us per token, {least.steps:.0f} calibration steps; "
            f"the slowest of {len(costs)} runs {max(cost.token_us for cost in costs):.2f} us\n"
        )
    return int(worst > BAR_US)


if __name__ == "__main__":
    sys.exit(main())
