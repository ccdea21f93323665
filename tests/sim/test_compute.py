"""The toy engine: answers that prove themselves, a cache, and a stop that is acknowledged."""

from __future__ import annotations

from random import Random

import pytest

from roost.backends.base import Prepared, SlotUse
from roost.core.events import Delta, Finished, PrefillProgress, Started, StreamEvent
from roost.core.ids import ModelId, StreamId
from roost.core.request import ChatPrompt, GenerateRequest, Message, Role
from roost.node.effects import StreamKey
from roost.sim.compute import Engine, answer_of, prompt_tokens
from roost.sim.costs import Costs
from roost.sim.world import World

COSTS = Costs(batch=4)


def request(*contents: str, max_tokens: int = 6) -> GenerateRequest:
    """A chat of these messages, user and assistant by turns."""
    roles: tuple[Role, Role] = ("user", "assistant")
    messages = tuple(Message(roles[n % 2], text) for n, text in enumerate(contents))
    return GenerateRequest(ModelId("m"), ChatPrompt(messages), max_tokens=max_tokens)


class Bench:
    """An engine whose events are written down."""

    def __init__(self) -> None:
        self.world = World(Random)
        self.engine = Engine(self.world, "m#1", COSTS)
        self.events: list[StreamEvent] = []
        self.closed: list[StreamKey] = []
        self.engine.emit = lambda _key, event: self.events.append(event)
        self.engine.closed = lambda key, _failure: self.closed.append(key)

    def open(self, asked: GenerateRequest, number: int = 1, *, reuse: bool = True) -> StreamKey:
        """Run a request on slot 0."""
        key = StreamKey(1, StreamId(number))
        self.engine.open(key, Prepared(asked, prompt_tokens(asked), 100), SlotUse(0, reuse))
        return key

    @property
    def text(self) -> str:
        """Everything that was generated."""
        return "".join(event.text for event in self.events if isinstance(event, Delta))


def test_answer_is_the_oracles() -> None:
    """The engine says what `answer_of` says, in pieces, after prefill in steps."""
    bench = Bench()
    asked = request("one two three four five six")
    bench.open(asked)
    bench.world.run(10.0)
    assert bench.text == "".join(answer_of(asked))
    assert bench.events[0] == Started(7, 0, 0)
    assert PrefillProgress(4, 7) in bench.events
    (last,) = [event for event in bench.events if isinstance(event, Finished)]
    assert last.usage.completion_tokens == len(answer_of(asked))
    assert len(bench.closed) == 1


def test_answers_differ_by_every_word_and_never_repeat() -> None:
    """Tokens of one answer are distinct, and answers of different prompts share none."""
    one, other = answer_of(request("a b", max_tokens=12)), answer_of(request("a c", max_tokens=12))
    assert len({*one, *other}) == len(one) + len(other)


@pytest.mark.parametrize(("reuse", "cached"), [(True, True), (False, False)])
def test_next_turn_finds_the_turn_before(reuse: bool, cached: bool) -> None:
    """Prompt and answer stay in the slot, for whoever may reuse it."""
    bench = Bench()
    first = request("hello there")
    bench.open(first)
    bench.world.run(10.0)
    answer = "".join(answer_of(first)).strip()
    bench.events.clear()
    bench.open(request("hello there", answer, "and now"), 2, reuse=reuse)
    bench.world.run(20.0)
    started = bench.events[0]
    assert isinstance(started, Started)
    expected = 4 + len(answer.split()) if cached else 0
    assert started.cached_tokens == expected


def test_stop_is_acknowledged_and_final() -> None:
    """After `leave` nothing is said, and the slot is free a moment later."""
    bench = Bench()
    key = bench.open(request("one two three", max_tokens=50))
    bench.world.run(0.1)
    bench.engine.leave(key)
    count = len(bench.events)
    bench.world.run(0.105)
    assert bench.closed == []
    bench.world.run(10.0)
    assert (len(bench.events), bench.closed) == (count, [key])
    bench.engine.leave(key)


def test_paused_stream_waits_and_goes_on_without_loss() -> None:
    """A pause delays and changes nothing else."""
    bench = Bench()
    asked = request("one two", max_tokens=9)
    key = bench.open(asked)
    bench.world.run(0.05)
    bench.engine.pause(key, paused=True)
    bench.world.run(50.0)
    assert bench.closed == []
    bench.engine.pause(key, paused=False)
    bench.world.run(100.0)
    assert bench.text == "".join(answer_of(asked))


def test_one_stream_on_one_slot() -> None:
    """A slot given out twice is a defect that shows at once."""
    bench = Bench()
    bench.open(request("one"))
    with pytest.raises(AssertionError, match="one stream on one slot"):
        bench.open(request("two"), 2)
