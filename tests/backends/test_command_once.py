"""Programs that answer one request and end: what they are told, and what becomes of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime, SlotUse
from roost.core.card import Once
from roost.core.events import Delta, Failed, Finished, StreamEvent, Usage
from roost.core.presets import MLX_VLM
from roost.core.request import GenerateRequest, Sampling, TextPrompt, TokensPrompt
from roost.errors import RoostError
from roost.testing.conformance import Subject, examine, failed, table
from tests.backends.subjects import COUNTS, MODEL, OPTIONS, compiled, once, rewrite
from tests.children import living
from tests.conftest import until
from tests.recorded import differing


@pytest.mark.slow
async def test_the_example_keeps_every_promise(tmp_path: Path) -> None:
    """All that a process for each request can promise, with the program that the documents show."""
    results = await examine(once(tmp_path, options=OPTIONS, output=COUNTS))
    assert failed(results) == [], table(results)
    assert differing("command_once", results) == [], "python -m tests.record command_once"
    kept = {need for one in results if one.status == "kept" for need in one.case.needs}
    assert kept == {"chat", "completion", "streaming", "concurrent_streams", "cancel"}


async def started(subject: Subject) -> Runtime:
    """Start a subject that has no chats, and so no process until it is asked."""
    bare = msgspec.structs.replace(subject.manifest, chat_template=None)
    return await subject.backend.start(subject.key, bare, subject.settings, lambda _: None)


async def answered(runtime: Runtime, prompt: str, max_tokens: int = 8) -> list[StreamEvent]:
    """Ask and read to the end."""
    request = GenerateRequest(MODEL, TextPrompt(prompt), max_tokens)
    prepared = await runtime.prepare(request)
    async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        return [event async for event in events]


def files_of(subject: Subject) -> list[Path]:
    """List what runtimes have left."""
    return list(Path(subject.settings.workdir).iterdir())


async def run(subject: Subject, prompt: str, max_tokens: int = 8) -> list[StreamEvent]:
    """Start, ask, stop; nothing is left of it."""
    runtime = await started(subject)
    try:
        return await answered(runtime, prompt, max_tokens)
    finally:
        await runtime.stop(0.0)
        assert living() == []
        assert files_of(subject) == []


def python(text: str, *more: str) -> tuple[str, ...]:
    """Give the words that run this text with Python."""
    return (sys.executable, "-S", "-E", "-I", "-c", text, "{max_tokens}", *more)


async def test_the_command_for_models_that_see_is_told_its_words(tmp_path: Path) -> None:
    """Its prompt in one word with its flag, so that no prompt is taken for an option."""
    program = tmp_path / "mlx_vlm.generate"
    program.write_text(f"#!{sys.executable} -SEI\nimport sys\nprint(sys.argv[1:])\n")
    program.chmod(0o755)
    preset = msgspec.convert(MLX_VLM | {"ctx": 512}, Once)
    subject = once(tmp_path, str(program), *preset.argv[1:], preset="mlx-vlm", path="/models/m")
    runtime = await started(subject)
    sampling = Sampling(temperature=0.5, seed=7)
    request = GenerateRequest(MODEL, TextPrompt("--trust-remote-code"), 8, sampling=sampling)
    async with runtime.open(await runtime.prepare(request), SlotUse(0, reuse=False)) as events:
        *said, end = [event async for event in events]
    await runtime.stop(0.0)
    words = ["--model", "/models/m", "--max-tokens", "8", "--prompt=--trust-remote-code"]
    told = [*words, "--temperature", "0.5", "--seed", "7"]
    assert "".join(one.text for one in said if isinstance(one, Delta)) == f"{told}\n"
    assert isinstance(end, Finished)


SAY_ALL = "import sys, os; print(sys.argv[1:], sys.stdin.read(), end='')"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "['8'] $(id) | 'x'"),
        (("--prompt={prompt}",), "['8', \"--prompt=$(id) | 'x'\"] "),
        (("{path}", "{ctx}", "{threads}"), "['8', '/models/m', '1024', '0'] $(id) | 'x'"),
    ],
)
async def test_no_shell_reads_what_it_is_told(
    more: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Words arrive as they are, the prompt as its input or as a word."""
    events = await run(once(tmp_path, *python(SAY_ALL, *more), path="/models/m"), "$(id) | 'x'")
    assert "".join(one.text for one in events if isinstance(one, Delta)) == said


async def test_a_program_is_told_the_threads_of_a_part_of_a_machine(tmp_path: Path) -> None:
    """Where the key leaves their number open."""
    subject = once(tmp_path, *python(SAY_ALL, "{threads}"))
    subject = replace(subject, settings=msgspec.structs.replace(subject.settings, threads=3))
    events = await run(subject, "x")
    assert "".join(one.text for one in events if isinstance(one, Delta)) == "['8', '3'] x"


@pytest.mark.slow
async def test_a_compiled_program_reads_a_file(tmp_path: Path) -> None:
    """The example in C, where there is a compiler, with counts of its own."""
    if (program := compiled("once", tmp_path)) is None:
        return
    subject = once(tmp_path, program, "{prompt_file}", "{max_tokens}", output=COUNTS)
    events = await run(subject, "one two three ", 5)
    assert "".join(one.text for one in events if isinstance(one, Delta)) == "one two three one"
    assert events[-1] == Finished("length", Usage(4, 0, 5))


FAIL = "import sys; print('half', flush=True); print('my last words', file=sys.stderr); sys.exit(3)"


@pytest.mark.parametrize(
    ("text", "what", "card"),
    [
        (FAIL, "it ended with status 3", {}),
        ("import os; os.abort()", "signal 6 ended it", {}),
        ("while True: print('x' * 999)", "wrote more than 5000 bytes", {"output_max_bytes": 5000}),
        (
            "import time; print('x' * 99, flush=True); time.sleep(60)",
            "wrote more than 50 bytes",
            {"output_max_bytes": 50, "time_limit_s": 5},
        ),
        ("import time; time.sleep(60)", "did not end within 0.2 s", {"time_limit_s": 0.2}),
        (
            "import os, time; os.close(1); time.sleep(60)",
            "did not end within 0.2 s",
            {"time_limit_s": 0.2},
        ),
    ],
)
async def test_what_goes_wrong_is_told(
    text: str, what: str, card: dict[str, object], tmp_path: Path
) -> None:
    """Status, signal, time and size; what it said last is in the runtime's log, not in answers."""
    last = (await run(once(tmp_path, *python(text), **card), "hello"))[-1]
    assert isinstance(last, Failed)
    assert last.failure.reason == "runtime_error"
    assert what in last.failure.message
    assert "my last words" not in last.failure.message
    if text == FAIL:
        log = (tmp_path / "runtime.log").read_text()
        assert log == "my last words\nthe program ended with status 3\n"


FORKS = """\
import os, sys, time
if os.fork() == 0:
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


async def test_leaving_ends_all_of_its_processes(tmp_path: Path) -> None:
    """Also those that the program has started itself, before the block is left."""
    runtime = await started(once(tmp_path, *python(FORKS)))
    prepared = await runtime.prepare(GenerateRequest(MODEL, TextPrompt("x"), 8))
    async with runtime.open(prepared, SlotUse(1, reuse=False)) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
        await until(lambda: len(living(recursive=True)) == 3)
        assert ((await runtime.telemetry()).rss_bytes or 0) > 0
    assert living(recursive=True) == []
    await runtime.stop(0.0)


async def test_a_process_that_holds_the_output_holds_nobody_up(tmp_path: Path) -> None:
    """One that has left the group may keep the pipe open; the answer ends all the same."""
    text = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid(); time.sleep(4); os._exit(0)\nprint('done')"
    )
    events = await run(once(tmp_path, *python(text)), "x")
    assert events[-1] == Finished("stop", Usage(0, 0, 2))


async def refused(subject: Subject) -> str:
    """Start what cannot start and give the message."""
    with pytest.raises(RoostError) as caught:
        await started(subject)
    assert caught.value.failure.reason == "load_failed"
    return caught.value.failure.message


async def test_what_cannot_be_run_fails_the_load(tmp_path: Path) -> None:
    """No such program, or a card for others."""
    wrong = once(tmp_path, "/no/such/program", "{max_tokens}")
    assert await refused(wrong) == "The card's argv names no program that may be run here."
    rewrite(wrong, 'backend = "command"\nargv = ["x"]\nctx = 9')
    assert "for another backend" in await refused(wrong)


async def test_token_ids_are_refused(tmp_path: Path) -> None:
    """A program that is given text knows none, and a model without a template has no chats."""
    runtime = await started(once(tmp_path, *python("pass")))
    with pytest.raises(RoostError, match="Token ids mean nothing"):
        await runtime.prepare(GenerateRequest(MODEL, TokensPrompt((1, 2)), 8))
    await runtime.stop(0.0)
