"""SHELL: cases about answers: their order, text, limits and counts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from roost.backends.base import Hold, Poured, SlotUse
from roost.core.events import TERMINAL, StreamEvent
from roost.core.request import Sampling, TokensPrompt
from roost.testing.stand import Broken, NotApplicable, Record, Stand, require

EMOJI = "😀漢😀漢😀漢" * 2


async def text_is_completed(stand: Stand) -> None:
    """A text prompt gives events in order and an answer within its limit."""
    record = await stand.run(stand.request("one two three four five "))
    require(record.text, "the answer is empty")
    require(record.started.slot == 0, f"slot 0 was asked for, {record.started.slot} is told")


async def chat_is_answered(stand: Stand) -> None:
    """A message gives an answer in order."""
    if stand.has_no_chat:
        failure = await stand.refusal(stand.chat("Say hello to me."))
        require(failure.reason == "unsupported", f"no template, and refused as {failure.reason}")
        raise NotApplicable("the model has no chat template")
    record = await stand.run(stand.chat("Say hello to me."))
    require(record.text, "the answer is empty")


async def tokens_are_completed(stand: Stand) -> None:
    """Token ids are a prompt as good as the text they came from."""
    prepared = await stand.runtime.prepare(stand.request("one two three four "))
    again = await stand.runtime.prepare(stand.request(TokensPrompt(prepared.tokens)))
    require(again.tokens == prepared.tokens, "token ids were changed by prepare")
    texts = [(await stand.run(one)).text for one in (prepared, again)]
    require(texts[0] == texts[1], "equal tokens gave different answers at temperature 0")


async def end_is_the_end(stand: Stand) -> None:
    """After the terminal event the stream is over, however often it is asked, or when poured."""
    prepared = await stand.runtime.prepare(stand.request("one two ", 4))
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        seen = [event async for event in events]
        with suppress(StopAsyncIteration):
            raise Broken(f"after the end came {await anext(events)}")
    terminals = sum(isinstance(event, TERMINAL) for event in seen)
    require(terminals == 1, f"{terminals} terminal events")
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        if isinstance(events, Poured):
            poured = await _poured(events)
            require(poured.events == seen, f"iterated {seen}, poured {poured.events}")


async def _poured(stream: Poured) -> Record:
    """Pour a stream, holding it after every third event; nothing may come before that is over."""
    record, is_held = Record(), False

    async def hold() -> None:
        nonlocal is_held
        await asyncio.sleep(0)
        is_held = False

    def take(event: StreamEvent) -> Hold | None:
        nonlocal is_held
        require(not is_held, f"{type(event).__name__} came while the stream was held")
        record.add(event)
        is_held = len(record.events) % 3 == 0
        return hold if is_held else None

    await stream.pour(take)
    return record


async def answers_come_in_pieces(stand: Stand) -> None:
    """A longer answer is streamed: its first piece comes before its last."""
    record = await stand.run(stand.request("one two three four five six ", 40, ignore_eos=True))
    require(len(record.deltas) > 1, "forty tokens came in one piece")


async def characters_stay_whole(stand: Stand) -> None:
    """Characters of several tokens arrive whole; one that the limit cuts off is one U+FFFD."""
    longest = ""
    for limit in (9, 10, 11, 12):
        record = await stand.run(stand.request(EMOJI, limit, ignore_eos=True))
        said = record.text.removesuffix("\ufffd")
        require("\ufffd" not in said, f"a character was split: {record.text!r}")
        for delta in record.deltas:
            delta.text.encode()
        longest = max(longest, record.text, key=len)
    require(not longest.isascii(), "the model said nothing but ASCII, so nothing was checked")


async def stop_strings_stop(stand: Stand) -> None:
    """A stop string ends the answer before it, also one that spans pieces, and is named."""
    request = stand.request("one two three four five six seven ", 24, ignore_eos=True)
    whole = (await stand.run(request)).text
    stop = whole[len(whole) // 3 :][:7]
    record = await stand.run(msgspec.structs.replace(request, stop=("\x00 never", stop)))
    require(record.text == whole[: whole.index(stop)], f"{stop!r} should cut {whole!r}")
    finished = record.finished
    require(finished.reason == "stop", f"a stop string ended it and {finished.reason} is told")
    require(finished.stop_text == stop, f"{stop!r} ended it and {finished.stop_text!r} is told")


async def held_text_is_released(stand: Stand) -> None:
    """Text that might begin a stop string comes out when the answer ends without one."""
    request = stand.request("one two three four five six seven ", 24, ignore_eos=True)
    whole = (await stand.run(request)).text
    stops = (whole[-5:] + "\x00", whole[3:9] + "\x00")
    record = await stand.run(msgspec.structs.replace(request, stop=stops))
    require(record.text == whole, f"{whole!r} became {record.text!r}")
    require(record.finished.stop_text is None, "a stop string is told that never came")


async def limits_hold(stand: Stand) -> None:
    """An answer ends at its limit and says so."""
    for limit in (1, 2, 9):
        record = await stand.run(stand.request("one two three ", limit, ignore_eos=True))
        finished = record.finished
        require(finished.reason == "length", f"the limit ended it and {finished.reason} is told")
        count = finished.usage.completion_tokens
        require(count == limit, f"{count} tokens for a limit of {limit}")


async def context_can_be_filled(stand: Stand) -> None:
    """A prompt that leaves room for three tokens gets three."""
    heavy = await stand.heavy()
    tokens = (heavy.tokens * 3)[: stand.ctx - 3]
    prepared = await stand.runtime.prepare(
        stand.request(TokensPrompt(tokens), None, ignore_eos=True)
    )
    record = await stand.run(prepared)
    require(record.finished.usage.completion_tokens == 3, "three tokens fit")


async def counts_are_exact(stand: Stand) -> None:
    """The runtime counts what prepare has counted, and longer texts count more."""
    counts = []
    for text in ("one", "one two three", "one two three four five six " * 9):
        prepared = await stand.runtime.prepare(stand.request(text, 2))
        record = await stand.run(prepared)
        require(record.started.prompt_tokens == len(prepared.tokens), "Started tells another count")
        counts.append(len(prepared.tokens))
    require(counts == sorted(set(counts)), f"token counts {counts} do not grow with the text")


async def seeds_repeat(stand: Stand) -> None:
    """The same seed gives the same answer at a temperature where others differ."""
    sampling = Sampling(temperature=1.0, seed=2**32 - 1)
    request = stand.request("Once upon a time ", 32, sampling=sampling, ignore_eos=True)
    first, second = [(await stand.run(request)).text for _ in range(2)]
    require(first == second, f"one seed gave {first!r} and {second!r}")


async def prefixes_are_reused(stand: Stand) -> None:
    """A continued prompt is not computed again where reuse is allowed, and is where it is not."""
    prepared = await stand.runtime.prepare(stand.request("one two three four five " * 12, 8))
    await stand.run(prepared, 1)
    more = await stand.runtime.prepare(
        stand.request(TokensPrompt((*prepared.tokens, *prepared.tokens[-9:])), 4)
    )
    cached = (await stand.run(more, 1, reuse=True)).started.cached_tokens
    held = len(prepared.tokens)
    require(held - 1 <= cached < len(more.tokens), f"{cached} of {held} held tokens were reused")
    cached = (await stand.run(more, 1, reuse=False)).started.cached_tokens
    require(cached == 0, f"{cached} tokens were reused where that was forbidden")


async def logprobs_add_up(stand: Stand) -> None:
    """Log probabilities come with the text they belong to, best first, as many as asked for."""
    record = await stand.run(stand.request("one two three ", 12, ignore_eos=True, top_logprobs=3))
    choices = record.choices
    require(choices, "no log probabilities came")
    text = b"".join(choice.chosen.raw for choice in choices).decode("utf-8", "replace")
    require(text.startswith(record.text), f"{record.text!r} has log probabilities of {text!r}")
    for choice in choices:
        values = [token.logprob for token in choice.top]
        good = 1 <= len(values) <= 3 and values == sorted(values, reverse=True)
        require(good and max(values) <= 0 >= choice.chosen.logprob, f"log probabilities {values}")
