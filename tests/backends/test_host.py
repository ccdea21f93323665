"""Starting hosted libraries, and every way in which that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.hosted.host import Hosted, surroundings
from roost.backends.hosted.runtime import HostedRuntime
from roost.backends.libraries.toy import LIBRARY
from roost.backends.processes.huge_pages import with_huge_pages
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from roost.gateway.loop import run
from roost.testing.conformance import Subject
from tests.backends.subjects import MODEL, toy
from tests.children import living, seen
from tests.conftest import Eventually

EARLY_STEPS = 12
"""Of the event loop; by then it waits for the first word of its child."""


async def load_failure(subject: Subject, backend: Hosted | None = None) -> str:
    """Start what cannot start and give the message."""
    with pytest.raises(RoostError) as caught:
        await (backend or subject.backend).start(
            subject.key, subject.manifest, subject.settings, lambda _: None
        )
    assert caught.value.failure.reason == "load_failed"
    return caught.value.failure.message


async def test_a_missing_library_says_what_to_type(tmp_path: Path) -> None:
    """Nothing starts without the library; the command to type is in the message."""
    library = msgspec.structs.replace(LIBRARY, imports=("no_such_module",), extra="toy")
    message = await load_failure(toy(tmp_path), Hosted(library))
    assert message.startswith("Toy is not installed. Type: ")
    assert "[toy]" in message
    assert not (tmp_path / "runtime.log").exists()


@pytest.mark.slow
async def test_a_load_that_is_cancelled_at_any_step_leaves_nothing(tmp_path: Path) -> None:
    """Before its child is there, while it is being reached, and after that."""
    subject = toy(tmp_path)
    for steps in range(EARLY_STEPS):
        loading = asyncio.ensure_future(
            subject.backend.start(subject.key, subject.manifest, subject.settings, lambda _: None)
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        assert living(recursive=True) == [], f"cancelled after {steps} steps"


@pytest.mark.slow
def test_it_runs_on_the_loop_of_a_server(tmp_path: Path) -> None:
    """`roost serve` has another event loop than these tests, with transports of its own."""
    subject = toy(tmp_path)

    async def lives() -> None:
        runtime = await subject.backend.start(
            subject.key, subject.manifest, subject.settings, lambda _: None
        )
        await runtime.stop(5.0)

    run(lives())


@pytest.mark.slow
async def test_what_the_library_says_of_a_model_is_told(tmp_path: Path) -> None:
    """A file that is none of its models fails the load in the library's words, with no process."""
    assert await load_failure(toy(tmp_path, nonsense=1)) == "The model's file is no toy."
    assert living() == []


@pytest.mark.slow
async def test_an_adapter_that_cannot_be_imported_fails_the_load(tmp_path: Path) -> None:
    """A defect before the first word is told as such, and its traceback is in the log alone."""
    broken = msgspec.structs.replace(LIBRARY, loader="roost.backends.libraries.toy_engine:nothing")
    message = await load_failure(toy(tmp_path), Hosted(broken))
    assert message.endswith("it ended unexpectedly (status 70).")
    assert "AttributeError" in (tmp_path / "runtime.log").read_text()


@pytest.mark.slow
async def test_a_load_that_takes_too_long_leaves_no_process(tmp_path: Path) -> None:
    """The time for a start is kept, whatever the library is doing."""
    subject = toy(tmp_path, load_ms=60_000)
    settings = msgspec.structs.replace(subject.settings, start_timeout_s=0.3)
    slow = Subject(subject.backend, subject.key, subject.manifest, settings)
    assert await load_failure(slow) == "The model was not loaded within 0.3 s."
    assert living() == []


@pytest.mark.slow
async def test_a_start_that_nobody_waits_for_leaves_no_process(
    tmp_path: Path, eventually: Eventually
) -> None:
    """A cancelled start is over when its process is."""
    subject = toy(tmp_path, load_ms=60_000)
    async with asyncio.TaskGroup() as tasks:
        starting = tasks.create_task(
            subject.backend.start(subject.key, subject.manifest, subject.settings, lambda _: None)
        )
        await eventually((tmp_path / "runtime.log").exists)
        starting.cancel()
    assert living() == []


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.check=1", "glibc.malloc.check=1:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_huge_pages_are_asked_for_unless_an_operator_has_said_which(own: str, told: str) -> None:
    """Whatever else is tuned stays so."""
    environ = {"GLIBC_TUNABLES": own, "PATH": "/bin"} if own else {"PATH": "/bin"}
    assert with_huge_pages(environ) == {"GLIBC_TUNABLES": told}


def test_threads_wait_as_an_operator_has_said() -> None:
    """Or else without spinning."""
    assert surroundings({})["OMP_WAIT_POLICY"] == "PASSIVE"
    assert surroundings({"OMP_WAIT_POLICY": "ACTIVE"})["OMP_WAIT_POLICY"] == "ACTIVE"


@pytest.mark.slow
async def test_a_child_is_told_of_huge_pages(tmp_path: Path) -> None:
    """And keeps the rest of what a child is told."""
    subject = toy(tmp_path)
    runtime = await subject.backend.start(
        subject.key, subject.manifest, subject.settings, lambda _: None
    )
    assert isinstance(runtime, HostedRuntime)
    shim = psutil.Process(runtime.pid)
    (environ,) = seen(shim.children(), lambda child: child.environ())
    await runtime.stop(5.0)
    assert "glibc.malloc.hugetlb=" in environ["GLIBC_TUNABLES"]
    assert environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.slow
async def test_what_is_not_claimed_is_refused(tmp_path: Path) -> None:
    """A library without log probabilities never hears of a request for them."""
    claims = msgspec.structs.replace(LIBRARY.capabilities, logprobs=False)
    backend = Hosted(msgspec.structs.replace(LIBRARY, capabilities=claims))
    subject = toy(tmp_path)
    runtime = await backend.start(subject.key, subject.manifest, subject.settings, lambda _: None)
    request = GenerateRequest(MODEL, TextPrompt("x"), 1, sampling=Sampling(), top_logprobs=1)
    with pytest.raises(RoostError, match="no log probabilities") as caught:
        await runtime.prepare(request)
    assert caught.value.failure.reason == "unsupported"
    await runtime.stop(5.0)
