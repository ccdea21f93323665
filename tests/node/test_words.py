"""What a node tells of a prompt: tokens, texts, and what it refuses to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.backends.base import Prepared, Runtime
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.backends.scripted.prompts import BOS
from roost.backends.scripted.script import Script
from roost.core.ids import TenantId
from roost.core.model import Manifest
from roost.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Prompt,
    TextPrompt,
    TokensPrompt,
)
from roost.errors import RoostError
from roost.node.prompts import vectors, words
from tests.backends.subjects import MODEL, key_of, settings_in

HELLO = "naïve 😀"
BYTES = tuple(HELLO.encode())


async def runtime(folder: Path, ctx: int = 4096) -> ScriptedRuntime:
    """Start a runtime that has bytes for tokens."""
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="scripted")
    key = key_of("scripted", ctx=ctx)
    return await ScriptedBackend(Script()).start(key, manifest, settings_in(folder), lambda _: None)


async def told(on: Runtime, prompt: Prompt) -> Prepared:
    """Have a prompt told."""
    asked = GenerateRequest(MODEL, prompt, max_tokens=1, return_tokens=True, counts=True)
    assert words.are_wanted(asked)
    return await vectors.prepared(on, asked, TenantId("t"))


async def test_a_text_is_told_as_its_tokens(tmp_path: Path) -> None:
    """With what a prompt begins with, or bare."""
    on = await runtime(tmp_path)
    assert (await told(on, TextPrompt(HELLO))).tokens == (BOS, *BYTES)
    assert (await told(on, TextPrompt(HELLO, bare=True))).tokens == BYTES


async def test_tokens_are_told_as_their_text(tmp_path: Path) -> None:
    """Half a character is none."""
    on = await runtime(tmp_path)
    assert (await told(on, TokensPrompt((BOS, *BYTES)))).text == f"<bos>{HELLO}"
    assert (await told(on, TokensPrompt(BYTES[:3]))).text == "na\ufffd"


async def test_a_chat_is_told_as_what_the_template_makes_of_it(tmp_path: Path) -> None:
    """The text, and the tokens of a real request for it."""
    on = await runtime(tmp_path)
    chat = ChatPrompt((Message("user", HELLO),))
    ready = await told(on, chat)
    assert ready.text == f"<bos><turn>user\n{HELLO}<end><turn>assistant\n"
    assert ready.tokens == (await on.prepare(GenerateRequest(MODEL, chat))).tokens


async def test_what_fits_no_context_is_not_told(tmp_path: Path) -> None:
    """As it would be refused if it were asked."""
    on = await runtime(tmp_path, ctx=16)
    with pytest.raises(RoostError, match="prompt is too long"):
        await told(on, TextPrompt("x" * 17))
    with pytest.raises(RoostError, match="from 0 to"):
        await told(on, TokensPrompt((10**6,)))


class Mute:
    """A runtime that tells the tokens of what it is asked, and nothing else."""

    def __init__(self, runtime: ScriptedRuntime) -> None:
        self._runtime = runtime
        self.key = runtime.key
        self.died = runtime.died
        self.states = runtime.states
        self.prepare = runtime.prepare
        self.open = runtime.open
        self.telemetry = runtime.telemetry
        self.stop = runtime.stop


async def test_a_runtime_that_tells_no_texts_says_so(tmp_path: Path) -> None:
    """Nobody gets other tokens than those that were asked for."""
    mute = Mute(await runtime(tmp_path))
    chat = ChatPrompt((Message("user", HELLO),))
    assert (await told(mute, TextPrompt(HELLO))).tokens == (BOS, *BYTES)
    assert (await told(mute, chat)).text == ""
    for prompt in (TextPrompt(HELLO, bare=True), TokensPrompt(BYTES)):
        with pytest.raises(RoostError) as refused:
            await told(mute, prompt)
        assert refused.value.failure.reason == "unsupported"
