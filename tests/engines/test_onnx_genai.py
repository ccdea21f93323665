"""ONNX GenAI, hosted, on a small real model that `roost convert` has made out of a GGUF."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.backends.registry import make
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.errors import RoostError
from roost.testing.conformance import CASES, Subject, examine, failed, table
from tests.backends.subjects import kill_server, settings_in
from tests.engines.asking import post
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]
PARTS = 3
"""On a busy machine all cases together take longer than any one test may."""

OPTIONS = RuntimeOptions(ctx=512, slots=2, batch=128, threads=1)


def subject(model: Manifest, tmp_path: Path, options: RuntimeOptions = OPTIONS) -> Subject:
    """Give the backend with this model, patient: others may be busy too."""
    key = RuntimeKey("onnx_genai", model.id, model.digest, options)
    settings = settings_in(tmp_path)
    backend = make("onnx_genai")
    return Subject(backend, key, model, settings, kill_server, patience_s=30, case_timeout_s=300)


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_promise_is_kept(part: int, onnx: Manifest, tmp_path: Path) -> None:
    """On the processor that the folder names itself, with one thread."""
    results = await examine(subject(onnx, tmp_path), CASES[part::PARTS])
    assert failed(results) == [], table(results)
    assert {one.status for one in results} <= {"kept", "not claimed", "not applicable"}


@pytest.mark.parametrize("device", ["cuda", "mps", "rocm", "dml", "openvino", "qnn", "webgpu"])
async def test_a_device_that_is_not_there_is_told(
    device: str, onnx: Manifest, tmp_path: Path
) -> None:
    """A provider is an option; the build for processors has no other, and says so."""
    options = msgspec.structs.replace(OPTIONS, device=device)
    one = subject(onnx, tmp_path, options)
    with pytest.raises(RoostError, match=f"on {device}; .* another --device") as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("genai_config.json", "{", "genai_config.json cannot be read"),
        ("genai_config.json", '{"model": {"type": "llama"}}', "genai_config.json cannot be read"),
        ("model.onnx", "no graph", "cannot load this folder"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("tokenizer.json", "{}", "tokeniser is none"),
    ],
)
async def test_a_folder_that_is_spoilt_is_told(
    name: str, text: str | None, what: str, onnx: Manifest, tmp_path: Path
) -> None:
    """In words, and without a traceback; each file in turn."""
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    for path in Path(onnx.path).parent.iterdir():
        (spoilt / path.name).symlink_to(path)
    (spoilt / name).unlink()
    if text is not None:
        (spoilt / name).write_text(text)
    one = subject(msgspec.structs.replace(onnx, path=str(spoilt / Path(onnx.path).name)), tmp_path)
    with pytest.raises(RoostError, match=what) as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"


def test_a_folder_is_served(home: Path, onnx: Manifest, tmp_path: Path) -> None:
    """`auto` takes the backend that reads it, and a chat is answered, with likelihoods."""
    arguments = ("serve", "--port", "0", "--ctx", "512", "--slots", "1", "--device", "cpu")
    with Roost(tmp_path / "log", *arguments, home=home) as roost:
        url = roost.url()
        body = (
            b'{"model":"' + onnx.id.encode() + b'","max_tokens":8,"temperature":0,"logprobs":true,'
            b'"messages":[{"role":"user","content":"What is the capital of France?"}]}'
        )
        status, answer = post(url, body)
        assert (status, b"Paris" in answer) == (200, True), answer
        assert b'"logprob":-' in answer
