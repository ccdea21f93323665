"""SHELL: what to type to install an engine, in the words of whoever installed roost here."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

import msgspec

SIZES = {
    "llama": "127 MB installed",
    "top": "22 MB installed",
    "otel": "13 MB installed",
    "candle": "120 MB installed",
    "mlx": "350 MB installed",
    "onnx": "230 MB installed",
    "onnx-convert": "1.4 GB installed with a torch for CPUs, several GB with one for CUDA",
    "transformers": "1.1 GB installed with a torch for CPUs, several GB with one for CUDA",
    "vllm": "10 GB installed",
}
"""What each extra takes on the disk, for the person who has to decide."""


class _Folder(msgspec.Struct):
    editable: bool = False


class _Origin(msgspec.Struct):
    url: str = ""
    dir_info: _Folder | None = None


def install_command(extra: str) -> str:
    """Give the command that adds `extra`, a set of optional dependencies, with its size."""
    try:
        return command_for(distribution("roost"), extra)
    except PackageNotFoundError:
        return command(extra, tool="pip", editable=True)


def install_argv(extra: str) -> list[str] | None:
    """Give the program and arguments that add `extra` to this very copy of roost.

    None where roost was not installed, so that nobody knows how to.
    """
    try:
        return argv_for(distribution("roost"), extra)
    except PackageNotFoundError:
        return None


def argv_for(found: Distribution, extra: str) -> list[str]:
    """Write them for a copy of roost as its installer has recorded it, with this Python."""
    tool = (found.read_text("INSTALLER") or "pip").strip()
    pip = [sys.executable, "-P", "-m", "pip", "install"]
    if tool == "uv":
        pip = ["uv", "pip", "install", "--python", sys.executable]
    if _editable(found):
        # Where it lies, since whoever types may be anywhere.
        return [*pip, "-e", f"{_folder(found)}[{extra}]"]
    return [*pip, f"roost[{extra}]=={found.version}"]


def _folder(found: Distribution) -> str:
    origin = msgspec.json.decode(found.read_text("direct_url.json") or "{}", type=_Origin)
    return unquote(urlsplit(origin.url).path)


def command_for(found: Distribution, extra: str) -> str:
    """Write the command that fits a copy of roost as its installer has recorded it."""
    tool = (found.read_text("INSTALLER") or "pip").strip()
    return command(extra, tool=tool, editable=_editable(found))


def command(extra: str, *, tool: str, editable: bool) -> str:
    """Write the command for a tool that installs and a copy that may be a checkout."""
    pip = "uv pip" if tool == "uv" else "pip"
    what = f"-e '.[{extra}]'" if editable else f"'roost[{extra}]'"
    size = f"   ({SIZES[extra]})" if extra in SIZES else ""
    return f"{pip} install {what}{size}"


def _editable(found: Distribution) -> bool:
    text = found.read_text("direct_url.json")
    if text is None:
        return False
    try:
        origin = msgspec.json.decode(text, type=_Origin)
    except msgspec.DecodeError:
        return False
    return bool(origin.dir_info and origin.dir_info.editable)
