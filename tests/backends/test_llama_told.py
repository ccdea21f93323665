"""What a server of llama.cpp is told of the machine: where weights lie, and how threads work."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.llama.server import LlamaServer
from roost.core.engine import Engine
from roost.core.model import RuntimeKey
from tests.backends.subjects import FAKE, fake_manifest, key_of, settings_in

pytestmark = pytest.mark.slow


PLAIN = key_of("llama_server", ctx=1024, batch=64)


def key_with(**options: object) -> RuntimeKey:
    """Give a key with these options beside the usual ones."""
    return msgspec.structs.replace(PLAIN, options=msgspec.structs.replace(PLAIN.options, **options))


@asynccontextmanager
async def program(
    folder: Path, key: RuntimeKey = PLAIN, size_bytes: int = 1000, **limits: object
) -> AsyncIterator[psutil.Process]:
    """Give the program of a runtime, which is stopped in the end."""
    manifest = msgspec.structs.replace(fake_manifest(folder), size_bytes=size_bytes)
    settings = msgspec.structs.replace(settings_in(folder, 0.4), **limits)
    runtime = await LlamaServer(str(FAKE)).start(key, manifest, settings, lambda _part: None)
    try:
        (found,) = psutil.Process(runtime.pid).children()
        yield found
    finally:
        await runtime.stop(2.0)


async def test_weights_are_copied_where_there_is_room_and_nobody_has_said_more(
    tmp_path: Path,
) -> None:
    """Up to the size that the node allows; never against a setting, nor under a limit of memory."""
    for key, size_bytes, memory_max_bytes, copies in (
        (PLAIN, 1000, 0, True),
        (PLAIN, 1001, 0, False),
        (PLAIN, 1000, 1 << 40, False),
        (key_with(engine=Engine(mmap="on")), 1000, 0, False),
    ):
        limits = {"copy_max_bytes": 1000, "memory_max_bytes": memory_max_bytes}
        async with program(tmp_path, key, size_bytes, **limits) as found:
            line = found.cmdline()
        assert ("--no-mmap" in line) is copies
        assert int(line[line.index("--threads-http") + 1]) > 2 * key.options.slots


@pytest.mark.parametrize(
    ("threads", "threads_batch", "cores", "told"),
    [
        (0, 0, (0, 2), ("2", "5")),
        (2, 2, (0, 2), ("2", "5")),
        (1, 0, (0, 2), ("1", None)),
        (2, 4, (0, 2), ("2", None)),
        (3, 0, (), ("3", None)),
        (0, 0, (), (None, None)),
    ],
)
async def test_threads_stay_on_cores_where_there_is_one_for_each(
    tmp_path: Path,
    threads: int,
    threads_batch: int,
    cores: tuple[int, ...],
    told: tuple[str | None, str | None],
) -> None:
    """In decode and in prefill; otherwise the system has a choice, and makes it."""
    key = key_with(threads=threads, engine=Engine(threads_batch=threads_batch))
    async with program(tmp_path, key, cores=cores) as found:
        given = dict(pairwise(found.cmdline()))
    assert (given.get("--threads"), given.get("--cpu-mask")) == told


@pytest.mark.parametrize(("chosen", "told"), [(0, "5"), (3, "3")])
async def test_a_part_of_a_machine_has_its_number_of_threads(
    tmp_path: Path, chosen: int, told: str
) -> None:
    """Unless the key says how many."""
    async with program(tmp_path, key_with(threads=chosen), threads=5) as found:
        assert dict(pairwise(found.cmdline()))["--threads"] == told


@pytest.mark.parametrize(
    ("own", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
async def test_threads_look_for_each_other_briefly_unless_an_operator_has_said_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], spins: str | None
) -> None:
    """A server is told so, and that it should allocate in huge pages."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    async with program(tmp_path) as found:
        told = found.environ()
    assert told.get("GOMP_SPINCOUNT") == spins
    assert told.get("OMP_WAIT_POLICY") == own.get("OMP_WAIT_POLICY")
    assert told["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert told["HF_HUB_OFFLINE"] == "1"
