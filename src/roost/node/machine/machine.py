"""SHELL: what this machine is, as its system tells: processor, memory, containers' limits.

Everything is read below a `root`, so that tests can show it any machine. What cannot be read is
None: another system, or a container that hides it.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from roost.core.machine import Cores, HugePages, Limits, Memory, Processor

ROOT = Path("/")
READ_MAX_BYTES = 1_048_576
"""Of a file of the system; a machine of a thousand cores says less about itself."""

_NO_LIMIT_BYTES = 2**60
"""A container's memory limit that is larger than any machine is none."""

_FEATURES = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni"),
    *("amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)


def processor(root: Path = ROOT) -> Processor:
    """Look at the processor."""
    text = _read(root / "proc/cpuinfo")
    cores = os.cpu_count() or 1
    affinity = getattr(os, "sched_getaffinity", None)
    usable = affinity(0) if affinity else frozenset(range(cores))
    flags = set((_first(text, "flags") or _first(text, "Features") or "").split())
    return Processor(
        model=_first(text, "model name") or _first(text, "Model"),
        cores=cores,
        usable=len(usable),
        physical=_physical(text, usable),
        quota=_quota(root),
        features=tuple(name for name in _FEATURES if name in flags),
    )


def cores(root: Path = ROOT) -> Cores:
    """Look at the cores: x86 tells which are of a smaller kind, ARM how much each of them does."""
    affinity = getattr(os, "sched_getaffinity", None)
    ids = tuple(sorted(affinity(0))) if affinity else ()
    capacities = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpu_capacity")
    small = (root / "sys/devices/cpu_atom").exists()
    return Cores(ids, alike=not small and len(set(map(_read, capacities))) <= 1)


def memory(root: Path = ROOT) -> Memory:
    """Look at the memory."""
    text = _read(root / "proc/meminfo")
    limit = _group_number(root, "memory", "memory.max", "memory.limit_in_bytes")
    if limit is not None and limit >= _NO_LIMIT_BYTES:
        limit = None
    used = None
    if limit is not None:
        used = _group_number(root, "memory", "memory.current", "memory.usage_in_bytes")
    return Memory(
        total_bytes=_kilobytes(text, "MemTotal") or _total_bytes(),
        available_bytes=_kilobytes(text, "MemAvailable"),
        free_bytes=_kilobytes(text, "MemFree"),
        limit_bytes=limit,
        used_bytes=used,
        swap_total_bytes=_kilobytes(text, "SwapTotal"),
        swap_free_bytes=_kilobytes(text, "SwapFree"),
    )


def huge_pages(root: Path = ROOT) -> HugePages:
    """Look at large pages."""
    mode = re.search(r"\[(\w+)\]", _read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    text = _read(root / "proc/meminfo")
    reserved = _first(text, "HugePages_Total")
    return HugePages(
        mode=mode[1] if mode else None,
        page_bytes=_kilobytes(text, "Hugepagesize"),
        reserved=int(reserved) if reserved and reserved.isdecimal() else None,
    )


def glibc() -> tuple[int, ...] | None:
    """Give the version of the C library, if it is GNU's."""
    name, version = platform.libc_ver()
    words = version.split(".")
    return tuple(map(int, words)) if name == "glibc" and all(map(str.isdecimal, words)) else None


def limits() -> Limits:
    """Look at what this process may have at once."""
    import resource

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes = getattr(resource, "RLIMIT_NPROC", None)
    mine = resource.getrlimit(processes)[0] if processes is not None else resource.RLIM_INFINITY

    def known(value: int) -> int | None:
        return None if value == resource.RLIM_INFINITY else value

    return Limits(known(files), known(most), known(mine))


def _read(path: Path) -> str:
    """Read what a file of the system says; "" where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(READ_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _first(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:[ \t]*(.*)$", text, re.MULTILINE)
    return found[1].strip() or None if found else None


def _kilobytes(text: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _total_bytes() -> int | None:
    """Ask the C library, where there is no table to read."""
    with suppress(OSError, ValueError):
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return size if size > 0 else None
    return None


def _physical(text: str, usable: frozenset[int] | set[int]) -> int | None:
    """Count the cores behind the ones that may be used; None where the table does not tell."""
    places = set()
    for block in text.split("\n\n"):
        number, core = _first(block, "processor"), _first(block, "core id")
        if number is None:
            continue
        if core is None:
            return None
        if number.isdecimal() and int(number) in usable:
            places.add((_first(block, "physical id"), core))
    return len(places) or None


def _quota(root: Path) -> float | None:
    """Say how many cores' time the container has, None where it is not limited."""
    least = None
    for folder in _groups(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
        if not quota:
            quota = _read(folder / "cpu.cfs_quota_us").strip()
            period = _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(period):
            share = int(quota) / int(period)
            least = share if least is None else min(least, share)
    return least


def _group_number(root: Path, controller: str, new: str, old: str) -> int | None:
    """Find the least of a number that a container, or one around it, says."""
    found = None
    for folder in _groups(root, controller):
        text = (_read(folder / new) or _read(folder / old)).strip()
        if text.isdecimal():
            found = int(text) if found is None else min(found, int(text))
    return found


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """List the folders of the control groups this process is in, innermost first."""
    top = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            base = top
        elif controller in names.split(","):
            base = top / controller
        else:
            continue
        inner = base / path.lstrip("/")
        # Inside a container the path may be the host's, which is not there: the base always is.
        for folder in (inner, *inner.parents):
            if folder == top.parent or not folder.is_relative_to(base):
                break
            yield folder
