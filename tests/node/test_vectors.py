"""Vectors through the node: order, limits and endings are those of any request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.backends.base import Prepared, Runtime, StartSettings
from roost.backends.byte_vectors import vector
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.backends.scripted.script import Script
from roost.core.engine import Mode
from roost.core.events import Finished, Started, StreamEvent, Usage, Vectors
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt, TextPrompt
from roost.core.vectors import numbers, packed
from roost.node.agent import Agent
from roost.node.effects import Load, Prepare, Run
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.prompts.vectors import BATCH_INPUTS, BATCH_TOKENS, batches
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello, Refused
from tests.conftest import Eventually
from tests.node.gateway import TestGateway
from tests.node.kit import FIRST, LINK, MODEL, SETTINGS, Node, key, offer, open_message
from tests.node.tiny import TinyLaunch

OFFER = msgspec.structs.replace(offer(), mode="embed", vector_sizes=(16, 8))
BOS = 256


def asked(*inputs: str | tuple[int, ...], dimensions: int = 0) -> GenerateRequest:
    """A request for the vectors of these."""
    return GenerateRequest(MODEL, EmbedPrompt(inputs, dimensions), max_tokens=1)


class Rig:
    """A node with one runtime for vectors, and a gateway that asks it."""

    def __init__(self, group: asyncio.TaskGroup, script: Script, mode: Mode) -> None:
        self._script = script
        self._mode = mode
        self.runtime: ScriptedRuntime | None = None
        self.agent = Agent(SETTINGS, [msgspec.structs.replace(OFFER, mode=mode)])
        hello = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
        loop = LoopSettings(stop_grace_s=0.1)
        self.node = NodeLoop(self.agent, self.launch, hello, loop, time.monotonic, logs.get())
        near, far = memory_pair()
        self.gateway = TestGateway(far)
        group.create_task(self.node.run())
        group.create_task(self.node.serve_link(near))
        group.create_task(self.gateway.run())

    async def launch(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the scripted backend, for vectors."""
        options = RuntimeOptions(4096, 2, mode=self._mode)
        manifest = Manifest(model, "", 0, "sha256:0", format="scripted")
        self.runtime = await ScriptedBackend(self._script).start(
            RuntimeKey("scripted", model, "sha256:0", options),
            manifest,
            StartSettings("", ""),
            on_progress,
        )
        return self.runtime

    def events(self, stream: int) -> list[StreamEvent]:
        """Everything that was said of a stream."""
        return self.gateway.events[stream]


@asynccontextmanager
async def rigged(script: Script | None = None, mode: Mode = "embed") -> AsyncIterator[Rig]:
    """Run the node and its gateway for the length of a block."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, script or Script(), mode)
        await rig.gateway.is_up.wait()
        try:
            yield rig
        finally:
            await rig.node.stop(0.0)


def rows(events: Sequence[StreamEvent]) -> list[tuple[float, ...]]:
    """The vectors among these."""
    found = []
    for event in events:
        if isinstance(event, Vectors):
            step = 4 * event.size
            parts = (event.data[at : at + step] for at in range(0, len(event.data), step))
            found += [numbers(part) for part in parts]
    return found


def expected(text: str) -> tuple[float, ...]:
    """The vector of a text, in 32 bits."""
    return numbers(packed([vector((BOS, *text.encode()))]))


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.just(1), min_size=1, max_size=9).map(tuple), max_size=40),
    st.integers(1, 20),
    st.integers(1, 5),
)
def test_batches_keep_order_and_limits(
    inputs: list[tuple[int, ...]], tokens: int, most: int
) -> None:
    """Nothing is lost or moved, and only an input that is too long alone is over the limit."""
    found = [[inputs[place] for place in batch] for batch in batches(inputs, tokens, most)]
    assert [one for batch in found for one in batch] == inputs
    for batch in found:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(map(len, batch)) <= tokens


async def test_requests_beside_each_other_get_their_own_vectors(eventually: Eventually) -> None:
    """Texts and token ids, in their order, each as it is alone, whoever asks beside."""
    texts = [f"text {number} " * (number % 7) + "end" for number in range(600)]
    async with rigged() as rig:
        many = rig.gateway.ask_for(asked(*texts))
        pair = rig.gateway.ask_for(asked("one", (BOS, *b"two")))
        await eventually(lambda: rig.gateway.all_released(many, pair), what="both are answered")
        assert rows(rig.events(pair)) == [expected("one"), expected("two")]
        events = rig.events(many)
        assert rows(events) == [expected(text) for text in texts]
        count = sum(len(text) + 1 for text in texts)
        first = events[0]
        assert isinstance(first, Started)
        assert (first.prompt_tokens, first.cached_tokens) == (count, 0)
        assert events[-1] == Finished("stop", Usage(count))
        sizes = [len(one.data) // 64 for one in events if isinstance(one, Vectors)]
        assert len(sizes) > 2
        assert max(sizes) <= BATCH_INPUTS
        assert count > BATCH_TOKENS


async def test_shorter_vectors_are_the_beginning_with_length_1(eventually: Eventually) -> None:
    """Where the model was trained for that, as its offer says; a size that it lacks is refused."""
    async with rigged() as rig:
        whole, short, wrong = (
            rig.gateway.ask_for(asked("hello", dimensions=size)) for size in (16, 8, 4)
        )
        await eventually(lambda: rig.gateway.all_released(whole, short, wrong), what="answers")
        (long,) = rows(rig.events(whole))
        (cut,) = rows(rig.events(short))
        length = sum(one * one for one in long[:8]) ** 0.5
        assert cut == pytest.approx([one / length for one in long[:8]], abs=1e-6)
        assert rig.gateway.refused[wrong].param == "dimensions"


async def test_documents_get_their_own_scores(eventually: Eventually) -> None:
    """In their order, as vectors of one number; usage is what the runtime counted."""
    documents = tuple(f"document {number}" for number in range(40))
    request = GenerateRequest(MODEL, RankPrompt("document 7", documents), max_tokens=1)
    async with rigged(mode="rank") as rig:
        many, wrong = rig.gateway.ask_for(request), rig.gateway.ask_for(asked("x"))
        await eventually(lambda: rig.gateway.all_released(many, wrong), what="both are answered")
        assert rig.gateway.refused[wrong].message == (
            "The model scores documents and makes no vectors."
        )
        events = rig.events(many)
        scores = [score for (score,) in rows(events)]
        assert len(scores) == 40
        assert scores[7] == max(scores) == pytest.approx(1.0)
        count = sum(len(one) + 12 for one in documents)
        assert events[-1] == Finished("stop", Usage(count))


async def test_wrong_inputs_are_refused_with_their_place(eventually: Eventually) -> None:
    """Nothing has been computed then, and the words say which of them it is."""
    async with rigged() as rig:
        long = rig.gateway.ask_for(asked(*["x"] * 300, "y" * 5000))
        strange = rig.gateway.ask_for(asked("x", (1, 70_000)))
        await eventually(lambda: rig.gateway.all_released(long, strange), what="both are refused")
        assert rig.gateway.refused[long].reason == "context_length_exceeded"
        assert "Input 300 has" in rig.gateway.refused[long].message
        assert rig.gateway.refused[strange].reason == "bad_request"
        assert {one.param for one in rig.gateway.refused.values()} == {"input"}


async def test_who_leaves_is_left_between_two_batches(eventually: Eventually) -> None:
    """A cancel ends the work, the slot is free, and the next one is served."""
    async with rigged(Script(prefill_ms_per_token=1.0)) as rig:
        texts = [f"{number:0900d}" for number in range(40)]
        slow = rig.gateway.ask_for(asked(*texts))
        await eventually(lambda: bool(rig.events(slow)), what="it has begun")
        rig.gateway.cancel(slow)
        await eventually(lambda: rig.gateway.all_released(slow), what="it has been left")
        assert rig.gateway.released[slow].cancel_to_free_s is not None
        assert len(rows(rig.events(slow))) < 40
        quick = rig.gateway.ask_for(asked("next"))
        await eventually(lambda: rig.gateway.all_released(quick), what="the next is served")
        assert rows(rig.events(quick)) == [expected("next")]


async def test_a_runtime_that_dies_fails_who_waits_for_vectors(eventually: Eventually) -> None:
    """It is the failure of a runtime, which lets the gateway try elsewhere; the next one serves."""
    async with rigged(Script(prefill_ms_per_token=10.0)) as rig:
        slow = rig.gateway.ask_for(asked("x" * 4000))
        await eventually(lambda: bool(rig.events(slow)), what="it has begun")
        assert rig.runtime is not None
        rig.runtime.kill()
        await eventually(lambda: rig.gateway.all_released(slow), what="it has ended")
        (failed,) = rig.events(slow)[1:]
        assert failed.failure.reason == "runtime_died"  # type: ignore[union-attr]
        quick = rig.gateway.ask_for(asked("y"))
        await eventually(lambda: rig.gateway.all_released(quick), what="the next is served")
        assert rows(rig.events(quick)) == [expected("y")]


async def test_a_backend_without_vectors_says_so(eventually: Eventually) -> None:
    """Whoever has it offered all the same is told which backend it is."""
    launch = TinyLaunch()
    async with asyncio.TaskGroup() as group:
        hello = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
        agent = Agent(SETTINGS, [OFFER])
        node = NodeLoop(agent, launch, hello, LoopSettings(), time.monotonic, logs.get())
        near, far = memory_pair()
        gateway = TestGateway(far)
        for work in (node.run(), node.serve_link(near), gateway.run()):
            group.create_task(work)
        await gateway.is_up.wait()
        stream = gateway.ask_for(asked("x"))
        await eventually(lambda: gateway.all_released(stream), what="it is refused")
        assert gateway.refused[stream].reason == "unsupported"
        assert "makes no vectors" in gateway.refused[stream].message
        await node.stop(0.0)


def opened(node: Node, stream: int, request: GenerateRequest, **how: object) -> None:
    """A gateway opens a stream for this."""
    message = open_message(stream, **how)  # type: ignore[arg-type]
    message = msgspec.structs.replace(message, request=request)
    node.take(node.agent.on_message(LINK, message, node.now))


@pytest.mark.parametrize(
    ("mode", "request_"),
    [
        ("embed", GenerateRequest(MODEL, TextPrompt("x"))),
        ("generate", asked("x")),
    ],
)
def test_nothing_is_loaded_for_what_its_model_is_not_for(
    mode: str, request_: GenerateRequest
) -> None:
    """A gateway that does not know what models are for is told so, and nothing else happens."""
    node = Node(SETTINGS, msgspec.structs.replace(OFFER, mode=mode))
    opened(node, 1, request_)
    refused = node.said(1)[0]
    assert isinstance(refused, Refused)
    assert (refused.failure.reason, refused.failure.param) == ("unsupported", "model")
    assert not [effect for effect in node.all if isinstance(effect, Load)]


def test_inputs_have_a_limit_together() -> None:
    """It is named, with what to do; requests for texts have their own."""
    node = Node(msgspec.structs.replace(SETTINGS, vectors_tokens_max=5), OFFER)
    ready = Prepared(asked("x", "y"), (), 0, inputs=((1, 2, 3), (4, 5)))
    for stream, inputs in ((1, ready.inputs), (2, (*ready.inputs, (6,)))):
        opened(node, stream, ready.request)
        node.loaded()
        assert any(isinstance(one, Prepare) for one in node.all)
        found = msgspec.structs.replace(ready, inputs=inputs)
        node.take(node.agent.on_prepared(key(stream), found, node.now))
    runs = [one for one in node.all if isinstance(one, Run)]
    assert [one.key for one in runs] == [key(1)]
    refused = node.said(2)[-2]
    assert isinstance(refused, Refused)
    assert refused.failure.reason == "context_length_exceeded"
    assert "6 tokens together, of which 5" in refused.failure.message
    assert "`embed.tokens_max`" in refused.failure.message


def test_a_deadline_ends_vectors_as_it_ends_anything() -> None:
    """What is under way is left, and the place is free when it has been."""
    node = Node(SETTINGS, OFFER)
    opened(node, 1, asked("x"), deadline_s=5.0)
    node.loaded(FIRST)
    ready = Prepared(asked("x"), (), 0, inputs=((1, 2),))
    node.take(node.agent.on_prepared(key(1), ready, node.now))
    node.event(1, Started(2, 0, 0), Vectors(1, bytes(4)))
    node.tick(6.0)
    failed = node.events(1)[-1]
    assert failed.failure.reason == "deadline"  # type: ignore[union-attr]
    node.closed(1)
    assert node.is_at_rest()
