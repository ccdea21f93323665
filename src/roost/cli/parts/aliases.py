"""WIRING: other names of models, as people write them in settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import RoostError, fail

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_aliases(texts: Iterable[str]) -> dict[str, str]:
    """Read `gpt-4o=MODEL` and so on, names as keys; raises `bad_request` for what is none of that.

    A name stands for a model's own, never for another such name: chains could go in circles.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, model = map(str.strip, text.partition("="))
        if not name or not model:
            raise _wrong(text, "write a name, = and the model that it stands for")
        if name in found:
            raise _wrong(text, "this name stands for another model already")
        found[name] = model
    for name, model in found.items():
        if model in found:
            raise _wrong(f"{name}={model}", "this stands for a name and not for a model")
    return found


def _wrong(text: str, why: str) -> RoostError:
    return fail("bad_request", f"--aliases {text}: {why}.", param="aliases")
