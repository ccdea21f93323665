"""States of a llama.cpp server's slots: offered after a trial, and not where that fails."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from roost.backends.base import StartSettings
from roost.backends.llama.runtime import LlamaRuntime
from roost.backends.llama.server import LlamaServer
from roost.backends.llama.states import ProbePlan
from roost.core.kv import KvLayers, KvShape
from roost.core.model import Manifest
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in


def content(folder: Path) -> tuple[int, list[str]] | None:
    """Give the mode of a folder and what is in it; None where there is none."""
    if not folder.exists():
        return None
    return folder.stat().st_mode & 0o777, [path.name for path in folder.iterdir()]


async def started(manifest: Manifest, settings: StartSettings) -> LlamaRuntime:
    """Start the fake server."""
    key = key_of("llama_server", ctx=1024)
    return await LlamaServer(str(FAKE)).start(key, manifest, settings, lambda _part: None)


async def test_the_folder_lives_as_long_as_the_runtime(tmp_path: Path) -> None:
    """It is there, private and empty after the trial, and gone with the runtime."""
    settings = settings_in(tmp_path)
    runtime = await started(fake_manifest(tmp_path), settings)
    try:
        assert runtime.states is not None
        folder = Path(settings.state_folder)
        assert content(folder) == (0o700, [])
        assert runtime.states.token_bytes > 0
        await runtime.states.save(0, "some")
        assert content(folder) == (0o700, ["some"])
    finally:
        await runtime.stop(1.0)
    assert content(folder) is None


@pytest.mark.parametrize("odd", ["lost", "refused"])
async def test_what_does_not_come_back_is_not_offered(tmp_path: Path, odd: str) -> None:
    """A model whose slots restore to nothing, or a server that cannot save, has no states."""
    runtime = await started(fake_manifest(tmp_path, states=odd), settings_in(tmp_path))
    try:
        assert runtime.states is None
    finally:
        await runtime.stop(1.0)


async def test_unknown_models_and_missing_folders_are_not_tried(tmp_path: Path) -> None:
    """Nobody knows what an unknown architecture keeps; without a folder there is nowhere to."""
    unknown = msgspec.structs.replace(fake_manifest(tmp_path), kv=None)
    homeless = msgspec.structs.replace(settings_in(tmp_path), state_folder="")
    for manifest, settings in (
        (unknown, settings_in(tmp_path)),
        (fake_manifest(tmp_path), homeless),
    ):
        runtime = await started(manifest, settings)
        assert runtime.states is None
        await runtime.stop(1.0)


def test_the_trial_looks_beyond_a_window() -> None:
    """What fits into a sliding window proves nothing; where nothing more fits, nothing is tried."""
    assert ProbePlan(vocab_size=100, ctx=4096, window=0).length == 32
    assert ProbePlan(vocab_size=100, ctx=4096, window=512).length == 576
    assert ProbePlan(vocab_size=100, ctx=512, window=512).length == 0
    assert ProbePlan(vocab_size=100, ctx=32, window=0).length == 0


async def test_a_window_is_gone_beyond(tmp_path: Path) -> None:
    """The trial of a model with windows computes more than the window holds."""
    windowed = KvShape((KvLayers(2, 8, 8, 128), KvLayers(1, 8, 8)))
    manifest = msgspec.structs.replace(fake_manifest(tmp_path), kv=windowed)
    runtime = await started(manifest, settings_in(tmp_path))
    try:
        assert runtime.states is not None
        states = runtime.states
        assert states.token_bytes > 0
    finally:
        await runtime.stop(1.0)
