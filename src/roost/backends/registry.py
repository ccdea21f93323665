"""WIRING: the closed list of backends: a name, and how to make the one it means.

A list and not a discovery: what can be chosen can be tested. Each is imported when it is made.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.backends.base import Backend
from roost.errors import fail

AUTO = "auto"
_FOR_FORMAT = {"gguf": "llama_server", "scripted": "scripted", "broken": "scripted"}


def _llama_server(llama_server_path: str) -> Backend:
    from roost.backends.llama_server import LlamaServer

    return LlamaServer(llama_server_path or None)


def _scripted(_llama_server_path: str) -> Backend:
    from roost.backends.scripted import ScriptedBackend

    return ScriptedBackend()


_FACTORIES: dict[str, Callable[[str], Backend]] = {
    "llama_server": _llama_server,
    "scripted": _scripted,
}
NAMES = tuple(sorted(_FACTORIES))


def backend_for(name: str, model_format: str) -> str:
    """Name the backend that `name` means for a model of this format; `auto` chooses by the format.

    Raises `load_failed` where there is none.
    """
    found = _FOR_FORMAT.get(model_format, "") if name == AUTO else name
    if found in _FACTORIES:
        return found
    known = ", ".join((AUTO, *NAMES))
    if name == AUTO:
        raise fail("load_failed", f"No backend serves models of the format {model_format!r}.")
    raise fail("load_failed", f"There is no backend {name!r}; there are {known}.")


def make(name: str, *, llama_server_path: str = "") -> Backend:
    """Make the backend of this name; raises `load_failed` for a name that is not in the list.

    `llama_server_path` is a `llama-server` binary to use instead of the wheel, "" for none.
    """
    return _FACTORIES[backend_for(name, "")](llama_server_path)
