"""`roost convert` for real: once, as it was made, and whatever goes wrong on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.children import runs
from tests.conftest import until
from tests.engines.conftest import GGUF, ONNX, SAFETENSORS, converted, environ
from tests.smollm2 import smollm2_path

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Give a ROOST_HOME with the GGUF alone."""
    root = tmp_path / "home"
    ModelStore(Home.open(root)).add_file(smollm2_path(), link=True)
    return root


def test_a_conversion_is_made_once(home: Path, folder: Manifest, onnx: Manifest) -> None:
    """The same model gives the same folder, which is looked through and not made again."""
    assert (folder.format, folder.ctx_train, folder.vocab_size) == ("safetensors", 8192, 49152)
    assert (onnx.format, onnx.ctx_train, onnx.vocab_size) == ("onnx", 8192, 49152)
    assert folder.chat_template == onnx.chat_template
    assert folder.chat_template is not None
    for way in (("--to", "safetensors"), ("--to", "onnx")):
        again = converted(home, GGUF, *way)
        told = again.stdout.splitlines()
        assert told, again.stderr
        assert all("was made before" in line for line in told)
    config = Path(folder.path)
    config.write_text(config.read_text() + " ")
    spoilt = converted(home, GGUF)
    assert (spoilt.returncode, "is not as it was made" in spoilt.stderr) == (2, True)
    config.write_text(config.read_text()[:-1])


def test_another_recipe_is_another_model(home: Path, tmp_path: Path) -> None:
    """A folder of one precision is not taken for one of another."""
    out = str(tmp_path / "mine")
    shutil.copytree(home / "converted" / ONNX, out)
    other = converted(home, SAFETENSORS, "--to", "onnx", "--precision", "int8", "--out", out)
    assert (other.returncode, "was made of another model" in other.stderr) == (2, True)
    same = converted(home, SAFETENSORS, "--to", "onnx", "--out", out)
    assert (same.returncode, "was made before" in same.stdout) == (0, True), same.stderr


def test_what_the_builder_does_not_know_is_told(home: Path, tmp_path: Path) -> None:
    """Its last words are, where all of them are kept is, and nothing half made is left."""
    odd = tmp_path / "odd"
    shutil.copytree(home / "converted" / SAFETENSORS, odd)
    (odd / "roost.json").unlink()
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps(config | {"architectures": ["OddForCausalLM"]}))
    ModelStore(Home.open(home)).add_file(odd, link=True)
    done = converted(home, "odd", "--to", "onnx")
    assert done.returncode == 1, done.stdout
    assert "cannot be converted: " in done.stderr
    assert "convert.log" in done.stderr
    assert not list((home / "converted").glob("*odd*"))
    assert not list((home / "converted").glob(".*"))


def begun(home: Path) -> subprocess.Popen[bytes]:
    """Begin to convert."""
    argv = [sys.executable, "-m", "roost", "convert", GGUF]
    return subprocess.Popen(argv, env=environ(home))


@pytest.mark.parametrize("way", ["terminate", "kill"])
async def test_a_conversion_that_is_cut_leaves_no_model(way: str, empty: Path) -> None:
    """Nobody goes on with it, nothing is installed, and the next one begins anew and ends well."""
    running = begun(empty)
    place = empty / "converted"
    children: list[psutil.Process] = []

    def under_way() -> bool:
        children[:] = psutil.Process(running.pid).children(recursive=True)
        return any(place.glob(".*.part/*.json"))

    await until(under_way, within_s=300)
    getattr(running, way)()
    running.wait()
    await until(lambda: not any(map(runs, children)))
    assert not (place / SAFETENSORS).exists()
    assert [model.id for model in ModelStore(Home.open(empty)).list()] == [GGUF]
    done = converted(empty, GGUF)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in place.iterdir()] == [SAFETENSORS]
