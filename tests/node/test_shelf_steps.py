"""The shelf and how large steps of prefill are: remembered, put right, and changed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from roost.backends.base import Runtime, StartSettings, Telemetry
from roost.core.engine import Engine
from roost.core.ids import ModelId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.node.models.shelf import Shelf, ShelfSettings
from roost.store.home import Home
from roost.store.paces import Paces
from tests.node.test_shelf import Always, Recording, manifest_of
from tests.node.tiny import TinyRuntime


async def test_steps_are_remembered(tmp_path: Path) -> None:
    """What a runtime tells of its steps is what the next one of its key is started with."""

    class Stepping(Recording):
        """A backend whose runtimes tell how large their steps are."""

        async def start(
            self,
            key: RuntimeKey,
            manifest: Manifest,
            settings: StartSettings,
            on_progress: Callable[[float], None],
        ) -> Runtime:
            """Start one with steps of 64 tokens."""
            runtime = await super().start(key, manifest, settings, on_progress)
            assert isinstance(runtime, TinyRuntime)
            runtime.told = Telemetry(step_tokens=64)
            return runtime

    backend = Stepping("llama_server")
    start = StartSettings(workdir="", log_path="")
    own = {"n": RuntimeOptions(engine=Engine(step_budget_ms=0))}
    common = RuntimeOptions(engine=Engine(step_budget_ms=300))
    shelf = Shelf(
        [manifest_of(), manifest_of("n")],
        Always(backend),
        ShelfSettings(common, "/run", "/logs", start, own_options=own),
    )
    shelf.pace_with(Paces(Home.open(tmp_path), "cpu"))
    for model in ("m", "m", "n"):
        await shelf.start(ModelId(model), RuntimeId("m#1"), lambda _part: None)
    assert [settings.step_tokens for _, _, settings in backend.asked] == [0, 64, 0]


async def test_steps_are_put_right_by_what_runtimes_see(tmp_path: Path) -> None:
    """The next one of the key takes them, in another life of the node too; nobody is loaded for it.

    Written once, and not at all for a runtime that has no budget.
    """
    backend, home = Recording("llama_server"), Home.open(tmp_path)
    options = RuntimeOptions(engine=Engine(step_budget_ms=300))
    settings = ShelfSettings(options, "/run", "/logs", StartSettings(workdir="", log_path=""))

    def shelf() -> Shelf:
        made = Shelf([manifest_of()], Always(backend), settings)
        made.pace_with(Paces(home, "cpu"))
        return made

    first = shelf()
    started = await first.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert isinstance(started, TinyRuntime)
    await first.learn((started,))
    assert not (home.root / "paces.json").exists()
    started.told = Telemetry(step_tokens=32, fitting_tokens=128)
    free = TinyRuntime(ModelId("free"))
    free.told = started.told
    await first.learn((started, free))
    written = (home.root / "paces.json").stat()
    await first.learn((started, free))
    assert (home.root / "paces.json").stat() == written
    assert len(json.loads((home.root / "paces.json").read_text())) == 1
    for one in (first, shelf()):
        await one.start(ModelId("m"), RuntimeId("m#2"), lambda _part: None)
    assert [asked.step_tokens for _, _, asked in backend.asked] == [0, 128, 128]


def test_the_time_of_a_step_changes_for_all_but_those_with_their_own(tmp_path: Path) -> None:
    """It is part of the key, so that runtimes that were loaded with another one are replaced."""
    own = {"own": RuntimeOptions(engine=Engine(step_budget_ms=7)), "other": RuntimeOptions()}
    settings = ShelfSettings(
        RuntimeOptions(engine=Engine(step_budget_ms=300)),
        str(tmp_path),
        str(tmp_path),
        StartSettings("", ""),
        own_options=own,
    )
    models = [manifest_of(name) for name in ("m", "own", "other")]
    shelf = Shelf(models, Always(Recording("llama_server")), settings)
    before = {one.model: one.key for one in shelf.offers()}
    after = {one.model: one.key for one in shelf.pace(100, {"own"})}
    assert {model for model in before if before[model] != after[model]} == {"m", "other"}
    assert {one.model: one.key for one in shelf.pace(300, {"own"})}[ModelId("m")] == before[
        ModelId("m")
    ]
