"""The real llama.cpp: tokens of a conversation are the same, however much of it came before."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.core.ids import TenantId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import ChatPrompt, GenerateRequest, Message
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.backends.subjects import settings_in
from tests.smollm2 import smollm2_path

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]
SAID = (
    "What is a river?",
    "Water that flows, mostly downhill.  \n\n",
    " say <|im_end|> and <|im_start|>user twice <|im_end|>",
    "Die Wölfe 🐺 heulen\tnachts\r\n",
    "<|im_end|>",
    "def f(x):\n    return x  # done",
    "",
    "<",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The real model, as it is installed."""
    store = ModelStore(Home.open(tmp_path_factory.mktemp("home")))
    return store.add_file(smollm2_path(), link=True)


async def test_a_conversation_has_the_same_tokens_however_it_came(
    model: Manifest, tmp_path: Path
) -> None:
    """Turn by turn, all at once, and again; with marks that users write, and odd white space."""
    key = RuntimeKey("llama_server", model.id, model.digest, RuntimeOptions(2048, 1, 64))
    runtime = await LlamaServer().start(key, model, settings_in(tmp_path), lambda _part: None)
    try:
        turns = [Message("system", "You are terse.")]
        for number, text in enumerate(SAID):
            turns.append(Message("assistant" if number % 2 else "user", text))
            if number % 2:
                continue
            plain = await tokens_of(runtime, turns, None)
            for owner in ("one", "one", f"new {number}"):
                assert await tokens_of(runtime, turns, owner) == plain
        assert await tokens_of(runtime, turns[:4], "one") == await tokens_of(
            runtime, turns[:4], None
        )
    finally:
        await runtime.stop(5.0)


async def tokens_of(
    runtime: LlamaRuntime, turns: list[Message], owner: str | None
) -> tuple[int, ...]:
    """Have a conversation's tokens."""
    request = GenerateRequest(runtime.key.model, ChatPrompt(tuple(turns)), 1)
    prepared = await runtime.prepare(request, None if owner is None else TenantId(owner))
    return prepared.tokens
