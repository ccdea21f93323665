"""VALUE: the machine of a measurement, and what runs on it."""

from __future__ import annotations

import msgspec


class Environment(msgspec.Struct, frozen=True):
    """The machine and the versions; loads are of one minute, as the kernel tells them.

    `revision` is the git commit of the checkout that this runs from, "" where it is none.
    """

    at: str
    system: str
    machine: str
    cpu: str
    cores: int
    memory_bytes: int
    python: str
    roost: str
    revision: str
    load_before: float
    load_after: float = 0.0


class Server(msgspec.Struct, frozen=True):
    """What runs behind a port of this machine: its processes, their memory, and CPU seconds."""

    processes: int
    rss_bytes: int
    cpu_s: float
