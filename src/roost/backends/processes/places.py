"""SHELL: where a child listens: a socket in a folder of this user's, or a port held for it."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from roost.errors import fail

PREFIX = "r"
LOOPBACK = "127.0.0.1"
PORT_TRIES = 64
SOCKET_PATH_MAX_BYTES = 100
"""The kernel's limit is 108 on Linux and 104 on macOS, the final zero included."""

_LONGEST_NAME = "/rxxxxxxxx/llama.sock"


def private_folder(workdir: str) -> Path:
    """Make a fresh folder (0700) in `workdir`, or in the system's own place if that is too deep.

    Raises `load_failed`.
    """
    parent = Path(workdir)
    with making("The folder of a runtime"):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(str(parent.resolve()).encode()) + len(_LONGEST_NAME) > SOCKET_PATH_MAX_BYTES:
            return Path(tempfile.mkdtemp(prefix="roost-"))
        return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent.resolve()))


def make_private(folder: Path) -> None:
    """Make a folder for this user alone; raises `load_failed`."""
    with making("The folder for states of slots"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_key(path: Path, key: str) -> None:
    """Write a key into a file for this user alone; raises `load_failed`."""
    with making("The file with a runtime's key"):
        path.touch(mode=0o600)
        path.write_text(key)


@contextlib.contextmanager
def making(what: str) -> Iterator[None]:
    """Say that the system does not let `what` be made for a runtime; raises `load_failed`."""
    try:
        yield
    except OSError as error:
        raise fail("load_failed", f"{what} cannot be made: {error.strerror}.") from None


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


class Ports:
    """Ports of 127.0.0.1 that no other start on this machine chooses while the block runs.

    To be held until the child listens. A port is taken by the UDP port of the same number, which
    nobody else has a use for: the kernel lets one process have it, and takes it back however that
    ends. Programs that know nothing of this may still be quicker; then the load fails, and those
    who decide about retries decide.
    """

    def __init__(self) -> None:
        self._signs: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sign in self._signs:
            sign.close()

    def take(self) -> int:
        """Choose one; raises `load_failed` where there is none."""
        for _ in range(PORT_TRIES):
            with making("A port for a runtime"), socket.socket() as probe:
                probe.bind((LOOPBACK, 0))
                port: int = probe.getsockname()[1]
                # While the probe holds it, nobody else is given it.
                sign = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                try:
                    sign.bind((LOOPBACK, port))
                except OSError:
                    sign.close()
                    continue
                self._signs.append(sign)
                return port
        raise fail("load_failed", "No port of this machine is free for a runtime.")
