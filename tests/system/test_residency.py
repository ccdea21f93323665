"""A real model by hand: loaded, shown, refused to go under a request, gone when idle, measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from roost.cli import main
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.children import seen
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, wait

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(180)]
Client = Callable[[str], OpenAI]
Typed = Callable[..., tuple[int, str]]
MODEL, ALIAS = "smollm2-135m-instruct", "small"
SHAPE = ("--slots", "2", "--ctx", "512")
KEEP_S = 4
CLOSE = 0.05
"""How far an estimate may be from what a process takes, once such a one has run."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Roost]:
    """A `roost serve` that keeps idle models for a few seconds."""
    home = tmp_path / "home"
    ModelStore(Home.open(home)).add_file(smollm2_path(), link=True)
    names = ("--aliases", f"{ALIAS}={MODEL}")
    arguments = ("serve", "--port", "0", *SHAPE, *names, "--runtime-keep-alive-s", str(KEEP_S))
    with Roost(tmp_path / "roost.log", *arguments, home=home) as roost:
        roost.wait_for("runtime_ready")
        yield roost


@pytest.fixture
def typed(served: Roost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a verb of `roost`: its status, and all that it says."""

    def run(*words: str) -> tuple[int, str]:
        served.url()
        capsys.readouterr()
        code = main.run([words[0], "--home", str(tmp_path / "home"), *words[1:]])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def programs(roost: Roost) -> list[psutil.Process]:
    """The processes that run a model, without their shims."""
    told = seen(roost.descendants(), lambda one: (one, one.cmdline()))
    lines = ((one, line) for one, line in told if "roost.backends.llama.child" in line)
    return [one for one, line in lines if not any(word.endswith("shim.py") for word in line)]


def test_a_model_is_loaded_kept_and_let_go_by_hand_and_by_time(
    served: Roost, typed: Typed, openai: Client
) -> None:
    """What the verbs say is what the processes do."""
    assert typed("models", "pin", MODEL)[0] == 0
    code, said = typed("models", "load", ALIAS)
    assert (code, said.splitlines()[-1].endswith("is loaded")) == (0, True)
    assert "ready, pinned, idle" in typed("models")[1]
    code, said = typed("models", "unload", MODEL)
    assert (code, "pinned" in said) == (1, True)
    assert typed("models", "unpin", MODEL)[0] == 0
    wait(lambda: not programs(served), "nobody uses it, so it goes", 30.0)
    wait(lambda: f"{MODEL} (" not in typed("fleet")[1], "nor is it shown any more")

    # The next request has it loaded again, and it stays as long as that runs.
    client = openai(served.url()).with_options(timeout=60)
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count."}]
    endless = client.chat.completions.create(
        model=MODEL,
        messages=messages,
        max_tokens=480,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(chunk for chunk in endless if chunk.choices and chunk.choices[0].delta.content)
    code, said = typed("models", "unload", MODEL)
    assert (code, "1 request runs" in said) == (1, True)
    (program,) = programs(served)

    # What it takes was measured when it ran before.
    expected_bytes = json.loads(typed("estimate", MODEL, *SHAPE, "--json")[1])["expected_bytes"]
    taken_bytes = program.memory_info().rss
    assert abs(expected_bytes - taken_bytes) <= CLOSE * taken_bytes
    endless.close()
    code, said = typed("models", "unload", MODEL, "--wait", "20")
    assert (code, said.splitlines()[0].endswith("is unloaded")) == (0, True)
    wait(lambda: not programs(served), "it is gone when that is said", 2.0)
