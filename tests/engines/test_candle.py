"""Candle, hosted, on a small real model: the GGUF as it is, and the safetensors made of it."""

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
from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.store.models.vocabulary_file import vocabulary_file
from roost.testing.conformance import CASES, Subject, examine, failed, table
from roost.text.gguf import read_header
from tests.backends.subjects import kill_server, settings_in
from tests.engines.asking import post
from tests.engines.conftest import GGUF
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]

PARTS = 3
"""On a busy machine all cases together take longer than any one test may."""

OPTIONS = RuntimeOptions(ctx=256, slots=2, batch=64, threads=1, device="cpu")
SHORT = {
    *("text is completed", "a chat is answered", "token ids are told"),
    *("control tokens stay text", "log probabilities add up", "death is told"),
}
"""Without long prompts, which take the library minutes with this file's kind of weights.

docs/capabilities.md has all of them.
"""
LONGEST = {
    *("slow readers wait alone", "stop strings span the seam", "characters survive the seam"),
    "log probabilities survive the seam",
}
"""Of what is tried of every hosted library, not here as well; they are on that page too."""


@pytest.fixture
def gguf(home: Path) -> Manifest:
    """Give the manifest of the file."""
    return ModelStore(Home.open(home)).get(GGUF)


def subject(model: Manifest, tmp_path: Path, options: RuntimeOptions = OPTIONS) -> Subject:
    """Give the backend with this model, patient: others may be busy too."""
    key = RuntimeKey("candle", model.id, model.digest, options)
    settings = settings_in(tmp_path, 60.0)
    return Subject(make("candle"), key, model, settings, kill_server, 60.0, 600.0)


@pytest.mark.parametrize("part", range(PARTS))
async def test_a_folder_keeps_every_promise(part: int, folder: Manifest, tmp_path: Path) -> None:
    """Tokens exact to the id, several answers at once, likelihoods, and an end."""
    cases = [case for case in CASES if case.name not in LONGEST]
    results = await examine(subject(folder, tmp_path), cases[part::PARTS])
    assert failed(results) == [], table(results)
    assert {one.status for one in results} <= {"kept", "not claimed", "not applicable"}


async def test_a_file_keeps_its_promises(gguf: Manifest, tmp_path: Path) -> None:
    """With the vocabulary that it brings, and the weights as they are."""
    cases = [case for case in CASES if case.name in SHORT]
    assert len(cases) == len(SHORT)
    results = await examine(subject(gguf, tmp_path), cases)
    assert failed(results) == [], table(results)
    assert {one.status for one in results} == {"kept"}, table(results)


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


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"device": "cuda"}, "There is no cuda device for Candle here"),
        ({"dtype": "float64"}, "Candle computes in bfloat16, float16, float32"),
    ],
)
async def test_what_it_cannot_do_is_told(
    options: dict[str, str], what: str, folder: Manifest, tmp_path: Path
) -> None:
    """A load that cannot be says what to set."""
    await _fails(subject(folder, tmp_path, msgspec.structs.replace(OPTIONS, **options)), what)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", '{"model_type": "nothing", "vocab_size": 9}', "cannot load this model"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("model.safetensors", "no weights", "cannot load this model"),
    ],
)
async def test_a_folder_that_is_spoilt_is_told(
    name: str, text: str | None, what: str, folder: Manifest, tmp_path: Path
) -> None:
    """In words, and without a traceback; each file in turn."""
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    for path in Path(folder.path).parent.iterdir():
        (spoilt / path.name).symlink_to(path)
    (spoilt / name).unlink()
    if text is not None:
        (spoilt / name).write_text(text)
    moved = msgspec.structs.replace(folder, path=str(spoilt / Path(folder.path).name))
    await _fails(subject(moved, tmp_path), what)


async def test_a_vocabulary_that_is_not_known_is_told(gguf: Manifest, tmp_path: Path) -> None:
    """With another backend to choose, rather than read in a way that the model has not learned."""
    path = tmp_path / "other.gguf"
    path.write_bytes(cut_so("viking"))
    await _fails(subject(msgspec.structs.replace(gguf, path=str(path)), tmp_path), "way 'viking'")


async def _fails(one: Subject, what: str) -> None:
    with pytest.raises(RoostError, match=what) as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"


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
