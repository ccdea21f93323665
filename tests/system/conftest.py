"""SHELL: a ROOST_HOME with a tiny model, and `roost` processes over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anthropic import Anthropic
from openai import OpenAI

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.patience import PATIENCE_S
from tests.store.gguf_writer import Typed, tiny
from tests.system.processes import Roost

MODEL = "tiny"
Start = Callable[..., Roost]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ROOST_HOME in which the model `tiny` is installed; only `scripted` can run it."""
    return home_in(tmp_path)


def home_in(folder: Path) -> Path:
    """Make such a home in a folder."""
    root, source = folder / "home", folder / "tiny.gguf"
    source.write_bytes(tiny(**{"llama.context_length": Typed("u32", 65_536)}))
    ModelStore(Home.open(root)).add_file(source, link=False)
    return root


@pytest.fixture
def start(tmp_path: Path, home: Path) -> Iterator[Start]:
    """Start `roost` with these arguments over the home; everything is ended with the test."""
    count = 0
    with ExitStack() as running:

        def start_one(*arguments: str) -> Roost:
            nonlocal count
            count += 1
            log = tmp_path / f"roost-{count}.log"
            return running.enter_context(Roost(log, *arguments, home=home))

        yield start_one


@pytest.fixture
def openai() -> Iterator[Callable[[str], OpenAI]]:
    """Make the official client for an address; without retries, so that errors show."""
    with ExitStack() as clients:
        yield lambda url: clients.enter_context(
            OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)
        )


@pytest.fixture
def anthropic() -> Iterator[Callable[[str], Anthropic]]:
    """Make the official client of the other API for an address; without retries either."""
    with ExitStack() as clients:
        yield lambda url: clients.enter_context(
            Anthropic(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S)
        )
