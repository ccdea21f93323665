"""What the conformance suite examines in these tests, made by hand where nothing is installed."""

from __future__ import annotations

from pathlib import Path

from roost.backends.base import Runtime, StartSettings
from roost.backends.scripted import Script, ScriptedBackend, ScriptedRuntime
from roost.core.ids import ModelId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.testing.conformance import Subject

MODEL = ModelId("model")


def key_of(backend: str, *, ctx: int = 2048, slots: int = 2, batch: int = 256) -> RuntimeKey:
    """Give a key for the test model."""
    return RuntimeKey(backend, MODEL, "sha256:0", RuntimeOptions(ctx, slots, batch))


def settings_in(folder: Path, release_timeout_s: float = 10.0) -> StartSettings:
    """Give settings whose files stay in `folder`."""
    return StartSettings(
        str(folder / "run"), str(folder / "runtime.log"), release_timeout_s=release_timeout_s
    )


async def kill_scripted(runtime: Runtime) -> None:
    """End a scripted runtime as kill -9 would."""
    assert isinstance(runtime, ScriptedRuntime)
    runtime.kill()


def scripted(folder: Path, script: Script | None = None) -> Subject:
    """Give the scripted backend, slow enough to be left in prefill and in decode."""
    script = script or Script(delay_ms=1.0, prefill_ms_per_token=0.05)
    manifest = Manifest(MODEL, "", 0, "sha256:0", format="scripted")
    backend = ScriptedBackend(script)
    return Subject(backend, key_of("scripted"), manifest, settings_in(folder), kill_scripted)
