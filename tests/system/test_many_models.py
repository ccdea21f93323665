"""Several real models on one node: one load each, side by side, in turns, and to the end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest
from openai import APIError, APIStatusError, BadRequestError, OpenAI

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.children import runs, seen
from tests.gemma3 import gemma3_path
from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, fetch, gone, wait

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(240)]
Client = Callable[[str], OpenAI]
CHATS, COMPLETES, THIRD = "smollm2-135m-instruct", "gemma-3-270m", "third"
CALLERS = 100
QUEUE = ("--queue-length", str(CALLERS + 10), "--queue-wait-s", "150")
ENDLESS = {"ignore_eos": True}
SMALL = ("--slots", "2", "--ctx", "512", "--sessions-ram-bytes", "0")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a model that chats, one that completes, and a third with weights of its own."""
    folder = tmp_path_factory.mktemp("many")
    store = ModelStore(Home.open(folder / "home"))
    assert store.add_file(smollm2_path(), link=True).id == CHATS
    store.add_file(gemma3_path(), link=True)
    other = folder / f"{THIRD}.gguf"
    other.write_bytes(smollm2_path().read_bytes().replace(b"general.name", b"general.nama", 1))
    store.add_file(other, link=True)
    return folder


@contextmanager
def serving(models: Path, *arguments: str) -> Iterator[Roost]:
    """A `roost serve` over these models."""
    log = models / f"roost-{len(list(models.iterdir()))}.log"
    with Roost(log, "serve", "--port", "0", *SMALL, *arguments, home=models / "home") as roost:
        yield roost


def patient(client: OpenAI) -> OpenAI:
    """Let this client wait for loads on a machine that is busy."""
    return client.with_options(timeout=200)


def programs(roost: Roost) -> list[psutil.Process]:
    """The processes that run a model, without their shims."""
    told = seen(roost.descendants(), lambda one: (one, one.cmdline()))
    return [one for one, line in told if "roost.backends.llama.child" in line and _is_program(line)]


def _is_program(line: list[str]) -> bool:
    return not any(word.endswith("shim.py") for word in line)


def count(roost: Roost, event: str, model: str) -> int:
    """How often this was told of a model or its runtimes."""
    lines = (line for line in roost.output.splitlines() if f'"{event}"' in line)
    return sum(f'"{model}#' in line for line in lines)


def chat(client: OpenAI, model: str = CHATS) -> str:
    """Ask for one token; the reply's id says that there was one."""
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hello"}], max_tokens=1
    ).id


def complete(client: OpenAI, model: str = COMPLETES, prompt: str = "The sky is") -> str:
    """Go on with a text for one token; the reply's id says that there was one."""
    return client.completions.create(model=model, prompt=prompt, max_tokens=1).id


def held_back(roost: Roost, known: list[psutil.Process]) -> psutil.Process:
    """Wait for the program of the next load, and let it stand still."""
    wait(lambda: len(programs(roost)) > len(known), "a load has begun", 60.0)
    (program,) = [one for one in programs(roost) if one not in known]
    program.send_signal(signal.SIGSTOP)
    return program


def test_a_hundred_cold_callers_make_one_load_and_another_model_does_not_wait(
    models: Path, openai: Client
) -> None:
    """E11 and E12: while one load stands still for all who want it, another model is served."""
    with serving(models, *QUEUE) as roost, ThreadPoolExecutor(CALLERS) as pool:
        client = patient(openai(roost.url()))
        asked = [pool.submit(complete, client, CHATS, "a") for _ in range(CALLERS)]
        held = held_back(roost, [])
        assert complete(client)
        assert not any(one.done() for one in asked)
        held.send_signal(signal.SIGCONT)
        assert len({one.result(200) for one in asked}) == CALLERS
        with pytest.raises(BadRequestError, match="template"):
            chat(client, COMPLETES)
        loads = [count(roost, "runtime_loading", model) for model in (CHATS, COMPLETES)]
        assert loads == [1, 1]
        assert len(programs(roost)) == 2


def test_two_models_take_turns_in_one_place(models: Path, openai: Client) -> None:
    """A limit of one: each is served in its turn, by one process at a time."""
    with serving(models, "--max-runtimes", "1", "--runtime-min-resident-s", "0") as roost:
        client = patient(openai(roost.url()))
        first = chat(client)
        (before,) = programs(roost)
        assert complete(client)
        assert not runs(before)
        assert len(programs(roost)) == 1
        assert chat(client) != first
        assert len(programs(roost)) == 1
        loads = [count(roost, "runtime_loading", model) for model in (CHATS, COMPLETES)]
        assert loads == [2, 1]


def _waits(url: str) -> bool:
    """Whether a request waits, in the gateway or on the node, for the third model."""
    told = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))
    runtimes = [one for node in told["nodes"] for one in node["runtimes"]]
    there = [one for one in runtimes if one["model"] == THIRD and one["waiting"]]
    return bool(there or told["statistics"]["waiting"])


def test_a_shutdown_ends_what_runs_what_loads_and_what_waits(models: Path, openai: Client) -> None:
    """E16: after the grace nobody is served, all are told, and no process is left; 143.

    The load stands still, so it hears no TERM: it is killed after its own grace.
    """
    room = ("--max-runtimes", "2", "--drain-grace-s", "0.5", "--runtime-stop-grace-s", "0.5")
    with serving(models, *room, *QUEUE) as roost, ThreadPoolExecutor(3) as pool:
        client = patient(openai(roost.url()))
        chunks = iter(
            client.completions.create(
                model=CHATS, prompt="one two", max_tokens=400, stream=True, extra_body=ENDLESS
            )
        )
        next(chunks)
        blocked = pool.submit(complete, client)
        held_back(roost, programs(roost))
        queued = pool.submit(chat, client, THIRD)
        wait(lambda: _waits(roost.url()), "the third model waits for room", 60.0)
        active = pool.submit(lambda: "".join(chunk.choices[0].text for chunk in chunks))
        children = roost.descendants()
        assert len(programs(roost)) == 2
        roost.signal(signal.SIGTERM)
        errors = [one.exception(60) for one in (active, blocked, queued)]
        assert all(isinstance(error, APIError) for error in errors)
        for error in errors[1:]:
            assert isinstance(error, APIStatusError)
            assert error.status_code == 503
            assert "retry-after" in error.response.headers
        assert roost.ends(30) == 143
        assert gone(children)
        assert count(roost, "runtime_loading", THIRD) == 0
