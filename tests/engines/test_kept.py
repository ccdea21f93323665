"""How many models of ONNX GenAI a node keeps loaded: so many, one, or none that nobody uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roost.backends.processes.child import SHIM
from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.children import seen
from tests.conftest import until
from tests.engines.asking import post
from tests.system.processes import Roost

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def both(home: Path, onnx: Manifest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Give the names of two models for ONNX GenAI, of which one is the other in another folder."""
    twin = tmp_path / "twin"
    shutil.copytree(Path(onnx.path).parent, twin)
    (twin / "roost.json").unlink()
    config = twin / "genai_config.json"
    config.write_text(config.read_text() + "\n")
    store = ModelStore(Home.open(home))
    other = store.add_file(twin, link=True).id
    yield onnx.id, other
    store.remove(other)


def runtimes(roost: Roost) -> int:
    """Count the processes that hold a model."""
    lines = seen(roost.descendants(), lambda one: one.cmdline())
    # Each is named twice: by itself, and by the shim that it runs under.
    return sum("roost.backends.hosted.child" in line and SHIM not in line for line in lines)


def holding(roost: Roost, models: int) -> Callable[[], bool]:
    """Say whether it holds just so many models."""
    return lambda: runtimes(roost) == models


def ask(url: str, model: str) -> None:
    """Have a short answer."""
    body = (
        f'{{"model": "{model}", "max_tokens": 4, "messages": [{{"role": "user", "content": "a"}}]}}'
    )
    assert post(url, body.encode())[0] == 200


@pytest.mark.parametrize(("kept", "after"), [(0, [0, 0, 0]), (1, [1, 1, 1]), (2, [1, 2, 2])])
async def test_so_many_models_are_kept(
    kept: int, after: list[int], both: tuple[str, str], home: Path, tmp_path: Path
) -> None:
    """Each is answered, and what is kept then is as many as may be."""
    size = f"--onnx-genai-model-cache-size={kept}"
    quick = ("--runtime-min-resident-s", "0", "--ctx", "256", "--slots", "1")
    with Roost(tmp_path / "log", "serve", "--port", "0", size, *quick, home=home) as roost:
        url = roost.url()
        for model, left in zip((*both, both[0]), after, strict=True):
            ask(url, model)
            await until(holding(roost, left), within_s=60)
