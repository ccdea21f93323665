"""DECIDER: recorded traffic: reads a trace, and makes conversations of its requests.

A trace knows lengths, times and which blocks of prompts are equal, but not who talks to whom. A
request whose prompt begins with all whole blocks of an earlier one is taken for that one's next
turn: it will be sent when its time has come and the turn before it has its answer. What else
several prompts have in common at their beginning becomes a system prompt that they share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

BLOCK_TOKENS = 512
"""Prompt tokens for which a trace has one hash."""


class BadTapeError(ValueError):
    """A trace that cannot be played; the message names its line and what is wrong with it."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a trace: milliseconds, tokens, and the hashes of the prompt's blocks if known."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


class Tape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which trace is played, how many times faster, and with lengths how many times smaller.

    `requests` are the trace itself; whoever reads scenarios puts them in.
    """

    name: str
    faster: float = 1.0
    smaller: int = 1
    requests: tuple[Request, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """One request of a conversation: when it is due, by how much the prompt grows, longest answer.

    `at_s` counts from the beginning of the tape.
    """

    at_s: float
    words: int
    max_tokens: int


@dataclass(slots=True)
class Talk:
    """One conversation: its turns, and the words of a beginning that it may share with others."""

    beginning: tuple[str, ...]
    turns: list[Turn] = field(default_factory=list)


def read(name: str, text: str) -> tuple[Request, ...]:
    """Read a trace, a JSON object in each line, in order of time; raises `BadTapeError`."""
    requests: list[Request] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            request = msgspec.json.decode(line, type=Request)
        except msgspec.MsgspecError as error:
            raise BadTapeError(f"line {number} of {name}: {error}") from error
        fault = _fault(request, requests[-1] if requests else None)
        if fault:
            raise BadTapeError(f"line {number} of {name}: {fault}")
        requests.append(request)
    if not requests:
        raise BadTapeError(f"{name} holds no request")
    return tuple(requests)


def _fault(request: Request, before: Request | None) -> str:
    if request.timestamp < (0.0 if before is None else before.timestamp):
        return "its timestamp is before that of the line above it, or below 0"
    if request.input_length < 1 or request.output_length < 1:
        return "input_length and output_length are at least 1"
    blocks = -(-request.input_length // BLOCK_TOKENS)
    if request.hash_ids and len(request.hash_ids) != blocks:
        return (
            f"{request.input_length} tokens are {blocks} blocks, and it has {len(request.hash_ids)}"
        )
    return ""


def talks(tape: Tape) -> list[Talk]:
    """The conversations of a tape, in the order in which they begin."""
    shared = _in_several(tape.requests)
    found: list[Talk] = []
    last: dict[tuple[int, ...], tuple[Talk, Request]] = {}
    for request in tape.requests:
        at_s = request.timestamp / 1000 / tape.faster
        most = max(1, request.output_length // tape.smaller)
        talk, before = _continued(request, last)
        if talk is None or before is None:
            beginning = _beginning(request, shared, tape.smaller)
            words = request.input_length // tape.smaller - len(beginning)
            talk = Talk(beginning)
            found.append(talk)
        else:
            words = (
                request.input_length - before.input_length - before.output_length
            ) // tape.smaller
        talk.turns.append(Turn(at_s, max(1, words), most))
        if len(request.hash_ids) > 1:
            last[request.hash_ids[:-1]] = talk, request
    return found


def _continued(
    request: Request, last: dict[tuple[int, ...], tuple[Talk, Request]]
) -> tuple[Talk | None, Request | None]:
    """The conversation that this request goes on with, and its last turn so far."""
    for blocks in range(len(request.hash_ids), 1, -1):
        known = last.get(request.hash_ids[:blocks])
        if known is not None and len(known[1].hash_ids) <= len(request.hash_ids):
            return last.pop(request.hash_ids[:blocks])
    return None, None


def _in_several(requests: Sequence[Request]) -> Counter[int]:
    return Counter(block for request in requests for block in set(request.hash_ids))


def _beginning(request: Request, shared: Counter[int], smaller: int) -> tuple[str, ...]:
    """Words for the blocks at the begin of a prompt that others have as well."""
    common: list[int] = []
    for block in request.hash_ids:
        if shared[block] < 2:
            break
        common.append(block)
    return tuple(_words(common, BLOCK_TOKENS // smaller))[: request.input_length // smaller]


def _words(blocks: Iterable[int], each: int) -> Iterable[str]:
    return (f"b{block}w{n}" for block in blocks for n in range(each))
