"""Candle with a GGUF as it is: whose vocabulary it reads as llama.cpp does, and serves."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest

from roost.backends.hosted.gguf_vocabulary import vocabulary_of
from roost.backends.hosted.hf_texts import Texts
from roost.backends.registry import make
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, TextPrompt
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.store.models.vocabulary_file import vocabulary_file
from roost.text.gguf import read_header
from tests.backends.subjects import settings_in
from tests.engines.asking import post
from tests.engines.conftest import GGUF
from tests.engines.subjects import assert_refused, subject
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def gguf(home: Path) -> Manifest:
    """Give the manifest of the file."""
    return ModelStore(Home.open(home)).get(GGUF)


TEXTS = (
    "Don't they'll WE'VE I'M ...",
    "1234567 12,345.67 v2.0 \u00bd \u0663\u0664",
    "  two\n\n\tlines  \r\n end \n",
    "na\u00efve \u6f22\u5b57 \u0440\u0443\u0441 \U0001f600\u200d\U0001f525 e\u0301",
    "<|im_start|>system\nx<|im_end|> </s> <|endoftext|>",
    "def f(x):\n    return x**2  # ok!? \u201cq\u201d",
)


def cut_so(pre: str) -> bytes:
    """Write the model's vocabulary as a file that names another way to cut texts."""
    data = smollm2_path().read_bytes()
    made = vocabulary_file(data, read_header(data))
    old, new = (_pair("tokenizer.ggml.pre", text) for text in ("smollm", pre))
    assert old in made
    # The tensors, all zero, begin where the header ends: what is longer here is shorter there.
    return made.replace(old, new) + bytes(32)


def _pair(key: str, value: str) -> bytes:
    raw, text = key.encode(), value.encode()
    return struct.pack("<Q", len(raw)) + raw + struct.pack("<IQ", 8, len(text)) + text


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama3", "qwen2"])
async def test_texts_become_the_tokens_that_llama_cpp_makes(pre: str, tmp_path: Path) -> None:
    """However the file says that they are cut, with user text that looks like control tokens."""
    path = tmp_path / "vocabulary.gguf"
    data = cut_so(pre)
    path.write_bytes(data)
    found = vocabulary_of(data, read_header(data))
    model = ModelStore(Home.open(tmp_path / "home")).add_file(path, link=True)
    key = RuntimeKey("llama_server", model.id, model.digest, RuntimeOptions(512, 2, 64, 1))
    theirs = make("llama_server")
    runtime = await theirs.start(key, model, settings_in(tmp_path), lambda _: None)
    try:
        for text in TEXTS:
            asked = GenerateRequest(model.id, TextPrompt(text), 1)
            tokens = (await runtime.prepare(asked)).tokens
            ours = Texts(found.described, found.bos).tokenize(text, special=False)
            assert (*found.bos, *ours) == tokens, text
    finally:
        await runtime.stop(1.0)


async def test_a_vocabulary_that_is_not_known_is_told(gguf: Manifest, tmp_path: Path) -> None:
    """With another backend to choose, rather than read in a way that the model has not learned."""
    path = tmp_path / "other.gguf"
    path.write_bytes(cut_so("viking"))
    moved = msgspec.structs.replace(gguf, path=str(path))
    await assert_refused(subject("candle", moved, tmp_path), "way 'viking'")


def test_a_file_is_served_where_it_is_asked_for(home: Path, gguf: Manifest, tmp_path: Path) -> None:
    """By its name, for `auto` prefers others; a chat is answered, with likelihoods."""
    arguments = ("serve", "--port", "0", "--ctx", "256", "--slots", "1", "--backend", "candle")
    with Roost(tmp_path / "log", *arguments, "--threads", "1", home=home) as roost:
        body = (
            b'{"model":"' + gguf.id.encode() + b'","max_tokens":8,"temperature":0,"logprobs":true,'
            b'"messages":[{"role":"user","content":"What is the capital of France?"}]}'
        )
        status, answer = post(roost.url(), body)
        assert (status, b'"completion_tokens":8' in answer) == (200, True), answer
        assert b'"logprob":-' in answer
