"""The exact key: whatever takes effect in a runtime changes it, and nothing else does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.base import StartSettings
from roost.core.engine import Engine
from roost.core.ids import ModelId, NodeId
from roost.core.kv import KvLayers, KvShape
from roost.core.model import Manifest, ModelFile, RuntimeOptions, Widths
from roost.core.snapshots import ModelOffer
from roost.node.agent import Agent
from roost.node.effects import Load, Unload
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.models.shelf import Shelf, ShelfSettings
from roost.node.settings import AgentSettings
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.node.gateway import TestGateway
from tests.node.kit import FIRST, MODEL, SETTINGS, Node, offer
from tests.node.test_shelf import Always, Recording

OPTIONS = RuntimeOptions(ctx=1024, slots=2, batch=128, threads=3)
ENGINE = "llama_server"
MANIFEST = Manifest(
    ModelId("m"),
    "/models/m.gguf",
    size_bytes=7,
    digest="sha256:1",
    architecture="llama",
    ctx_train=2048,
    vocab_size=99,
    chat_template="{{ messages }}",
    bos="<s>",
    eos="</s>",
    control_tokens=("<s>",),
    max_token_bytes=12,
    kv=KvShape((KvLayers(2, 8, 8),)),
    source="file:m.gguf",
    licence="mit",
    created_unix_s=5,
    files=(ModelFile("/models/m.gguf", 7, "sha256:1", 1),),
    tasks=("chat",),
    weight_bytes=5,
    widths=Widths(8, 16),
)
PLAIN = Manifest(ModelId("plain"), "/models/p.gguf", size_bytes=7, digest="sha256:2")
IRRELEVANT = {
    *("path", "files", "size_bytes", "source", "licence", "created_unix_s"),
    *("weight_bytes", "widths", "ctx_train", "vector_sizes"),
}
"""Where it lies and where it came from. The trained context counts as far as it bounds the other,
and what lies in the files by their digest."""


def _offer(
    manifest: Manifest = MANIFEST, options: RuntimeOptions = OPTIONS, backend: str = "tiny"
) -> ModelOffer:
    settings = ShelfSettings(options, "/run", "/logs", StartSettings("", ""))
    return Shelf([manifest], Always(Recording(backend)), settings).offers()[0]


def _other(value: object) -> object:
    """Another value of the same kind; a kind that nobody has thought of is an error."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case "f16":
            return "q8_0"
        case str():
            return value + "x"
        case tuple() if not value or isinstance(value[0], str):
            return (*value, "more")
        case (ModelFile() as file, *_):
            return (msgspec.structs.replace(file, mtime_ns=file.mtime_ns + 1),)
        case None | KvShape() | Widths():
            return KvShape((KvLayers(3, 8, 8),)) if isinstance(value, KvShape) else Widths(9, 9)
    raise AssertionError(f"what is another {type(value).__name__}?")


def _changed(struct: msgspec.Struct) -> Iterator[tuple[str, msgspec.Struct]]:
    """Every field by itself, changed; a field that holds options of its own, by each of those."""
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, Engine):
            for inner, other in _changed(value):
                yield f"{name}.{inner}", msgspec.structs.replace(struct, **{name: other})
        else:
            yield name, msgspec.structs.replace(struct, **{name: _other(value)})


def test_every_option_that_takes_effect_is_in_the_key() -> None:
    """Also those that do not exist yet: fields are found, not listed."""
    keys = {_offer(backend=ENGINE).key}
    for name, options in _changed(OPTIONS):
        assert isinstance(options, RuntimeOptions)
        key = _offer(options=options, backend=ENGINE).key
        assert key not in keys, f"{name} is not in the key"
        keys.add(key)
    assert _offer(backend="other").key not in keys


def test_an_option_that_takes_no_effect_is_not_in_the_key() -> None:
    """What only llama.cpp may be told loads nothing of another backend again."""
    told = msgspec.structs.replace(OPTIONS, engine=Engine(mlock=True))
    assert _offer(options=told).key == _offer().key
    assert _offer(options=told, backend=ENGINE).key != _offer(backend=ENGINE).key


def test_of_a_manifest_all_that_was_read_is_in_the_key_and_nothing_of_its_place() -> None:
    """A field that nobody has judged counts."""
    for name, manifest in _changed(MANIFEST):
        assert isinstance(manifest, Manifest)
        is_same = _offer(manifest).key == _offer().key
        assert is_same == (name in IRRELEVANT), name


@given(asked=st.integers(0, 5000), other=st.integers(0, 5000), own=st.integers(1, 4000))
def test_contexts_count_as_far_as_they_take_effect(asked: int, other: int, own: int) -> None:
    """0 is the model's own, and more than that is that: equal keys where the runtime is equal."""
    manifest = msgspec.structs.replace(MANIFEST, ctx_train=own)
    one, two = (
        _offer(manifest, msgspec.structs.replace(OPTIONS, ctx=ctx)) for ctx in (asked, other)
    )
    assert (one.key == two.key) == (min(asked or own, own) == min(other or own, own))
    assert (one.key == two.key) == (one.ctx == two.ctx)


async def test_a_load_that_another_backend_takes_over_is_one_load() -> None:
    """The offer changes while it loads, to what then comes up: nothing is loaded twice."""
    broken, sound = Recording("broken", works=False), Recording("sound")
    shelf_settings = ShelfSettings(OPTIONS, "/run", "/logs", StartSettings("", ""))
    shelf = Shelf([PLAIN], Always(broken, sound), shelf_settings)
    agent = Agent(AgentSettings("tiny"), shelf.offers())
    hello = Hello(VERSION, NodeId("n"), "n", "i", "roost")
    loop = NodeLoop(agent, shelf.start, hello, LoopSettings(), time.monotonic, logs.get())
    shelf.tell_with(loop.set_models)
    near, far = memory_pair()
    gateway = TestGateway(far)
    async with asyncio.TaskGroup() as group:
        for task in (loop.run(), loop.serve_link(near), gateway.run()):
            group.create_task(task)
        await gateway.is_up.wait()
        asked = [gateway.ask(f"word {number}", model=PLAIN.id) for number in range(2)]
        await gateway.until_released(*asked)
        assert gateway.refused == {}
        await gateway.until_released(gateway.ask("again", model=PLAIN.id))
        assert (len(broken.asked), len(sound.asked)) == (1, 1)
        await loop.stop(0.0)


def _node(key: str) -> Node:
    return Node(SETTINGS, msgspec.structs.replace(offer(), key=key))


def _now(node: Node, **changes: object) -> None:
    """The model is offered like this from now on."""
    known = node.agent.status().models[0]
    node.take(node.agent.on_models([msgspec.structs.replace(known, **changes)], node.now))


def test_a_runtime_stays_while_its_key_does() -> None:
    """Installed anew from another source, it is the same model: nothing is loaded again."""
    node = _node("k1")
    node.serve(1)
    _now(node, created_unix_s=77, size_bytes=5)
    node.serve(2)
    assert [e for e in node.all if isinstance(e, (Load, Unload))] == [Load(MODEL, FIRST)]


def test_another_key_is_another_runtime() -> None:
    """What runs is finished on the old one; the next request waits for one of the new key."""
    node = _node("k1")
    node.run(1)
    _now(node, key="k2")
    node.open(2)
    assert not any(isinstance(e, Unload) for e in node.all)
    node.cancel(1)
    assert any(isinstance(e, Unload) for e in node.closed(1))
    assert [e.runtime for e in node.gone("m#1") if isinstance(e, Load)] == ["m#2"]


@pytest.mark.parametrize("came_up_as", ["k1", "k2"])
def test_a_load_is_judged_by_what_came_up(came_up_as: str) -> None:
    """The key changes while it loads: who has the new one stays, who has the old one goes."""
    node = _node("k1")
    node.open(1)
    _now(node, key="k2")
    node.take(node.agent.on_loaded(FIRST, node.now, came_up_as))
    if came_up_as == "k1":
        node.closed(1)
    assert any(isinstance(e, Unload) for e in node.all) == (came_up_as == "k1")
