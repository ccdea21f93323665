"""SHELL: the models that are installed: one manifest each, and the files that roost owns.

A model file is either owned (it lies in ROOST_HOME/models/<id>/ and is removed with the model) or
linked (it lies where its user keeps it and is never touched). The manifest is written last and
removed first, so a manifest always has had a whole file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from roost.core.ids import ModelId
from roost.core.model import Manifest
from roost.errors import RoostError, fail
from roost.store.files import locked, require_space, sync, sync_folder, translated, write_atomic
from roost.store.home import Home
from roost.store.inspection import Progress, Stamp, digest, ignore, inspect, take_stamp
from roost.store.naming import candidate_ids, is_model_id
from roost.store.vocabulary import Facts

OWN_NAME = "model.gguf"


class Record(msgspec.Struct, frozen=True):
    """What is written to manifests/<id>.json: the manifest and when its digest was computed."""

    manifest: Manifest
    owned: bool
    mtime_ns: int


class Incoming(msgspec.Struct, frozen=True):
    """A file about to be installed: finished, in ROOST_HOME, and given away by its caller.

    `name` is the file name to derive the id from, never a path to write to.
    """

    path: Path
    name: str
    source: str
    licence: str = ""
    digest: str = ""


class ModelStore:
    """The models under one ROOST_HOME; several processes may use it at once."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def list(self) -> tuple[Manifest, ...]:
        """List the models whose files are there, by id; see `broken` for the others."""
        judged = map(self._judged, self._ids())
        return tuple(kept for kept in judged if isinstance(kept, Manifest))

    def broken(self) -> tuple[tuple[ModelId, str], ...]:
        """List the models that cannot be used, with the reason in words."""
        judged = ((ModelId(model), self._judged(model)) for model in self._ids())
        return tuple((model, why) for model, why in judged if isinstance(why, str))

    def get(self, model: str) -> Manifest:
        """Return one model; raises `model_not_found` if there is none or its file is gone.

        A file that changed since its digest was computed is read again, which may take a while.
        """
        record = self._load(model)
        if record is None:
            raise fail("model_not_found", "No model of this name is installed. See: roost models")
        return self._current(record).manifest

    def find_source(self, source: str) -> Manifest | None:
        """Return the usable model that came from `source`, or from a version of it, if any."""
        for manifest in self.list():
            if manifest.source == source or manifest.source.startswith(f"{source}=="):
                return manifest
        return None

    def add_file(self, path: Path, *, link: bool, progress: Progress = ignore) -> Manifest:
        """Install the model file at `path`; raises `bad_request` if it is none.

        With `link` the file stays where it is and belongs to its user. Otherwise ROOST_HOME gets a
        copy of it. The digest of a linked file that is known and unchanged is not computed again.
        `progress` counts hashed bytes.
        """
        real = _resolved(path)
        stamp = take_stamp(real)
        known = self._known_file(real, stamp, link=link)
        if known is not None:
            return known
        facts = inspect(real)
        if link:
            return self._link(real, facts, stamp, progress)
        taken = self._take_in(real, stamp)
        try:
            return self.install(Incoming(taken, path.name, f"file:{real}"), progress)
        finally:
            taken.unlink(missing_ok=True)

    def install(self, incoming: Incoming, progress: Progress = ignore) -> Manifest:
        """Check a finished file, move it to its place and list it; raises `bad_request`."""
        facts = inspect(incoming.path)
        stamp = take_stamp(incoming.path)
        found = incoming.digest or digest(incoming.path, progress)
        with translated(), locked(self._lock):
            model = self._choose_id(incoming.name, facts, found, None)
            final = self._own_path(model)
            final.parent.mkdir(mode=0o700, exist_ok=True)
            incoming.path.replace(final)
            sync_folder(final.parent)
            manifest = _manifest(model, final, stamp, found, facts)
            licence = incoming.licence or facts.licence
            manifest = msgspec.structs.replace(manifest, source=incoming.source, licence=licence)
            return self._save(Record(manifest, owned=True, mtime_ns=stamp.mtime_ns))

    def remove(self, model: str) -> None:
        """Remove a model, with its file if roost owns it; raises `model_not_found`."""
        with translated(), locked(self._lock):
            if not is_model_id(model) or not self._manifest_path(model).exists():
                raise fail("model_not_found", "No model of this name is installed.")
            self._manifest_path(model).unlink()
            sync_folder(self.home.manifests)
            own = self._own_path(model)
            own.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                own.parent.rmdir()

    @property
    def _lock(self) -> Path:
        return self.home.locks / "models"

    def _ids(self) -> tuple[str, ...]:
        names = sorted(path.stem for path in self.home.manifests.glob("*.json"))
        return tuple(filter(is_model_id, names))

    def _manifest_path(self, model: str) -> Path:
        return self.home.manifests / f"{model}.json"

    def _own_path(self, model: str) -> Path:
        return self.home.models / model / OWN_NAME

    def _load(self, model: str) -> Record | None:
        """Read a record; None if there is none. What is no id is never looked for on disk."""
        if not is_model_id(model):
            return None
        try:
            record = msgspec.json.decode(self._manifest_path(model).read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise fail(
                "storage_error", "The model's manifest is damaged. Remove and pull it again."
            ) from error
        manifest = msgspec.structs.replace(record.manifest, id=ModelId(model))
        if record.owned:
            # ROOST_HOME may have been moved since: an owned file is found by its id.
            manifest = msgspec.structs.replace(manifest, path=str(self._own_path(model)))
        return msgspec.structs.replace(record, manifest=manifest)

    def _save(self, record: Record) -> Manifest:
        path = self._manifest_path(record.manifest.id)
        write_atomic(path, msgspec.json.encode(record))
        return record.manifest

    def _judged(self, model: str) -> Manifest | str:
        try:
            return self.get(model)
        except RoostError as error:
            return error.failure.message

    def _current(self, record: Record) -> Record:
        """Return the record if its file is unchanged, else what the file is now."""
        path = Path(record.manifest.path)
        if not path.exists():
            raise fail("model_not_found", "The model's file is gone. Pull or link it again.")
        stamp = take_stamp(path)
        if _stamp(record) == stamp:
            return record
        fresh = _manifest(record.manifest.id, path, stamp, digest(path), inspect(path))
        fresh = msgspec.structs.replace(
            fresh, source=record.manifest.source, licence=record.manifest.licence
        )
        changed = Record(fresh, record.owned, stamp.mtime_ns)
        with translated(), locked(self._lock):
            self._save(changed)
        return changed

    def _records(self) -> Iterator[Record]:
        loaded = map(self._load_quietly, self._ids())
        return (record for record in loaded if record is not None)

    def _known_file(self, path: Path, stamp: Stamp, *, link: bool) -> Manifest | None:
        """Find the model that is this very file, unchanged, so that it need not be hashed again."""
        for record in self._records():
            kept = Path(record.manifest.path)
            same = _stamp(record) == stamp and kept.exists() and kept.samefile(path)
            if same and (link or record.owned):
                return record.manifest
        return None

    def _link(self, path: Path, facts: Facts, stamp: Stamp, progress: Progress) -> Manifest:
        found = digest(path, progress)
        with translated(), locked(self._lock):
            model = self._choose_id(path.name, facts, found, path)
            kept = self._load_quietly(model)
            if kept and kept.manifest.digest == found and Path(kept.manifest.path).exists():
                return kept.manifest
            manifest = _manifest(model, path, stamp, found, facts)
            manifest = msgspec.structs.replace(
                manifest, source=f"file:{path}", licence=facts.licence
            )
            return self._save(Record(manifest, owned=False, mtime_ns=stamp.mtime_ns))

    def _choose_id(self, name: str, facts: Facts, found: str, linked: Path | None) -> ModelId:
        """Pick the id: the same content keeps its id, other content never takes it over."""
        candidates = candidate_ids(name, facts.name, found)
        kept = {model: self._load_quietly(model) for model in candidates}
        for model, record in kept.items():
            if record and record.manifest.digest == found:
                return model
        for model, record in kept.items():
            if record is None or (linked and record.manifest.path == str(linked)):
                return model
        return candidates[-1]

    def _load_quietly(self, model: str) -> Record | None:
        with contextlib.suppress(RoostError):
            return self._load(model)
        return None

    def _take_in(self, path: Path, stamp: Stamp) -> Path:
        """Give ROOST_HOME a copy of its own: a link would change with the user's file."""
        taken = self.home.downloads / f"import-{secrets.token_hex(8)}.gguf"
        require_space(self.home.downloads, stamp.size_bytes)
        try:
            with translated():
                _copy(path, taken)
        except BaseException:
            taken.unlink(missing_ok=True)
            raise
        return taken


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fchmod(file.fileno(), 0o600)
        sync(file.fileno())


def _resolved(path: Path) -> Path:
    """Return the file's absolute path; raises `bad_request` if a manifest could not hold it."""
    try:
        real = path.expanduser().resolve()
        str(real).encode()
    except (OSError, RuntimeError, ValueError) as error:
        raise fail(
            "bad_request", "The model file's name cannot be used: it is not valid UTF-8 or loops."
        ) from error
    return real


def _stamp(record: Record) -> Stamp:
    return Stamp(record.manifest.size_bytes, record.mtime_ns)


def _manifest(model: ModelId, path: Path, stamp: Stamp, found: str, facts: Facts) -> Manifest:
    return Manifest(
        id=model,
        path=str(path),
        size_bytes=stamp.size_bytes,
        digest=found,
        architecture=facts.architecture,
        ctx_train=facts.ctx_train,
        vocab_size=facts.vocab_size,
        chat_template=facts.chat_template,
        bos=facts.bos,
        eos=facts.eos,
        add_bos=facts.add_bos,
        control_tokens=facts.control_tokens,
        max_token_bytes=facts.max_token_bytes,
        kv=facts.kv,
        created_unix_s=int(time.time()),
    )
