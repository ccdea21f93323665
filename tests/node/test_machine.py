"""What is said of machines of all kinds, shown as the files of their systems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.machine import HugePages, Memory, Processor
from roost.node.machine import machine

BLOCK = """\
processor	: {n}
model name	: Some CPU
physical id	: {socket}
core id		: {core}
flags		: fpu avx avx2 avx512f rdrand
"""
MEMINFO = """\
MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    400 kB
SwapTotal:        50 kB
SwapFree:         20 kB
HugePages_Total:       3
Hugepagesize:       2048 kB
"""
GIB = 2**30


def shown(root: Path, files: dict[str, str]) -> Path:
    """Write the files of a system below a root of its own."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_processor_is_read_from_its_table(tmp_path: Path) -> None:
    """Two threads on one core are one physical core; only features that matter are named."""
    mine = sorted(os.sched_getaffinity(0))
    blocks = [BLOCK.format(n=n, socket=0, core=0) for n in mine]
    seen = machine.processor(shown(tmp_path, {"proc/cpuinfo": "\n".join(blocks)}))
    assert (seen.model, seen.features) == ("Some CPU", ("avx", "avx2", "avx512f"))
    assert (seen.usable, seen.physical, seen.threads) == (len(mine), 1, 1)


def test_a_table_without_cores_leaves_them_unknown(tmp_path: Path) -> None:
    """Arm's tables have features under another name and no core ids."""
    text = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n\nprocessor\t: 1\n"
    seen = machine.processor(shown(tmp_path, {"proc/cpuinfo": text}))
    assert (seen.model, seen.physical) == (None, None)
    assert seen.features == ("asimd", "asimddp", "i8mm")
    assert seen.threads == seen.usable


@pytest.mark.parametrize(
    ("processor", "threads"),
    [
        (Processor(None, 8, 8, physical=4), 4),
        (Processor(None, 8, 2, physical=2), 2),
        (Processor(None, 8, 8), 8),
        (Processor(None, 8, 8, physical=4, quota=2.5), 2),
        (Processor(None, 8, 8, quota=0.5), 1),
    ],
)
def test_threads_are_cores_that_may_be_used(processor: Processor, threads: int) -> None:
    """Neither a second thread of a core nor time that the container does not have."""
    assert processor.threads == threads


NEW = "0::/box/inner\n"
OLD = "4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "quota", "limit"),
    [
        (NEW, {}, None, None),
        (
            NEW,
            {"box/inner/cpu.max": "max 100000", "box/inner/memory.max": "max"},
            None,
            None,
        ),
        (
            NEW,
            {
                "box/inner/cpu.max": "150000 100000",
                "box/cpu.max": "400000 100000",
                "box/inner/memory.max": str(4 * GIB),
                "box/memory.max": str(2 * GIB),
            },
            1.5,
            2 * GIB,
        ),
        # A container that shows its own group as the root of all.
        (NEW, {"cpu.max": "50000 100000", "memory.max": str(GIB)}, 0.5, GIB),
        (
            OLD,
            {
                "cpu/box/cpu.cfs_quota_us": "200000",
                "cpu/box/cpu.cfs_period_us": "100000",
                "memory/box/memory.limit_in_bytes": str(GIB),
            },
            2.0,
            GIB,
        ),
        (
            OLD,
            {"cpu/box/cpu.cfs_quota_us": "-1", "cpu/box/cpu.cfs_period_us": "100000"},
            None,
            None,
        ),
        (OLD, {"memory/box/memory.limit_in_bytes": str(2**63 - 4096)}, None, None),
    ],
)
def test_the_tightest_limit_of_a_container_counts(
    groups: str, files: dict[str, str], quota: float | None, limit: int | None, tmp_path: Path
) -> None:
    """Of the group itself or of one around it, in both versions of control groups."""
    system = {"proc/self/cgroup": groups}
    system |= {f"sys/fs/cgroup/{name}": text + "\n" for name, text in files.items()}
    root = shown(tmp_path, system)
    assert machine.processor(root).quota == quota
    assert machine.memory(root).limit_bytes == limit


def test_memory_is_what_the_machine_and_the_container_leave(tmp_path: Path) -> None:
    """The smaller of what is there and what is allowed, now and at most."""
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n"}
    free = machine.memory(shown(tmp_path, files))
    assert free == Memory(1_024_000, 409_600, 102_400, None, None, 51_200, 20_480)
    assert (free.capacity_bytes, free.room_bytes) == (1_024_000, 409_600)
    files |= {"sys/fs/cgroup/memory.max": "500000\n", "sys/fs/cgroup/memory.current": "300000\n"}
    tight = machine.memory(shown(tmp_path, files))
    assert (tight.capacity_bytes, tight.room_bytes) == (500_000, 200_000)
    pages = {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"}
    assert machine.huge_pages(shown(tmp_path, pages)) == HugePages("madvise", 2_097_152, 3)


def test_a_system_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    """No file, no figure; the C library may still know the memory there is."""
    seen = machine.memory(tmp_path)
    assert (seen.available_bytes, seen.limit_bytes, seen.room_bytes) == (None, None, None)
    assert machine.huge_pages(tmp_path) == HugePages()
    assert machine.processor(tmp_path).model is None


@settings(max_examples=25)
@given(st.text(max_size=300), st.text(max_size=60), st.text(max_size=30))
def test_nonsense_is_unknown_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, table: str, groups: str, number: str
) -> None:
    """Whatever such files hold, it is a figure or none."""
    root = tmp_path_factory.mktemp("system")
    files = {"proc/cpuinfo": table, "proc/meminfo": table, "proc/self/cgroup": groups}
    for name in ("cpu.max", "memory.max", "memory.current"):
        files[f"sys/fs/cgroup/{name}"] = number
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", "replace")
    assert machine.processor(root).threads >= 1
    machine.memory(root)
    machine.huge_pages(root)


def test_this_machine_has_limits_and_memory() -> None:
    """The real files are there, and are understood."""
    seen, limits = machine.memory(), machine.limits()
    assert seen.total_bytes is not None
    assert seen.room_bytes is not None
    assert 0 < seen.room_bytes <= seen.total_bytes
    assert limits.open_files is None or limits.open_files > 0


def test_cores_of_two_kinds_are_not_alike(tmp_path: Path) -> None:
    """As x86 and ARM tell of them; who tells nothing has one kind."""
    cpus = tmp_path / "sys/devices/system/cpu"
    for number, capacity in enumerate(("1024", "1024", "446")):
        assert machine.cores(tmp_path).alike
        (cpus / f"cpu{number}").mkdir(parents=True)
        (cpus / f"cpu{number}/cpu_capacity").write_text(f"{capacity}\n")
    assert not machine.cores(tmp_path).alike
    (tmp_path / "other/sys/devices/cpu_atom").mkdir(parents=True)
    assert not machine.cores(tmp_path / "other").alike


def test_cores_are_those_that_this_process_may_use() -> None:
    """By number, in order, where the system tells."""
    affinity = getattr(os, "sched_getaffinity", lambda _: frozenset[int]())
    assert machine.cores().ids == tuple(sorted(affinity(0)))
