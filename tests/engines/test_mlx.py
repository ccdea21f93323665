"""MLX as a program for one request, on a small real model that `roost convert` has made."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.core.card import Once
from roost.core.events import Delta, Finished, Usage
from roost.core.model import Manifest
from roost.core.presets import MLX
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from tests.backends.subjects import once

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]


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
