"""LoRA adapters in a real llama.cpp: a small random one of SmolLM2, read as settings name it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.backends.llama.server import LlamaServer
from roost.cli.parts.engines import options_of
from roost.config import Machine, load
from roost.core.events import Delta, Finished
from roost.core.model import Manifest, RuntimeKey
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.backends.subjects import settings_in
from tests.children import children
from tests.smollm2 import smollm2_path
from tests.store.gguf_writer import Gguf, Tensor, Typed

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]
WIDTH, RANK, LAYERS = 576, 4, 30
F32 = 0
PROMPT = "The capital of France is"


def lora(width: int = WIDTH) -> bytes:
    """Make an adapter of every layer's queries and outputs, `width` wide, of random numbers."""
    about = {
        "general.architecture": Typed("str", "llama"),
        "general.type": Typed("str", "adapter"),
        "adapter.type": Typed("str", "lora"),
        "adapter.lora.alpha": Typed("f32", float(RANK)),
    }
    size_bytes = width * RANK * 4
    names = [f"blk.{layer}.{name}" for layer in range(LAYERS) for name in ("attn_q", "attn_output")]
    tensors = tuple(
        Tensor(f"{name}.weight.lora_{part}", dims, F32, size_bytes)
        for name in names
        for part, dims in (("a", (width, RANK)), ("b", (RANK, width)))
    )
    dice = random.Random(7)
    # The writer fills tensors with bytes that are no numbers: these take their place.
    count = len(tensors) * width * RANK
    numbers = struct.pack(f"<{count}f", *(dice.gauss(0.0, 0.3) for _ in range(count)))
    return Gguf(about, tensors).build()[: -len(numbers)] + numbers


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The real model, as it is installed."""
    store = ModelStore(Home.open(tmp_path_factory.mktemp("home")))
    return store.add_file(smollm2_path(), link=True)


def key_of(model: Manifest, adapters: str) -> RuntimeKey:
    """Give the key that these settings make."""
    flags = {"ctx": "256", "slots": "1", "threads": "1", "step_budget_ms": "0"}
    flags |= {"adapters": adapters} if adapters else {}
    options = options_of(load({}, flags, "", Machine(4, "/home")).settings)
    options = msgspec.structs.replace(options, mode="generate")
    return RuntimeKey("llama_server", model.id, model.digest, options)


async def answer(model: Manifest, folder: Path, adapters: str) -> str:
    """Have a runtime with these adapters say what comes next, without dice."""
    runtime = await LlamaServer().start(
        key_of(model, adapters), model, settings_in(folder), lambda _part: None
    )
    try:
        sampling = Sampling(temperature=0.0)
        request = GenerateRequest(model.id, TextPrompt(PROMPT), 16, sampling=sampling)
        prepared = await runtime.prepare(request)
        async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
            seen = [event async for event in events]
    finally:
        await runtime.stop(5.0)
    assert isinstance(seen[-1], Finished)
    return "".join(event.text for event in seen if isinstance(event, Delta))


async def test_an_adapter_counts_as_much_as_its_scale_says(model: Manifest, tmp_path: Path) -> None:
    """With 0 the model says what it says without; with 1 it is another one, and always the same."""
    file = tmp_path / "small.gguf"
    file.write_bytes(lora())
    plain = await answer(model, tmp_path, "")
    assert await answer(model, tmp_path, f"{file}=0") == plain
    adapted = await answer(model, tmp_path, str(file))
    assert adapted != plain
    assert await answer(model, tmp_path, f"{file}=1") == adapted


@pytest.mark.parametrize("damage", ["another width", "cut", "no adapter"])
async def test_an_adapter_that_does_not_fit_fails_the_load(
    model: Manifest, tmp_path: Path, damage: str
) -> None:
    """It is `load_failed`, tells no path, and leaves no process; the model alone loads."""
    file = tmp_path / "bad.gguf"
    made = {"another width": lora(64), "cut": lora()[:100_000], "no adapter": b"GGUF" + b"\0" * 60}
    file.write_bytes(made[damage])
    with pytest.raises(RoostError) as caught:
        await answer(model, tmp_path, str(file))
    assert caught.value.failure.reason == "load_failed"
    assert str(tmp_path) not in caught.value.failure.message
    assert children() == []
