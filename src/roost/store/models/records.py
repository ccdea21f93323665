"""SHELL: the manifests on disk: read, written whole, and removed; one file for each model.

The manifest is written last and removed first, so a manifest always has had whole files.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from roost.core.ids import ModelId
from roost.core.model import Manifest, ModelFile
from roost.errors import RoostError, fail
from roost.store.files import sync_folder, write_atomic
from roost.store.home import Home
from roost.store.models.naming import is_model_id

OWN_STEM = "model"


class Record(msgspec.Struct, frozen=True):
    """What is written to manifests/<id>.json: the manifest and whose its files are.

    `mtime_ns` is the first file's, kept for versions that knew one file per model.
    """

    manifest: Manifest
    owned: bool
    mtime_ns: int


class Records:
    """The manifests under one ROOST_HOME."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def ids(self) -> tuple[str, ...]:
        """List every model that has a manifest, readable or not."""
        names = sorted(path.stem for path in self._home.manifests.glob("*.json"))
        return tuple(filter(is_model_id, names))

    def exists(self, model: str) -> bool:
        """Whether there is a manifest; what is no id is never looked for on disk."""
        return is_model_id(model) and self._path(model).exists()

    def load(self, model: str) -> Record | None:
        """Read a record, None if there is none; raises `storage_error` where it is damaged."""
        if not is_model_id(model):
            return None
        try:
            record = msgspec.json.decode(self._path(model).read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise fail(
                "storage_error", "The model's manifest is damaged. Remove and pull it again."
            ) from error
        return self._placed(model, record)

    def load_quietly(self, model: str) -> Record | None:
        """Read a record; None where that cannot be done."""
        with contextlib.suppress(RoostError):
            return self.load(model)
        return None

    def all(self) -> Iterator[Record]:
        """Yield the records that can be read."""
        loaded = map(self.load_quietly, self.ids())
        return (record for record in loaded if record is not None)

    def save(self, record: Record) -> Manifest:
        """Write a record, and return its manifest."""
        write_atomic(self._path(record.manifest.id), msgspec.json.encode(record))
        return record.manifest

    def remove(self, model: str) -> None:
        """Remove a manifest and the files that roost owns, the manifest first."""
        self._path(model).unlink()
        sync_folder(self._home.manifests)
        self.sweep(model, keep=())

    def sweep(self, model: str, keep: tuple[Path, ...]) -> None:
        """Remove the files that roost owns of a model, but for some."""
        folder = self.own_folder(model)
        for path in folder.glob(f"{OWN_STEM}*.gguf"):
            if path not in keep:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def own_folder(self, model: str) -> Path:
        """Name the folder for the files that roost owns."""
        return self._home.models / model

    def own_paths(self, model: str, count: int) -> tuple[Path, ...]:
        """Name the files that roost owns of a model in `count` files, as llama.cpp wants them."""
        if count == 1:
            return (self.own_folder(model) / f"{OWN_STEM}.gguf",)
        names = (f"{OWN_STEM}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1))
        return tuple(self.own_folder(model) / name for name in names)

    def _path(self, model: str) -> Path:
        return self._home.manifests / f"{model}.json"

    def _placed(self, model: str, record: Record) -> Record:
        """Fill in what follows from the place: ROOST_HOME may have been moved since."""
        manifest = record.manifest
        only = ModelFile(manifest.path, manifest.size_bytes, manifest.digest, record.mtime_ns)
        files = manifest.files or (only,)
        if record.owned:
            paths = self.own_paths(model, len(files))
            pairs = zip(files, paths, strict=True)
            files = tuple(msgspec.structs.replace(f, path=str(path)) for f, path in pairs)
        placed = msgspec.structs.replace(
            manifest, id=ModelId(model), path=files[0].path, files=files
        )
        return msgspec.structs.replace(record, manifest=placed)


def digest_of(files: tuple[ModelFile, ...]) -> str:
    """Name the content of a model: its only file's digest, or that of the list of digests."""
    if len(files) == 1:
        return files[0].digest
    listed = "\n".join(file.digest for file in files)
    return f"sha256:{hashlib.sha256(listed.encode()).hexdigest()}"
