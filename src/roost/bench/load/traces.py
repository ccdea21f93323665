"""DECIDER: recorded traffic: when requests came, how long they were, and what they shared.

Two public formats are read. Azure's (2023) is CSV with a time, the tokens of the prompt and of the
answer. Mooncake's (FAST'25) is one JSON object a line with milliseconds, lengths, and an id for
each block of 512 tokens of the prompt: prompts that begin with the same ids begin with the same
text, and so could share what was computed.
"""

from __future__ import annotations

import csv
import datetime as dt
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TraceFormat = Literal["azure", "mooncake"]
BLOCK_TOKENS = 512


class Traced(msgspec.Struct, frozen=True):
    """One request of a trace: when it came, in seconds from the first, and its lengths in tokens.

    `blocks` are the ids of the prompt's blocks of `BLOCK_TOKENS` tokens; none where nobody knows.
    """

    due_s: float
    prompt_tokens: int
    answer_tokens: int
    blocks: tuple[int, ...] = ()


class _Mooncake(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


def read_trace(kind: TraceFormat, lines: Iterable[str], most: int) -> list[Traced]:
    """Read the first `most` requests; `ValueError` that says which line is wrong."""
    read = _azure if kind == "azure" else _mooncake
    found = list(islice(read(lines), most))
    if not found:
        raise ValueError("the trace has no requests")
    first_s = found[0].due_s
    moved = (msgspec.structs.replace(one, due_s=one.due_s - first_s) for one in found)
    return sorted(moved, key=lambda one: one.due_s)


def scaled(trace: Iterable[Traced], time: float, length: float) -> list[Traced]:
    """Stretch the times and lengths of a trace by factors; no length falls below one token.

    Blocks shrink with the lengths, so that what was shared stays shared.
    """
    return [
        Traced(
            one.due_s * time,
            max(1, round(one.prompt_tokens * length)),
            max(1, round(one.answer_tokens * length)),
            one.blocks,
        )
        for one in trace
    ]


def _azure(lines: Iterable[str]) -> Iterator[Traced]:
    for number, row in enumerate(csv.DictReader(lines), 2):
        try:
            # Its clocks have seven digits below the second, one more than Python reads.
            when = dt.datetime.fromisoformat(row["TIMESTAMP"][:26]).replace(tzinfo=dt.UTC)
            prompt, answer = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"line {number} is not of an Azure trace") from None
        yield Traced(when.timestamp(), prompt, answer)


def _mooncake(lines: Iterable[str]) -> Iterator[Traced]:
    decoder = msgspec.json.Decoder(_Mooncake)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = decoder.decode(line)
        except msgspec.MsgspecError:
            raise ValueError(f"line {number} is not of a Mooncake trace") from None
        yield Traced(one.timestamp / 1000, one.input_length, one.output_length, one.hash_ids)
