"""`roost run` against a gateway: one question, its answer, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from roost.cli import main
from roost.core.events import Delta, Failed, Started
from roost.core.request import ChatPrompt
from roost.errors import Failure
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import Stage, staged
from tests.gateway.puppet import MODEL, Puppet


@pytest.fixture
async def run(stage: Stage, tmp_path: Path) -> Callable[..., asyncio.Future[int]]:
    """Run the verb against the stage in a thread of its own; give its exit code."""
    home, url = str(tmp_path), f"http://127.0.0.1:{stage.port}"

    def started(*arguments: str) -> asyncio.Future[int]:
        words = ["run", "--home", home, "--url", url, *arguments]
        return asyncio.get_running_loop().run_in_executor(None, partial(code_of, words))

    return started


def code_of(words: list[str]) -> int:
    """The exit code, also where the command line is wrong."""
    try:
        return main.run(words)
    except SystemExit as error:
        return int(cast("int", error.code))


async def answering(stage: Stage, *pieces: str) -> Puppet:
    """A node that answers everything like this."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, *pieces)
    await stage.ready()
    return node


def said(opened: Open) -> list[tuple[str, str]]:
    """What a node was asked."""
    prompt = opened.request.prompt
    assert isinstance(prompt, ChatPrompt)
    return [(message.role, message.content) for message in prompt.messages]


async def test_a_question_is_answered_on_standard_output(
    stage: Stage,
    run: Callable[..., asyncio.Future[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The text alone, ended by a line feed; what it took is told to whoever asks."""
    node = await answering(stage, "Hel", "lo\x1b[2J")
    asked = ("--system", "Be brief.", "--max-tokens", "9", "--temperature", "0", "--seed", "7")
    assert await run(MODEL, "What", "is it?", *asked, "--verbose") == 0
    told = capsys.readouterr()
    assert told.out == "Hello\ufffd[2J\n"
    assert "tokens of prompt, 2 of answer, ended by stop" in told.err
    (opened,) = node.opened
    assert said(opened) == [("system", "Be brief."), ("user", "What is it?")]
    request = opened.request
    assert (request.max_tokens, request.sampling.temperature, request.sampling.seed) == (9, 0.0, 7)


async def test_a_request_of_ones_own_is_sent_as_it_is(
    stage: Stage,
    run: Callable[..., asyncio.Future[int]],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """From a file; the command line wins, and --json is the gateway's whole reply."""
    node = await answering(stage, "yes")
    file = tmp_path / "request.json"
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    messages.append({"role": "user", "content": "c"})
    file.write_text(json.dumps({"model": "other", "messages": messages, "max_tokens": 3}))
    assert await run(MODEL, "--request", str(file), "--max-tokens", "5", "--json") == 0
    reply = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert reply["choices"][0]["message"]["content"] == "yes"
    assert said(node.opened[0])[1:] == [("assistant", "b"), ("user", "c")]
    assert node.opened[0].request.max_tokens == 5


async def test_what_fails_says_why_and_is_1(
    stage: Stage,
    run: Callable[..., asyncio.Future[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unknown model, and an answer that is cut in its middle: what was said stays said."""
    node = stage.add_node()
    await stage.ready()

    def cut(opened: Open) -> None:
        node.say(opened.stream, Started(5, 0, 0), Delta("so far"))
        node.say(opened.stream, Failed(Failure("runtime_died", "The runtime has ended.")))
        node.release(opened.stream)

    node.on_open = cut
    assert await run("nobody", "hi") == 1
    assert "roost run: " in capsys.readouterr().err
    assert await run(MODEL, "hi") == 1
    told = capsys.readouterr()
    assert told.out == "so far\n"
    assert "roost run: " in told.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "MODEL is missing"),
        (("m", "--temperature", "hot", "hi"), "invalid float value"),
        (("m", "hi", "--request", "x.json"), "leave out PROMPT"),
        (("m", "--request", "no-such-file"), "the file cannot be read"),
        (("m", "   "), "There is no PROMPT"),
    ],
)
async def test_what_cannot_be_asked_is_2(
    run: Callable[..., asyncio.Future[int]],
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    """Before anybody is asked anything."""
    assert await run(*arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[1]", "{", '{"messages": []}'])
async def test_a_request_that_is_none_is_2(
    run: Callable[..., asyncio.Future[int]],
    tmp_path: Path,
    text: str,
) -> None:
    """No JSON, no object, no model."""
    file = tmp_path / "request.json"
    file.write_text(text)
    assert await run("--request", str(file)) == 2


async def test_what_comes_on_standard_input_is_the_question(tmp_path: Path) -> None:
    """As in a pipe; a process of its own, whose client that leaves stops the model."""
    async with staged() as stage:
        node = await answering(stage, "ok")
        words = ["-m", "roost", "run", "--home", str(tmp_path)]
        words += [MODEL, "--url", f"http://127.0.0.1:{stage.port}"]
        made = await asyncio.create_subprocess_exec(
            *(sys.executable, *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await made.communicate("Wie groß?\n".encode())
        assert (made.returncode, out) == (0, b"ok\n")
        assert said(node.opened[0]) == [("user", "Wie groß?\n")]
        await until(lambda: not stage.gateway.mind.turns, what="it is over")


async def test_who_reads_no_further_has_had_enough(stage: Stage, tmp_path: Path) -> None:
    """A pipe whose reader is gone ends it as it ends `cat`: in silence, and nothing has failed."""
    await answering(stage, "Hel", "lo")
    reading, writing = os.pipe()
    os.close(reading)
    url = f"http://127.0.0.1:{stage.port}"
    words = ("-m", "roost", "run", "--home", str(tmp_path), "--url", url, MODEL, "hi")
    ran = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=writing, stderr=asyncio.subprocess.PIPE
    )
    os.close(writing)
    _, errors = await ran.communicate()
    assert (ran.returncode, errors) == (0, b"")
