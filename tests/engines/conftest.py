"""One small real model in every form that an engine here reads, made by `roost convert`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roost.core.model import Manifest
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.smollm2 import smollm2_path

GGUF = "smollm2-135m-instruct"
SAFETENSORS = f"{GGUF}-safetensors"
ONNX = f"{GGUF}-onnx-int4"


def environ(home: Path) -> dict[str, str]:
    """Give an environment with this home and no other setting."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOST_")}
    return {**clean, "ROOST_HOME": str(home)}


def converted(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `roost convert` over this home."""
    return subprocess.run(
        [sys.executable, "-m", "roost", "convert", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environ(home),
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a ROOST_HOME with the model as a GGUF, as safetensors made of it, and as ONNX."""
    root = tmp_path_factory.mktemp("home")
    gguf = ModelStore(Home.open(root)).add_file(smollm2_path(), link=True)
    assert gguf.id == GGUF
    done = converted(root, gguf.id, "--to", "onnx")
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def folder(home: Path) -> Manifest:
    """Give the manifest of the folder of safetensors."""
    return ModelStore(Home.open(home)).get(SAFETENSORS)


@pytest.fixture
def onnx(home: Path) -> Manifest:
    """Give the manifest of the folder for ONNX GenAI."""
    return ModelStore(Home.open(home)).get(ONNX)
