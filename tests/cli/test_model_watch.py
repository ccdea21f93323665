"""Models that change while a node runs: seen, whoever changes what."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.cli.parts.model_watch import Watch, watch
from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.conftest import until
from tests.store.gguf_writer import Typed, tiny


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """A store in a home of its own."""
    return ModelStore(Home.open(tmp_path / "home"))


@asynccontextmanager
async def _watched(store: ModelStore) -> AsyncIterator[list[tuple[Manifest, ...]]]:
    """Everything that is told while the block runs."""
    told: list[tuple[Manifest, ...]] = []

    async def tell(models: tuple[Manifest, ...]) -> None:
        told.append(models)

    watching = asyncio.create_task(watch(Watch(store, store.list(), 0.01), tell))
    yield told
    watching.cancel()
    await asyncio.wait((watching,))


def _model(path: Path, ctx: int) -> Path:
    path.write_bytes(tiny(**{"llama.context_length": Typed("u32", ctx)}))
    return path


def _replaced(path: Path) -> None:
    """Other content in a file of its own, moved to the place of the old one."""
    _model(path.with_suffix(".new"), 2048).replace(path)


def _written_over(path: Path) -> None:
    """Other content in the very same file, with its time set back."""
    before = path.stat()
    _model(path, 2048)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [_replaced, _written_over])
async def test_a_file_that_changes_behind_its_manifest_is_seen(
    store: ModelStore, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Nobody has told roost: the model is offered as what it is now, under another digest."""
    path = _model(tmp_path / "m.gguf", 1024)
    before = store.add_file(path, link=True)
    async with _watched(store) as told:
        change(path)
        # While it is written over it may be looked at, and is no model at all.
        await until(lambda: bool(told and told[-1]))
    (after,) = told[-1]
    assert after.id == before.id
    assert after.digest != before.digest
    assert (before.ctx_train, after.ctx_train) == (1024, 2048)


async def test_a_file_that_is_gone_is_seen_and_one_that_is_touched_is_the_same_model(
    store: ModelStore, tmp_path: Path
) -> None:
    """A model without its file is offered no more; another time alone is not another model."""
    path, other = _model(tmp_path / "m.gguf", 1024), _model(tmp_path / "o.gguf", 1024)
    store.add_file(path, link=True)
    kept = store.add_file(other, link=True)
    async with _watched(store) as told:
        path.unlink()
        await until(lambda: bool(told))
        assert [[model.id for model in models] for models in told] == [[kept.id]]
        os.utime(other)
        late = store.add_file(_model(tmp_path / "late.gguf", 512), link=True)
        await until(lambda: len(told) > 1 and late.id in {model.id for model in told[-1]})
        assert {model.digest for model in told[-1]} == {kept.digest, late.digest}
