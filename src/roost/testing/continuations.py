"""SHELL: cases about answers that one runtime begins and another one ends."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from roost.core.events import Finished
from roost.core.request import Continuation, GenerateRequest
from roost.testing.answers import EMOJI
from roost.testing.stand import Broken, Record, Stand, require

PROMPT = "one two three four five six seven "
SEAMS = 6
"""After how many of an answer's deltas it is gone on with, at most."""


@dataclass
class Half:
    """The beginning of an answer: its text, its ids."""

    text: str
    ids: tuple[int, ...]


async def ids_are_told(stand: Stand) -> None:
    """Ids come where they are asked for, one for each token whose text is out."""
    request = stand.request(PROMPT, 20, ignore_eos=True)
    plain = await stand.run(request)
    require(not any(delta.ids for delta in plain.deltas), "ids came that nobody asked for")
    asked = await stand.run(msgspec.structs.replace(request, return_tokens=True))
    require(asked.text == plain.text, f"{plain.text!r} became {asked.text!r} with ids")
    for delta in asked.deltas:
        require(len(delta.ids) == delta.tokens, f"{delta.tokens} tokens have {len(delta.ids)} ids")


async def answers_are_continued(stand: Stand) -> None:
    """Wherever an answer is cut, the rest of it follows, with counts that add up."""
    await _continued(stand, stand.request(PROMPT, 20, ignore_eos=True))


async def characters_survive_the_seam(stand: Stand) -> None:
    """Characters of several tokens are never cut by it."""
    await _continued(stand, stand.request(EMOJI, 18, ignore_eos=True))


async def stops_span_the_seam(stand: Stand) -> None:
    """A stop string that would begin before the seam and end behind it is found all the same."""
    request = stand.request(PROMPT, 20, ignore_eos=True)
    whole = (await stand.run(request)).text
    for size in (4, 9):
        stop = whole[len(whole) // 2 :][:size]
        await _continued(stand, msgspec.structs.replace(request, stop=(stop,)))


async def logprobs_survive_the_seam(stand: Stand) -> None:
    """Each token has its log probabilities once, those of one half behind those of the other."""
    request = stand.request(PROMPT, 16, ignore_eos=True, top_logprobs=1)
    whole = await _whole(stand, request)
    for half in _halves(whole):
        record = await stand.run(_rest_of(request, half))
        count = len(whole.choices) - len(record.choices)
        require(count == len(half.ids), f"{len(half.ids)} tokens have {count} log probabilities")
        told, first = record.choices, whole.choices[count:]
        same = [one.chosen.raw for one in told] == [one.chosen.raw for one in first]
        require(same, "log probabilities of other tokens came")


async def complete_answers_end_at_once(stand: Stand) -> None:
    """Who has said all that the limit allows says nothing more, and that the limit is why."""
    request = stand.request(PROMPT, 5, ignore_eos=True)
    for half in _halves(await _whole(stand, request)):
        if len(half.ids) == request.max_tokens:
            record = await stand.run(_rest_of(request, half))
            require(not record.deltas, f"{record.text!r} was said beyond the limit")
            require(record.finished.reason == "length", "the limit ended it, and is not told")
            return
    raise Broken("no delta ended at the limit")


async def _continued(stand: Stand, request: GenerateRequest) -> None:
    whole = await _whole(stand, request)
    for half in _halves(whole):
        record = await stand.run(_rest_of(request, half))
        text = half.text + record.text
        require(text == whole.text, f"{whole.text!r} became {half.text!r} + {record.text!r}")
        told, first = record.finished, whole.finished
        require(told.reason == first.reason, f"{first.reason} became {told.reason}")
        require(told.stop_text == first.stop_text, "another stop string is told")
        sum_ = len(half.ids) + told.usage.completion_tokens
        count = first.usage.completion_tokens
        require(sum_ == count, f"{count} tokens became {sum_}")


def _rest_of(request: GenerateRequest, half: Half) -> GenerateRequest:
    continuation = Continuation(half.ids, "conformance")
    return msgspec.structs.replace(request, return_tokens=True, continuation=continuation)


async def _whole(stand: Stand, request: GenerateRequest) -> Record:
    record = await stand.run(msgspec.structs.replace(request, return_tokens=True))
    require(isinstance(record.events[-1], Finished), "the answer was not complete")
    return record


def _halves(whole: Record) -> list[Half]:
    """Give beginnings of the answer, as its deltas cut it, evenly spread."""
    halves, text, ids = [], "", tuple[int, ...]()
    for delta in whole.deltas:
        if len(delta.ids) != delta.tokens:
            # What ends an answer has no text of its own, and nobody goes on behind it.
            break
        text, ids = text + delta.text, ids + delta.ids
        halves.append(Half(text, ids))
    require(halves, "no delta could be gone on behind")
    step = max(1, len(halves) // SEAMS)
    return [*halves[::step][:SEAMS], halves[-1]]
