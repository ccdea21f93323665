"""SHELL: where a user keeps a model: a file, a shard of several, or a folder with variants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from roost.errors import fail
from roost.store.models.folders import files_of
from roost.store.models.parts import Variant, choose, shards_beside, variants

WALK_MAX = 20_000
"""Names that are looked at in a folder and the folders below it."""


class Place(msgspec.Struct, frozen=True):
    """A model where it lies: its files, absolute, and the name that its user gave the first."""

    files: tuple[Path, ...]
    name: str


def locate(path: Path, wanted: str = "") -> Place:
    """Find the model that `path` names; in a folder the best one, or the one that is `wanted`.

    A folder with a config.json, or ONNX GenAI's, is one model, unless another in it is wanted.

    A link to a file is followed, a link to a folder below `path` is not. The files of a split model
    keep the names they have side by side, links or not, since llama.cpp goes by these. Raises
    `bad_request` where there is none, or where a part of it is missing.
    """
    real = resolved(path)
    if real.is_dir():
        if not wanted and (files := files_of(real)):
            return Place(files, real.name)
        chosen = choose(found_in(real), wanted)
        return _place(real, chosen)
    if wanted:
        raise fail("bad_request", "One file of several is chosen in a folder, and this is none.")
    # By the name the user gave: in a cache of links the files themselves are called otherwise.
    folder = resolved(path.expanduser().absolute().parent)
    return _place(folder, shards_beside(path.name, _names(folder)))


def found_in(folder: Path) -> tuple[Variant, ...]:
    """List the models in a folder and below, the one to take first; raises `bad_request`."""
    return variants(_below(folder))


def resolved(path: Path) -> Path:
    """Return an absolute path without links; raises `bad_request` if no manifest could hold it."""
    try:
        real = path.expanduser().resolve()
        str(real).encode()
    except (OSError, RuntimeError, ValueError) as error:
        raise fail(
            "bad_request", "The model file's name cannot be used: it is not valid UTF-8 or loops."
        ) from error
    return real


def _place(folder: Path, chosen: Variant) -> Place:
    if len(chosen.files) == 1:
        return Place((resolved(folder / chosen.name),), Path(chosen.name).name)
    whole = tuple(folder / name for name in chosen.files)
    resolved(whole[0])
    return Place(whole, whole[0].name)


def _names(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(path.name for path in folder.iterdir())
    except OSError:
        # Whatever is wrong with it is said of the file that is wanted.
        return ()


def _below(folder: Path) -> Iterator[str]:
    seen = 0
    for root, _, names in os.walk(folder):
        seen += 1 + len(names)
        if seen > WALK_MAX:
            message = f"The folder holds more than {WALK_MAX} files. Name the one with the model."
            raise fail("bad_request", message)
        for name in names:
            relative = (Path(root) / name).relative_to(folder).as_posix()
            if name.lower().endswith(".gguf"):
                yield relative
