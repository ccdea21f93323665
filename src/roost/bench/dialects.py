"""SHELL: `python -m roost.bench.dialects`: what reading a request and saying an answer cost.

An event of an answer becomes the bytes of OpenAI's stream: as plain text, with thoughts to look
for, within a call of a tool, and with the log probabilities of its token. A history of 400 messages
and 200 KB is parsed, hashed for routing and checked, as it is for every turn of a long chat.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from time import process_time

import msgspec

from roost.bench.numbers import calibration
from roost.core.events import (
    Delta,
    Finished,
    Started,
    StreamEvent,
    TokenChoice,
    TokenLogprob,
    Usage,
)
from roost.core.ids import TenantId
from roost.core.reading import Reading
from roost.dialects.openai.chat_reply import ChatStream
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions
from roost.gateway.reading.parsing import Job, Parsed, parse

EVENT_BAR_US = 15.0
HISTORY_BAR_US = 5000.0
CALIBRATION_STEPS = 200_000
MESSAGES, MESSAGE_BYTES = 400, 512
_READING = Reading(("<think>", "</think>"), ("<tool_call>", "</tool_call>"), tools=("write",))
_OPENS, _CLOSES = '<tool_call>{"name": "write", "arguments": {"text": "', '"}}</tool_call>'


class Cost(msgspec.Struct, frozen=True):
    """Microseconds of one thing, and the same in steps of the calibration loop."""

    us: float
    steps: float


def measured(act: Callable[[], int]) -> Cost:
    """Do something that returns how many things it was, and say what each cost."""
    step_us = calibration(process_time, CALIBRATION_STEPS) * 1000 / CALIBRATION_STEPS
    began_s = process_time()
    count = act()
    us = (process_time() - began_s) * 1e6 / count
    return Cost(us, us / step_us)


def said(texts: Sequence[str], reading: Reading | None, *, logprobs: bool = False) -> int:
    """Say an answer that comes in these pieces; return how many."""
    options = ReplyOptions(stream=True, logprobs=logprobs)
    voice = ChatStream(Choice("chatcmpl-bench", 0, "org/model:tag", options))
    events: list[StreamEvent] = [Started(9, 0, 0, reading), *(_delta(t, logprobs) for t in texts)]
    size = sum(len(voice.event(event)) for event in [*events, Finished("stop", Usage())])
    assert size > sum(map(len, texts)), "every piece is in what was said"
    assert not voice.broken, "and the answer is of use"
    return len(texts)


def history() -> bytes:
    """Write the body of a chat with a long past."""
    talk = [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"{number} {'word ' * 100}"[:MESSAGE_BYTES],
        }
        for number in range(MESSAGES)
    ]
    return msgspec.json.encode(
        {"model": "m", "messages": [*talk, {"role": "user", "content": "?"}]}
    )


def read(body: bytes, times: int) -> int:
    """Read a body so many times; return how often."""
    job = Job("chat", body, TenantId("t"), "m", strict=False)
    for _ in range(times):
        parsed = parse(job)
        assert isinstance(parsed, Parsed), "it is a good request"
        assert len(parsed.prompt.chain) == MESSAGES + 1, "every beginning is hashed"
    return times


def _delta(text: str, logprobs: bool) -> Delta:  # noqa: FBT001 - a comprehension's argument
    token = TokenLogprob(text, -0.5, text.encode())
    return Delta(text, logprobs=(TokenChoice(token, (token, token)),) if logprobs else ())


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell; the status says whether the bars were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--histories", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args(argv)
    words = [" word"] * arguments.events
    body = history()
    acts: dict[str, tuple[Callable[[], int], float]] = {
        "text": (lambda: said(words, None), EVENT_BAR_US),
        "thoughts": (lambda: said(["<think>", *words], _READING), EVENT_BAR_US),
        "call": (lambda: said([_OPENS, *words, _CLOSES], _READING), EVENT_BAR_US),
        "logprobs": (lambda: said(words, None, logprobs=True), EVENT_BAR_US),
        "history": (lambda: read(body, arguments.histories), HISTORY_BAR_US),
    }
    is_met = True
    for name, (act, bar_us) in acts.items():
        costs = [measured(act) for _ in range(arguments.repeats)]
        least = min(costs, key=lambda cost: cost.us)
        is_met = is_met and least.us <= bar_us
        sys.stdout.write(
            f"{name} {least.us:.2f} us of {bar_us:.0f}, {least.steps:.0f} calibration steps; "
            f"the slowest of {len(costs)} runs {max(cost.us for cost in costs):.2f} us\n"
        )
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
