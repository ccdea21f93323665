"""SHELL: folders that were made out of other models, with a seal that says of which and of what.

A seal is written last. A folder without one is half made; one whose files are not as the seal says
has been changed by somebody, and is neither used nor overwritten in silence.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import msgspec

from roost.store.files import sync, sync_folder, translated
from roost.store.models.inspection import digest

SEAL = "roost.json"
State = Literal["missing", "whole", "other", "changed"]


class Seal(msgspec.Struct, frozen=True):
    """Which model it was made of, by its digest, with what, and the digest of each file."""

    source: str
    made_with: str
    files: dict[str, str]


def state_of(folder: Path, source: str) -> State:
    """Say whether a folder is there, made of this source, and as it was made."""
    try:
        seal = msgspec.json.decode((folder / SEAL).read_bytes(), type=Seal)
    except (OSError, msgspec.MsgspecError):
        return "changed" if folder.exists() else "missing"
    if seal.source != source:
        return "other"
    paths = {name: folder / name for name in seal.files}
    if not all(path.is_file() for path in paths.values()):
        return "changed"
    good = all(digest(path) == seal.files[name] for name, path in paths.items())
    return "whole" if good else "changed"


def seal(made: Path, folder: Path, source: str, made_with: str) -> None:
    """Seal the folder `made` and give it its place; raises `storage_error`."""
    with translated():
        files = sorted(path for path in made.iterdir() if path.is_file())
        for path in files:
            with path.open("rb") as file:
                sync(file.fileno())
        told = Seal(source, made_with, {path.name: digest(path) for path in files})
        (made / SEAL).write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=2))
        made.replace(folder)
        sync_folder(folder.parent)


def discard(folder: Path) -> None:
    """Remove what was half made."""
    shutil.rmtree(folder, ignore_errors=True)
