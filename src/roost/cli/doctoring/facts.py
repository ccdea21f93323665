"""SHELL: what `roost doctor` looks at; it reads and measures, and changes nothing."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from roost import __version__
from roost.backends.registry import look, traits
from roost.core.choice import AUTO, Choice, Found, Trait
from roost.core.machine import Bandwidth, Device, HugePages, Limits, Memory, Processor
from roost.errors import RoostError
from roost.node.machine import bandwidth, devices, machine

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.config.load import Fault
    from roost.core.model import Manifest
    from roost.store.home import Home

SPARE_SHARE = 4
"""A measurement takes at most this part of the memory that is free."""

VERSION_TIMEOUT_S = 20.0
_VERSION = re.compile(r"version:\s*(\S.{0,60})")
_ROOT = Path("/")


class HomeFacts(msgspec.Struct, frozen=True):
    """ROOST_HOME, or the nearest folder above it where there is none yet.

    `mode` has the permission bits, `free_bytes` what the disk still takes.
    """

    exists: bool
    writable: bool
    mode: int | None = None
    free_bytes: int | None = None


class PortFacts(msgspec.Struct, frozen=True):
    """Where `roost serve` would listen: `why` not, and whether a gateway of this home is there."""

    host: str
    port: int
    why: str = ""
    is_ours: bool = False


class ClockFacts(msgspec.Struct, frozen=True):
    """The wall clock: behind the installation itself? Kept by a time server? None: nobody tells."""

    is_behind: bool
    is_synchronised: bool | None = None


class ModelFacts(msgspec.Struct, frozen=True):
    """One installed model: what runs it, and what is wrong with its files.

    `weight_bytes` is 0 where nobody knows, and where its weights are not on this machine.
    """

    id: str
    weight_bytes: int
    choice: Choice
    failure: str = ""


class ProbeFacts(msgspec.Struct, frozen=True):
    """One token of one model: seconds to load it and to that token, or why there was none."""

    model: str
    backend: str
    load_s: float | None = None
    token_s: float | None = None
    failure: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Everything that was seen."""

    roost: str
    python: str
    system: str
    processor: Processor
    memory: Memory
    huge_pages: HugePages
    limits: Limits
    devices: tuple[Device, ...]
    backends: tuple[Trait, ...]
    found: dict[str, Found]
    home: HomeFacts
    port: PortFacts
    clock: ClockFacts
    faults: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    bandwidth: Bandwidth | None = None
    models: tuple[ModelFacts, ...] = ()
    broken: tuple[str, ...] = ()
    probes: tuple[ProbeFacts, ...] = ()
    connections_max: int = 0
    wanted: str = AUTO


def gather(settings: Settings, faults: tuple[Fault, ...], unknown: tuple[str, ...]) -> Facts:
    """Look at everything but what a probe would tell; takes about a second."""
    from roost.store.home import Home

    home = Home(Path(settings.home))
    processor, memory = machine.processor(), machine.memory()
    models, broken = _models(settings, home)
    found = look(settings.llama_server)
    return Facts(
        roost=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor,
        memory=memory,
        huge_pages=machine.huge_pages(),
        limits=machine.limits(),
        devices=devices.devices(),
        backends=traits(),
        found={name: _with_version(settings, name, one) for name, one in found.items()},
        home=home_facts(home.root),
        port=port_facts(settings.host, settings.port, home),
        clock=clock_facts(),
        faults=tuple(fault.message for fault in faults),
        unknown=unknown,
        bandwidth=_bandwidth(processor, memory),
        models=models,
        broken=broken,
        connections_max=settings.connections_max,
        wanted=settings.backend,
    )


def _bandwidth(processor: Processor, memory: Memory) -> Bandwidth | None:
    """Measure, unless memory is so short that measuring would harm somebody."""
    size = bandwidth.buffer_bytes(processor.threads)
    room, needed = memory.room_bytes, 2 * size * processor.threads
    if room is not None and needed > room // SPARE_SHARE:
        return None
    return bandwidth.measure_bandwidth(processor.threads, size)


def _with_version(settings: Settings, name: str, found: Found) -> Found:
    """Add the version of a program, which only the program itself can tell."""
    path = settings.llama_server
    if name != "llama_server" or not path or not found.usable:
        return found
    return msgspec.structs.replace(found, version=program_version(path))


def program_version(path: str) -> str | None:
    """Ask a llama-server for its version; None where it does not say within a while."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return said[1].strip() if said else None


def home_facts(root: Path) -> HomeFacts:
    """Look at a folder that may not be there yet."""
    exists = root.is_dir()
    nearest = next((one for one in (root, *root.parents) if one.is_dir()), _ROOT)
    try:
        mode = stat.S_IMODE(root.stat().st_mode) if exists else None
        free = shutil.disk_usage(nearest).free
    except OSError:
        mode = free = None
    return HomeFacts(exists, os.access(nearest, os.W_OK | os.X_OK), mode, free)


def port_facts(host: str, port: int, home: Home) -> PortFacts:
    """Try to take the address, for a moment; one that roost itself has taken is told apart."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            *(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)
        )[0]
        with socket.socket(family, kind) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
    except UnicodeError:
        return PortFacts(host, port, "this is no name of a machine")
    except OSError as error:
        ours = error.errno == errno.EADDRINUSE and _is_ours(home, port)
        return PortFacts(host, port, error.strerror or type(error).__name__, ours)
    return PortFacts(host, port)


def _is_ours(home: Home, port: int) -> bool:
    if not home.instances.is_dir():
        return False
    from urllib.parse import urlsplit

    return any(urlsplit(one.url).port == port for one in home.running_instances())


def clock_facts(now_s: float | None = None, root: Path = _ROOT) -> ClockFacts:
    """Compare the wall clock with the date of roost's own files: it cannot be before them."""
    now_s = time.time() if now_s is None else now_s
    installed_s = Path(__file__).stat().st_mtime
    told = root / "run/systemd/timesync"
    synchronised = (told / "synchronized").exists() if told.is_dir() else None
    return ClockFacts(now_s < installed_s - 60, synchronised)


def _models(settings: Settings, home: Home) -> tuple[tuple[ModelFacts, ...], tuple[str, ...]]:
    if not home.manifests.is_dir():
        return (), ()
    from roost.cli.parts.node import chooser
    from roost.store.models.registry import ModelStore

    store, chosen = ModelStore(home), chooser(settings)
    found = [
        ModelFacts(str(one.id), one.weight_bytes, chosen.choice(one), _failure_of(one))
        for one in store.list()
    ]
    return tuple(found), tuple(f"{name}: {why}" for name, why in store.broken())


def _failure_of(model: Manifest) -> str:
    from roost.store.models.inspection import check_unchanged

    try:
        if model.files:
            check_unchanged(model)
    except RoostError as error:
        return error.failure.message
    return ""
