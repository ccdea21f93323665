"""Where a child listens: ports that are held until it does, folders of this user's."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from roost.backends.processes.places import Ports, private_folder, write_key
from roost.errors import RoostError


def _is_free(kind: socket.SocketKind, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_no_two_starts_choose_one_port() -> None:
    """However many begin at once, in this process or another: the kernel gives a port once."""
    with Ports() as mine, Ports() as theirs:
        chosen = [ports.take() for _ in range(40) for ports in (mine, theirs)]
        assert len(set(chosen)) == len(chosen)
        assert not any(_is_free(socket.SOCK_DGRAM, port) for port in chosen)
        # What is held is not the place where the child listens. Others may be quicker, once or
        # twice, but not everywhere.
        assert sum(_is_free(socket.SOCK_STREAM, port) for port in chosen) > 60
    assert sum(_is_free(socket.SOCK_DGRAM, port) for port in chosen) > 60


def test_what_the_system_refuses_is_a_failed_load(tmp_path: Path) -> None:
    """And no defect of the loader: whoever chooses goes on with another runtime."""
    (tmp_path / "file").touch()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(RoostError) as port:
            Ports().take()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.raises(RoostError) as folder:
        private_folder(str(tmp_path / "file" / "work"))
    with pytest.raises(RoostError) as key:
        write_key(tmp_path / "gone" / "key", "secret")
    assert [
        (one.value.failure.reason, one.value.failure.message) for one in (port, folder, key)
    ] == [
        ("load_failed", "A port for a runtime cannot be made: Too many open files."),
        ("load_failed", "The folder of a runtime cannot be made: Not a directory."),
        ("load_failed", "The file with a runtime's key cannot be made: No such file or directory."),
    ]
