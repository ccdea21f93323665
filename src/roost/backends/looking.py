"""SHELL: what there is of each engine on this machine; nothing is imported and no weights are read.

A package is looked up by its metadata, a program by its file: both take milliseconds, so that
whoever chooses can look again whenever a choice is due.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import TYPE_CHECKING

from roost.backends.hostable import Library
from roost.backends.install import install_command
from roost.core.choice import Accelerator, Found

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_SIGNS: tuple[tuple[str, Accelerator], ...] = (
    ("ggml-cuda", "cuda"),
    ("ggml-hip", "rocm"),
    ("ggml-metal", "metal"),
    ("ggml-vulkan", "vulkan"),
)
"""Names of libraries that tell for which accelerator llama.cpp was built."""


def llama_found(server_path: str) -> Found:
    """Look for the binary that the settings name, or else for the wheel."""
    return _program(server_path) if server_path else _wheel("xllamacpp", "llama", "llama.cpp")


def library_found(library: Library) -> Found:
    """Look for everything that a hosted library needs."""
    if not all(find_spec(module) for module in library.imports):
        return _missing(library.title, library.extra)
    for package, accelerator in library.builds.items():
        if version := _version(package):
            return Found(usable=True, version=version, accelerator=accelerator)
    return Found(usable=True, version=_version(library.imports[0]) if library.imports else None)


def vllm_found() -> Found:
    """Look for vLLM: a card names a program of its own, weights need one that is beside roost."""
    beside = _missing("vLLM", "vllm")
    if "microsoft" in platform.release().lower():
        beside = Found(usable=False, why="vLLM is not started under WSL")
    elif find_spec("vllm"):
        version = _version("vllm") or ""
        signs: dict[str, Accelerator] = {"cpu": "cpu", "rocm": "rocm"}
        of: Accelerator = next((signs[sign] for sign in signs if sign in version), "cuda")
        beside = Found(usable=True, version=version or None, accelerator=of)
    return Found(usable=True, version="the one that a card names", apart={"safetensors": beside})


def _version(package: str) -> str | None:
    """Say which version of a package is installed; None where nobody knows."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None


def _missing(engine: str, extra: str) -> Found:
    why = f"{engine} is not installed"
    return Found(usable=False, why=why, command=install_command(extra), extra=extra)


def _program(path: str) -> Found:
    where = shutil.which(path)
    if where is None:
        exists = os.path.exists(path)  # noqa: PTH110 - also for what is no path at all
        why = "it is not a program that may be run" if exists else "there is no such program"
        return Found(usable=False, why=f"llama_server names a file, but {why}")
    return Found(usable=True)


def _wheel(package: str, extra: str, engine: str) -> Found:
    if find_spec(package) is None:
        return _missing(engine, extra)
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return Found(usable=True, accelerator=_builtin())
    return Found(usable=True, version=found.version, accelerator=built_for(found))


def built_for(found: Distribution) -> Accelerator:
    """Say what an installed package of llama.cpp runs on, by the libraries that it brings."""
    names = [path.name for path in found.files or ()]
    for sign, accelerator in _SIGNS:
        if any(sign in name for name in names):
            return accelerator
    return _builtin()


def _builtin() -> Accelerator:
    """Say what a build without separate libraries uses: Apple's have Metal inside."""
    return "metal" if sys.platform == "darwin" else "cpu"
