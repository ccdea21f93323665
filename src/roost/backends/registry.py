"""WIRING: the closed list of backends: a name, how to make the one it means, and what it is for.

A list and not a discovery: what can be chosen can be tested. Each is imported when it is made.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from roost import __version__
from roost.backends.base import Backend
from roost.backends.choosing import Around, Subject, choose
from roost.backends.classes import (
    ENGINE_SERVER,
    EXTERNAL,
    INSIDE,
    LIBRARY,
    ONCE,
    OWN_SERVER,
    RUNNER,
    SCHEDULER,
    Class,
)
from roost.backends.hostable import Library
from roost.backends.looking import library_found, llama_found, vllm_found
from roost.core.about import BackendAbout
from roost.core.choice import AUTO, Accelerator, Choice, Found, Trait
from roost.errors import fail


def _llama_server(llama_server_path: str) -> Backend:
    from roost.backends.llama.server import LlamaServer

    return LlamaServer(llama_server_path or None)


def _scripted(_llama_server_path: str) -> Backend:
    from roost.backends.scripted.backend import ScriptedBackend

    return ScriptedBackend()


def _command(_llama_server_path: str) -> Backend:
    from roost.backends.programs.command import Command

    return Command()


def _command_once(_llama_server_path: str) -> Backend:
    from roost.backends.programs.command_once import CommandOnce

    return CommandOnce()


def _openai_http(_llama_server_path: str) -> Backend:
    from roost.backends.openai.openai_http import OpenaiHttp

    return OpenaiHttp()


def _vllm(_llama_server_path: str) -> Backend:
    from roost.backends.openai.vllm import Vllm

    return Vllm()


def _omlx(_llama_server_path: str) -> Backend:
    from roost.backends.openai.omlx import Omlx

    return Omlx()


def _own(_llama_server_path: str) -> Found:
    return Found(usable=True, version=f"roost {__version__}")


def _cards(_llama_server_path: str) -> Found:
    # Where it is, each card says for itself; whether it is there, its load.
    return Found(usable=True, version="the one that a card names")


def _vllm_here(_llama_server_path: str) -> Found:
    return vllm_found()


class _Entry(NamedTuple):
    """One backend; `make` and `look` are given the path of a llama-server binary, "" for none.

    `hosts` is the module whose `LIBRARY` runs in a child, "" for none; `external` says that it is
    somebody else's server.
    """

    make: Callable[[str], Backend]
    look: Callable[[str], Found]
    formats: tuple[str, ...]
    priorities: dict[Accelerator, int]
    class_: Class
    platforms: tuple[str, ...] = ()
    hosts: str = ""
    external: bool = False


def _hosted(
    module: str,
    formats: tuple[str, ...],
    priorities: dict[Accelerator, int],
    class_: Class = LIBRARY,
) -> dict[str, _Entry]:
    """Host the `LIBRARY` of this module, under the module's own name."""

    def make_hosted(_llama_server_path: str) -> Backend:
        from roost.backends.hosted.host import Hosted

        return Hosted(_library(module))

    def look_for(_llama_server_path: str) -> Found:
        return library_found(_library(module))

    name = module.rpartition(".")[2]
    return {name: _Entry(make_hosted, look_for, formats, priorities, class_, hosts=module)}


def _library(module: str) -> Library:
    found: Library = importlib.import_module(module).LIBRARY
    return found


_LLAMA: dict[Accelerator, int] = {
    "cuda": 1000,
    "rocm": 950,
    "metal": 925,
    "vulkan": 900,
    "cpu": 800,
}
_TRANSFORMERS: dict[Accelerator, int] = {"cuda": 840, "rocm": 840, "metal": 840, "cpu": 740}
_MLX: dict[Accelerator, int] = {"cuda": 850, "metal": 850, "cpu": 120}
_CANDLE: dict[Accelerator, int] = {"cpu": 110}
_VLLM: dict[Accelerator, int] = {"cuda": 950, "rocm": 945, "cpu": 90}
_ONNX: dict[Accelerator, int] = {"cuda": 960, "cpu": 810}
_ENTRIES: dict[str, _Entry] = {
    "llama_server": _Entry(_llama_server, llama_found, ("gguf",), _LLAMA, ENGINE_SERVER),
    "scripted": _Entry(_scripted, _own, ("scripted", "broken"), {"cpu": 1}, INSIDE),
    "command": _Entry(_command, _own, ("command",), {"cpu": 1}, RUNNER),
    "command_once": _Entry(_command_once, _own, ("command_once",), {"cpu": 1}, ONCE),
    "vllm": _Entry(_vllm, _vllm_here, ("vllm", "safetensors"), _VLLM, OWN_SERVER, ("linux",)),
    "omlx": _Entry(_omlx, _cards, ("omlx",), {"cpu": 1}, OWN_SERVER, ("darwin",)),
    "openai_http": _Entry(
        _openai_http, _own, ("openai_http",), {"cpu": 1}, EXTERNAL, external=True
    ),
    **_hosted("roost.backends.libraries.transformers", ("safetensors",), _TRANSFORMERS),
    **_hosted("roost.backends.libraries.mlx", ("safetensors",), _MLX),
    **_hosted("roost.backends.libraries.candle", ("gguf", "safetensors"), _CANDLE, SCHEDULER),
    **_hosted("roost.backends.libraries.onnx_genai", ("onnx",), _ONNX),
    **_hosted("roost.backends.libraries.toy", ("toy",), {"cpu": 1}),
}
CLASSES = {name: entry.class_ for name, entry in _ENTRIES.items()}
HOSTED = tuple(name for name, entry in _ENTRIES.items() if entry.hosts)
NAMES = tuple(sorted(_ENTRIES))


def look(llama_server_path: str = "") -> dict[str, Found]:
    """Look what there is of each backend here; takes milliseconds and imports no engine."""
    return {name: entry.look(llama_server_path) for name, entry in _ENTRIES.items()}


def library(name: str) -> Library:
    """Give the library that one of `HOSTED` has in its child."""
    return _library(_ENTRIES[name].hosts)


@cache
def traits() -> tuple[Trait, ...]:
    """List what is fixed about each backend, as far as a node can be asked for it."""
    return tuple(_trait(name, entry) for name, entry in _ENTRIES.items())


def _trait(name: str, entry: _Entry) -> Trait:
    claimed = entry.make("").capabilities
    return Trait(*(name, entry.formats, entry.priorities, claimed, entry.platforms, entry.external))


def chosen(wanted: str, subject: Subject, around: Around) -> Choice:
    """Choose a backend for a model; raises `load_failed` for a name that is not in the list."""
    if wanted not in (AUTO, *NAMES):
        known = ", ".join((AUTO, *NAMES))
        raise fail("load_failed", f"There is no backend {wanted!r}; there are {known}.")
    return choose(wanted, subject, traits(), around)


def here(llama_server_path: str = "") -> Around:
    """Say what matters about this machine to a choice, with nothing spoilt."""
    return Around(sys.platform, look(llama_server_path))


def abouts(llama_server_path: str = "") -> tuple[BackendAbout, ...]:
    """Say of each backend what there is of it here, and what it claims."""
    found = look(llama_server_path)
    return tuple(_about(trait, found[trait.name]) for trait in traits())


def _about(trait: Trait, found: Found) -> BackendAbout:
    return BackendAbout(
        trait.name,
        found.usable,
        found.version,
        found.accelerator,
        trait.capabilities.claimed,
        found.why,
        found.command,
        trait.external,
    )


def make(name: str, *, llama_server_path: str = "") -> Backend:
    """Make the backend of this name; raises `load_failed` for a name that is not in the list.

    `llama_server_path` is a `llama-server` binary to use instead of the wheel, "" for none.
    """
    entry = _ENTRIES.get(name)
    if entry is None:
        known = ", ".join((AUTO, *NAMES))
        raise fail("load_failed", f"There is no backend {name!r}; there are {known}.")
    return entry.make(llama_server_path)
