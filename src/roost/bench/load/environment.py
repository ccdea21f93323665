"""SHELL: where a measurement was made: without it a figure means nothing tomorrow."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from roost import __version__
from roost.bench.load.machine import Environment, Server
from roost.bench.processes import family, rss_bytes


def environment(at: str) -> Environment:
    """Look at this machine; `at` is the time of day to write down."""
    return Environment(
        at=at,
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=sys.version.split()[0],
        roost=__version__,
        revision=_revision(),
        load_before=os.getloadavg()[0],
    )


def after(before: Environment) -> Environment:
    """Note the load at the end."""
    return msgspec.structs.replace(before, load_after=os.getloadavg()[0])


def sha256(text: str) -> str:
    """Hash what was asked."""
    return hashlib.sha256(text.encode()).hexdigest()


def server_behind(port: int) -> Server | None:
    """Look at whoever listens on a port of this machine; None where that cannot be seen."""
    pid = _listener(port)
    if pid is None:
        return None
    members = family(pid)
    rss = sum(map(rss_bytes, members))
    return Server(len(members), rss, sum(_cpu_s(member) for member in members))


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")


def _revision() -> str:
    """Ask git, which may not be there; an installed package is no checkout."""
    git = shutil.which("git")
    if git is None:
        return ""
    try:
        told = subprocess.run(
            (git, "rev-parse", "HEAD"),
            cwd=Path(__file__).parent,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.decode("ascii", "replace").strip() if told.returncode == 0 else ""


def _listener(port: int) -> int | None:
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(fd.readlink()) in sockets for fd in (folder / "fd").iterdir()):
                return int(folder.name)
        except OSError:
            continue
    return None


def _listening(port: int) -> list[str]:
    """Find the inodes of sockets that listen on a port, in the kernel's tables."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text("ascii").splitlines()[1:]]
        except OSError:
            continue
        found += [r[9] for r in rows if r[3] == "0A" and int(r[1].rpartition(":")[2], 16) == port]
    return found


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
