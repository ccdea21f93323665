"""SHELL: where a child listens: a socket in a folder of this user's alone."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path

from roost.errors import fail

PREFIX = "r"
SOCKET_PATH_MAX_BYTES = 100
"""The kernel's limit is 108 on Linux and 104 on macOS, the final zero included."""

_LONGEST_NAME = "/rxxxxxxxx/llama.sock"


def private_folder(workdir: str) -> Path:
    """Make a fresh folder (0700) in `workdir`, or in the system's own place if that is too deep."""
    parent = Path(workdir)
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if len(str(parent.resolve()).encode()) + len(_LONGEST_NAME) > SOCKET_PATH_MAX_BYTES:
        return Path(tempfile.mkdtemp(prefix="roost-"))
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent.resolve()))


def make_private(folder: Path) -> None:
    """Make a folder for this user alone; raises `load_failed`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder for states of slots cannot be made: {error.strerror}."
        raise fail("load_failed", message) from None


def ensure_folder(folder: str) -> None:
    """Make the folder for states again, where somebody has cleaned up; raises `runtime_error`."""
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder for states of slots is gone: {error.strerror}."
        raise fail("runtime_error", message) from None


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it, if it is still there."""
    shutil.rmtree(folder, ignore_errors=True)


def has_unix_sockets() -> bool:
    """Whether this platform can listen in a folder instead of on a port."""
    return hasattr(socket, "AF_UNIX")


def free_port() -> int:
    """Find a port of 127.0.0.1 that was free a moment ago.

    Somebody may be quicker; then the load fails, and those who decide about retries decide.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
