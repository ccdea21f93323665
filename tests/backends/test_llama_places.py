"""Where a child listens: ports that are held until it does."""

from __future__ import annotations

import socket

from roost.backends.llama.places import Ports


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
