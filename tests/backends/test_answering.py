"""The life that runtimes without tokens have in common: one answer a slot, left and ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from roost.backends.answering import Answering
from roost.backends.base import SlotUse
from roost.core.events import Started, StreamEvent
from roost.core.ids import ModelId
from roost.core.model import Capabilities
from roost.core.request import GenerateRequest, TextPrompt
from roost.errors import RoostError


class Talk:
    """An answer that begins, and goes on until it is stopped."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.closed = 0
        self._breaks = breaks
        self._stopped = asyncio.Event()

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Begin, and wait for the end."""
        yield Started(0, 0, 0)
        await self._stopped.wait()

    def stop(self) -> None:
        """End it."""
        self._stopped.set()

    async def close(self) -> None:
        """Count; one that breaks says so."""
        self.closed += 1
        if self._breaks:
            raise OSError


def answering() -> Answering[Talk]:
    """Make one of two slots."""
    return Answering[Talk](2, 100, Capabilities(completion=True, streaming=True))


def asked(top_logprobs: int | None = None) -> GenerateRequest:
    """Make a request."""
    prompt = TextPrompt("x")
    return GenerateRequest(ModelId("m"), prompt, max_tokens=5, top_logprobs=top_logprobs)


def reason(error: pytest.ExceptionInfo[RoostError]) -> str:
    """Name what was raised."""
    return error.value.failure.reason


def test_what_is_prepared_has_a_limit_and_no_tokens() -> None:
    """The limit is the request's; tokens are counted by somebody else."""
    runtime = answering()
    runtime.check(asked())
    prepared = runtime.prepared(asked())
    assert (prepared.tokens, prepared.limit) == ((), 5)
    runtime.check_place(prepared, SlotUse(1, reuse=False))


def test_what_is_not_claimed_is_refused() -> None:
    """Log probabilities are for runtimes that say that they have them."""
    with pytest.raises(RoostError) as error:
        answering().check(asked(top_logprobs=3))
    assert reason(error) == "unsupported"


async def test_a_slot_has_one_answer() -> None:
    """A second one in the same slot is a defect of the caller; another slot is free."""
    runtime = answering()
    async with runtime.run(0, Talk()) as events:
        assert isinstance(await anext(events), Started)
        with pytest.raises(RoostError) as error:
            async with runtime.run(0, Talk()):
                pass
        assert reason(error) == "internal"
        async with runtime.run(1, Talk()):
            assert len(runtime.streams) == 2
    assert not runtime.streams


async def test_who_leaves_leaves_a_free_slot() -> None:
    """An answer is closed once, also one whose close breaks, and its slot is free."""
    runtime = answering()
    for talk in (Talk(), Talk(breaks=True)):
        try:
            async with runtime.run(0, talk):
                pass
        except OSError:
            pass
        assert (talk.closed, runtime.streams) == (1, ())


async def test_the_end_ends_what_runs_and_takes_nothing_more() -> None:
    """Who reads comes to an end, and whoever asks then hears that the runtime has ended."""
    runtime = answering()
    prepared = runtime.prepared(asked())
    async with runtime.run(0, Talk()) as events:
        await anext(events)
        runtime.end()
        runtime.end()
        assert [event async for event in events] == []
    assert runtime.died.is_set()
    with pytest.raises(RoostError) as error:
        runtime.check(asked())
    assert reason(error) == "runtime_died"
    with pytest.raises(RoostError) as error:
        runtime.check_place(prepared, SlotUse(0, reuse=False))
    assert reason(error) == "runtime_died"
