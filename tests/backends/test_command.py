"""Foreign runners: the documented example keeps every promise, and those that break it are told."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.testing.conformance import Subject, examine, failed, table
from tests.backends.subjects import compiled, rewrite, runner
from tests.children import children, living
from tests.recorded import differing

CLAIMED = ("concurrent_streams", "cancel", "exact_token_count", "replay")
HELLO = json.dumps({"type": "hello", "version": 1})


@pytest.mark.slow
async def test_the_example_keeps_every_promise(tmp_path: Path) -> None:
    """All that the protocol demands of a runner, with the program that the documents show."""
    results = await examine(runner(tmp_path))
    assert failed(results) == [], table(results)
    assert {one.status for one in results} == {"kept", "not claimed"}, table(results)
    assert differing("command", results) == [], "python -m tests.record command"
    kept = {need for one in results if one.status == "kept" for need in one.case.needs}
    assert kept == {"chat", "completion", "streaming", *CLAIMED}


@pytest.mark.slow
async def test_one_in_another_language_keeps_them_too(tmp_path: Path) -> None:
    """The example in C, where there is a compiler."""
    if (program := compiled("runner", tmp_path)) is None:
        return
    results = await examine(runner(tmp_path, program, "1000"))
    assert failed(results) == [], table(results)
    kept = {need for one in results if one.status == "kept" for need in one.case.needs}
    assert kept == {"chat", "completion", "streaming", *CLAIMED}


async def load_failure(subject: Subject) -> str:
    """Start what cannot start, and give the message; no process is left."""
    with pytest.raises(RoostError) as caught:
        await subject.backend.start(subject.key, subject.manifest, subject.settings, lambda _: None)
    assert caught.value.failure.reason == "load_failed"
    assert living() == []
    return caught.value.failure.message


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("this is no JSON", "it broke the protocol"),
        ('{"type": "hello", "version": 2}', "it speaks version 2 of the protocol, and not 1"),
        (f'{HELLO}\n{{"type": "broken", "message": "No phi here."}}', "No phi here."),
        (f'{HELLO}\n{{"type": "loaded", "ctx": 0, "vocab_size": 9}}', "without a context"),
        (
            f'{HELLO}\n{{"type": "loaded", "ctx": 9, "vocab_size": 9, "bos": [9]}}',
            "none of its tokens",
        ),
        (HELLO, "it ended unexpectedly"),
    ],
)
async def test_a_runner_that_does_not_begin_well_is_told(
    said: str, what: str, tmp_path: Path
) -> None:
    """Whatever it says in the place of a loaded model is the reason, and it is gone."""
    program = f"import sys; print({said!r}, flush=True); sys.stdin.read(20)"
    message = await load_failure(runner(tmp_path, sys.executable, "-S", "-c", program))
    assert what in message


async def test_the_last_words_of_a_runner_are_not_overtaken_by_its_end(tmp_path: Path) -> None:
    """It says what it lacks and is gone, both before this process has come to listen."""
    said = f'{HELLO}\n{{"type": "broken", "message": "No phi here."}}'
    program = runner(tmp_path, sys.executable, "-S", "-c", f"print({said!r})")
    failing = asyncio.create_task(load_failure(program))
    await asyncio.sleep(0)
    (shim,) = children()
    os.waitid(os.P_PID, shim.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop is to stand
    assert "No phi here." in await failing


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The reason is in the log, and no traceback anywhere."""
    message = await load_failure(runner(tmp_path, "/no/such/program"))
    assert "it ended unexpectedly" in message
    log = (tmp_path / "runtime.log").read_text()
    assert log == "the program cannot be started: No such file or directory\n"


async def test_a_card_that_is_gone_or_for_others_is_told(tmp_path: Path) -> None:
    """It is read again at every start."""
    subject = runner(tmp_path)
    rewrite(subject, 'backend = "openai_http"\nurl = "http://x"\nctx = 9')
    assert "for another backend" in await load_failure(subject)
    rewrite(subject, "nonsense")
    assert "cannot be read" in await load_failure(subject)
