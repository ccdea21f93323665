"""SHELL: the models that are installed: one manifest each, and the files that roost owns.

A model's files are either owned (they lie in ROOST_HOME/models/<id>/ and are removed with the
model) or linked (they lie where their user keeps them and are never touched).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from roost.core.card import CARDS
from roost.core.ids import ModelId
from roost.core.model import Manifest, ModelFile
from roost.errors import RoostError, fail
from roost.store.files import locked, require_space, sync, sync_folder, translated
from roost.store.home import Home
from roost.store.models.describing import files_of, manifest_of
from roost.store.models.folders import FOLDERS
from roost.store.models.inspection import (
    Progress,
    ignore,
    inspect,
    is_unchanged,
    take_stamp,
)
from roost.store.models.naming import candidate_ids
from roost.store.models.places import Place, locate
from roost.store.models.records import Record, Records, digest_of
from roost.store.models.vocabulary import Facts

IMPORT = "import-"
IMPORTING = "importing"
"""The lock that imports share while their copies, named `import-…`, lie in `downloads`."""


class Incoming(msgspec.Struct, frozen=True):
    """A model about to be installed: its files finished, in ROOST_HOME, and given away.

    `name` is the file name to derive the id from, never a path to write to; `digests` are the
    files', where they are known. `into` is the id of the model whose place it takes, if any.
    """

    files: tuple[Path, ...]
    name: str
    source: str
    licence: str = ""
    digests: tuple[str, ...] = ()
    into: str = ""


class Verified(msgspec.Struct, frozen=True):
    """A model that was read through: as its manifest said, or another file than was linked."""

    manifest: Manifest
    verdict: Literal["good", "changed"]


class ModelStore:
    """The models under one ROOST_HOME; several processes may use it at once."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._records = Records(home)

    def list(self) -> tuple[Manifest, ...]:
        """List the models whose files are there, by id; see `broken` for the others."""
        judged = map(self._judged, self._records.ids())
        return tuple(kept for kept in judged if isinstance(kept, Manifest))

    def ids(self) -> tuple[str, ...]:
        """List every model that has a manifest, usable or not."""
        return self._records.ids()

    def broken(self) -> tuple[tuple[ModelId, str], ...]:
        """List the models that cannot be used, with the reason in words."""
        judged = ((ModelId(model), self._judged(model)) for model in self._records.ids())
        return tuple((model, why) for model, why in judged if isinstance(why, str))

    def get(self, model: str) -> Manifest:
        """Return one model; raises `model_not_found` if there is none or its file is gone.

        A file that changed since its digest was computed is read again, which may take a while.
        """
        return self._current(self._record(model)).manifest

    def owns(self, model: str) -> bool:
        """Whether a model's files are roost's own; raises `model_not_found`."""
        return self._record(model).owned

    def find_source(self, source: str) -> Manifest | None:
        """Return the usable model that came from `source`, a version or a file of it, if any."""
        for manifest in self.list():
            if manifest.source == source or manifest.source.startswith(
                (f"{source}==", f"{source}/")
            ):
                return manifest
        return None

    def add_file(
        self,
        path: Path,
        *,
        link: bool,
        file: str = "",
        into: str = "",
        progress: Progress = ignore,
    ) -> Manifest:
        """Install the model at `path`, a file or a folder; raises `bad_request` if it is none.

        With `link` its files stay where they are and belong to their user. Otherwise ROOST_HOME
        gets a copy of them. Digests of linked files that are known and unchanged are not computed
        again. `file` chooses one in a folder; the model `into`, if any, gets it in place of its
        own. `progress` counts hashed bytes.
        """
        place = locate(path, file)
        known = None if into else self._known_place(place, link=link)
        if known is not None:
            return known
        facts = inspect(*place.files)
        if facts.format in FOLDERS and not link:
            raise fail("bad_request", "A model folder is served from where it lies: say --link.")
        if link:
            return self._link(place, facts, into, progress)
        with self._importing():
            taken = self._take_in(place)
            try:
                source = f"file:{place.files[0]}"
                return self.install(Incoming(taken, place.name, source, into=into), progress)
            finally:
                for part in taken:
                    part.unlink(missing_ok=True)

    def install(self, incoming: Incoming, progress: Progress = ignore) -> Manifest:
        """Check finished files, move them to their place and list them; raises `bad_request`."""
        facts = inspect(*incoming.files)
        if facts.format in CARDS and not incoming.source.startswith("file:"):
            message = "That is a card. It names what to run, so it has to lie on this machine."
            raise fail("bad_request", message)
        files = files_of(incoming.files, incoming.digests, progress)
        found = digest_of(files)
        with translated(), locked(self._lock):
            model = self._choose_id(incoming.name, facts, found, incoming.into)
            licence = incoming.licence or facts.licence
            kept = self._whole(model, found)
            if kept is not None:
                same = msgspec.structs.replace(kept, source=incoming.source, licence=licence)
                return self._records.save(_owned(same))
            paths = self._records.own_paths(model, len(files))
            paths[0].parent.mkdir(mode=0o700, exist_ok=True)
            for file, path in zip(incoming.files, paths, strict=True):
                file.replace(path)
            sync_folder(paths[0].parent)
            pairs = zip(files, paths, strict=True)
            placed = tuple(msgspec.structs.replace(f, path=str(path)) for f, path in pairs)
            manifest = msgspec.structs.replace(
                manifest_of(model, placed, facts),
                source=incoming.source,
                licence=licence,
            )
            saved = self._records.save(_owned(manifest))
            self._records.sweep(model, keep=paths)
            return saved

    def verify(self, model: str, progress: Progress = ignore) -> Verified:
        """Read a model through, and bring its manifest up to date with what its files say.

        Raises `model_not_found` where one is gone, `bad_request` where one is no model any more and
        `storage_error` where its bytes are others than those that were installed.
        """
        record = self._record(model)
        _require_files(record)
        files = files_of(tuple(Path(file.path) for file in record.manifest.files), (), progress)
        same = digest_of(files) == record.manifest.digest
        touched = not all(map(is_unchanged, record.manifest.files))
        if not same and (record.owned or not touched):
            raise _damaged("storage_error")
        return Verified(self._refresh(record, files).manifest, "good" if same else "changed")

    def remove(self, model: str) -> None:
        """Remove a model, with its files if roost owns them; raises `model_not_found`."""
        with translated(), locked(self._lock):
            if not self._records.exists(model):
                raise fail("model_not_found", "No model of this name is installed.")
            self._records.remove(model)

    @property
    def _lock(self) -> Path:
        return self.home.locks / "models"

    def _record(self, model: str) -> Record:
        record = self._records.load(model)
        if record is None:
            raise fail("model_not_found", "No model of this name is installed. See: roost models")
        return record

    def _judged(self, model: str) -> Manifest | str:
        try:
            return self.get(model)
        except RoostError as error:
            return error.failure.message

    def _current(self, record: Record) -> Record:
        """Return the record if its files are unchanged, else what the files are now."""
        _require_files(record)
        if all(map(is_unchanged, record.manifest.files)):
            return record
        files = files_of(tuple(Path(file.path) for file in record.manifest.files), (), ignore)
        if record.owned and digest_of(files) != record.manifest.digest:
            raise _damaged("model_not_found")
        return self._refresh(record, files)

    def _refresh(self, record: Record, files: tuple[ModelFile, ...]) -> Record:
        """Write down what a model's files are now; where it came from stays as it is."""
        kept = record.manifest
        facts = inspect(*(Path(file.path) for file in files))
        fresh = msgspec.structs.replace(
            manifest_of(kept.id, files, facts),
            source=kept.source,
            licence=kept.licence,
            created_unix_s=kept.created_unix_s,
        )
        changed = _owned(fresh) if record.owned else _linked(fresh)
        with translated(), locked(self._lock):
            self._records.save(changed)
        return changed

    def _known_place(self, place: Place, *, link: bool) -> Manifest | None:
        """Find the model that is in these very files, so that they need not be hashed again."""
        for path in place.files:
            take_stamp(path)
        for record in self._records.all():
            if (link or record.owned) and _lies_in(record.manifest, place):
                return record.manifest
        return None

    def _link(self, place: Place, facts: Facts, into: str, progress: Progress) -> Manifest:
        files = files_of(place.files, (), progress)
        found = digest_of(files)
        source = f"file:{place.files[0]}"
        with translated(), locked(self._lock):
            model = self._choose_id(place.name, facts, found, into, place.files[0])
            kept = self._records.load_quietly(model)
            if kept and kept.manifest.digest == found and Path(kept.manifest.path).exists():
                return kept.manifest
            manifest = msgspec.structs.replace(
                manifest_of(model, files, facts), source=source, licence=facts.licence
            )
            saved = self._records.save(_linked(manifest))
            self._records.sweep(model, keep=())
            return saved

    def _whole(self, model: str, found: str) -> Manifest | None:
        """Return an owned model that has this very content, and has kept it."""
        record = self._records.load_quietly(model)
        if record is None or not record.owned or record.manifest.digest != found:
            return None
        files = record.manifest.files
        whole = all(Path(file.path).exists() and is_unchanged(file) for file in files)
        return record.manifest if whole else None

    def _choose_id(
        self, name: str, facts: Facts, found: str, into: str, linked: Path | None = None
    ) -> ModelId:
        """Pick the id: the same content keeps its id, other content never takes it over."""
        if into:
            return ModelId(into)
        candidates = candidate_ids(name, facts.name, found)
        kept = {model: self._records.load_quietly(model) for model in candidates}
        for model, record in kept.items():
            if record and record.manifest.digest == found:
                return model
        for model, record in kept.items():
            if record is None or (linked and record.manifest.path == str(linked)):
                return model
        return candidates[-1]

    @contextlib.contextmanager
    def _importing(self) -> Iterator[None]:
        """Let others know, as long as it lasts, that copies in `downloads` are in use."""
        with translated(), locked(self.home.locks / IMPORTING, shared=True):
            yield

    def _take_in(self, place: Place) -> tuple[Path, ...]:
        """Give ROOST_HOME a copy of its own: a link would change with the user's files."""
        stem = f"{IMPORT}{secrets.token_hex(8)}"
        folder = self.home.downloads
        require_space(folder, sum(take_stamp(path).size_bytes for path in place.files))
        taken: list[Path] = []
        try:
            with translated():
                for number, path in enumerate(place.files):
                    taken.append(folder / f"{stem}-{number}.gguf")
                    _copy(path, taken[-1])
        except BaseException:
            for path in taken:
                path.unlink(missing_ok=True)
            raise
        return tuple(taken)


def _owned(manifest: Manifest) -> Record:
    return Record(manifest, owned=True, mtime_ns=manifest.files[0].mtime_ns)


def _linked(manifest: Manifest) -> Record:
    return Record(manifest, owned=False, mtime_ns=manifest.files[0].mtime_ns)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fchmod(file.fileno(), 0o600)
        sync(file.fileno())


def _require_files(record: Record) -> None:
    if not all(Path(file.path).exists() for file in record.manifest.files):
        raise fail("model_not_found", "The model's file is gone. Pull or link it again.")


def _damaged(reason: str) -> RoostError:
    message = "The model's file is damaged: its bytes are not those that were installed."
    return fail(reason, f"{message} Remove it and pull it again.")


def _lies_in(manifest: Manifest, place: Place) -> bool:
    """Whether a model's files are these very ones, unchanged."""
    if len(manifest.files) != len(place.files):
        return False
    pairs = zip(manifest.files, place.files, strict=True)
    return all(
        Path(kept.path).exists() and is_unchanged(kept) and Path(kept.path).samefile(path)
        for kept, path in pairs
    )
