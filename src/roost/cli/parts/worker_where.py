"""VALUE: the address of a worker API, as it is written in the settings."""

from __future__ import annotations

from typing import NamedTuple

from roost.core.hosts import in_address
from roost.errors import fail

FLAG = "--worker-api"


class Where(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """The two as a URL has them."""
        return f"{in_address(self.host)}:{self.port}"


def read_where(text: str) -> Where:
    """Read HOST:PORT; raises `bad_request` for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        message = f"{FLAG} {text}: write HOST:PORT, as 127.0.0.1:3001."
        raise fail("bad_request", message, param="worker_api")
    return Where(host, int(port))
