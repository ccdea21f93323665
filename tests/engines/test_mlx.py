"""MLX, hosted, on a small real model that `roost convert` has made out of a GGUF."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.backends.registry import make
from roost.core.card import Once
from roost.core.events import Delta, Finished, Usage
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.presets import MLX
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from roost.testing.conformance import CASES, Subject, examine, failed, table
from tests.backends.subjects import kill_server, once, settings_in

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]

OPTIONS = RuntimeOptions(ctx=256, slots=2, batch=64, threads=1, device="cpu")
SHORT = {
    *("text is completed", "a chat is answered", "stop strings stop", "limits hold"),
    *("leaving decode frees", "seeds repeat", "answers are continued", "prefixes are reused"),
    *("log probabilities add up", "control tokens stay text", "death is told"),
}
"""Without long prompts, which take a processor minutes; docs/capabilities.md has all of them."""


def subject(model: Manifest, tmp_path: Path, options: RuntimeOptions = OPTIONS) -> Subject:
    """Give the backend with this model, patient: processors are not what it is for."""
    key = RuntimeKey("mlx", model.id, model.digest, options)
    return Subject(make("mlx"), key, model, settings_in(tmp_path, 60.0), kill_server, 60.0, 600.0)


async def test_promises_are_kept(folder: Manifest, tmp_path: Path) -> None:
    """Tokens one by one, seeds, likelihoods, caches that are cut back, and an end."""
    cases = [case for case in CASES if case.name in SHORT]
    assert len(cases) == len(SHORT)
    results = await examine(subject(folder, tmp_path), cases)
    assert failed(results) == [], table(results)
    assert {one.status for one in results} == {"kept"}, table(results)


async def test_its_own_command_answers_once(folder: Manifest, tmp_path: Path) -> None:
    """As a process for one request, told and read by the preset, with counts of its own."""
    program = str(Path(sys.executable).with_name("mlx_lm.generate"))
    weights = str(Path(folder.path).parent)
    preset = msgspec.convert(MLX | {"path": weights, "ctx": 256}, Once)
    argv = (program, *preset.argv[1:])
    one = once(tmp_path, *argv, preset="mlx", path=weights)
    plain = msgspec.structs.replace(one.manifest, chat_template=None)
    runtime = await one.backend.start(one.key, plain, one.settings, lambda _: None)
    prompt = TextPrompt("The capital of France is")
    asked = GenerateRequest(plain.id, prompt, 4, sampling=Sampling(temperature=0.0))
    async with runtime.open(await runtime.prepare(asked), SlotUse(0, reuse=False)) as events:
        *told, end = [event async for event in events]
    await runtime.stop(0.0)
    text = "".join(event.text for event in told if isinstance(event, Delta))
    assert "Paris" in text, (told, end)
    assert end == Finished("length", Usage(5, 0, 4))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"device": "cuda"}, "There is no cuda device for MLX here"),
        ({"dtype": "float64"}, "MLX computes in bfloat16, float16, float32"),
    ],
)
async def test_what_it_cannot_do_is_told(
    options: dict[str, str], what: str, folder: Manifest, tmp_path: Path
) -> None:
    """A load that cannot be says what to set."""
    one = subject(folder, tmp_path, msgspec.structs.replace(OPTIONS, **options))
    with pytest.raises(RoostError, match=what) as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("config.json", "{", "cannot load this folder"),
        ("config.json", '{"model_type": "llama", "model_file": "x.py"}', "cannot load this folder"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("generation_config.json", "[", "generation_config.json cannot be read"),
    ],
)
async def test_a_folder_that_is_spoilt_is_told(
    name: str, text: str | None, what: str, folder: Manifest, tmp_path: Path
) -> None:
    """In words, and without running code that lies in it."""
    spoilt = tmp_path / "spoilt"
    spoilt.mkdir()
    for path in Path(folder.path).parent.iterdir():
        (spoilt / path.name).symlink_to(path)
    (spoilt / name).unlink(missing_ok=True)
    (spoilt / "x.py").write_text("raise SystemExit(1)")
    if text is not None:
        (spoilt / name).write_text(text)
    moved = msgspec.structs.replace(folder, path=str(spoilt / Path(folder.path).name))
    one = subject(moved, tmp_path)
    with pytest.raises(RoostError, match=what) as caught:
        await one.backend.start(one.key, one.manifest, one.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"
