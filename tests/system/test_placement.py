"""Two models and two machines with room for one each, as real processes: who loads what, when."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from openai import OpenAI

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, tiny
from tests.system.conftest import MODEL, Start
from tests.system.processes import Roost, fetch, wait

OTHER = "second"
Client = Callable[[str], OpenAI]


@pytest.fixture
def two_models(home: Path, tmp_path: Path) -> None:
    """The home has one more model."""
    source = tmp_path / f"{OTHER}.gguf"
    source.write_bytes(tiny(**{"llama.context_length": Typed("u32", 4096)}))
    ModelStore(Home.open(home)).add_file(source, link=False)


def alive(url: str) -> int:
    """Count the nodes that are alive and have said what they have."""
    nodes = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))["nodes"]
    return sum(node["state"] == "alive" and bool(node["models"]) for node in nodes)


def loads(*nodes: Roost) -> int:
    """Count the loads that these nodes have begun."""
    return sum(node.output.count("runtime_loading") for node in nodes)


@pytest.mark.usefixtures("two_models")
def test_each_model_stays_on_its_machine(start: Start, openai: Client) -> None:
    """Requests alternate between two models, and nothing is loaded twice until one is lost."""
    gateway = start("gateway", "--port", "0")
    url = gateway.url()
    token = start("token", "--json")
    assert token.ends() == 0
    join = ("node", "--join", url, "--token", json.loads(token.output)["token"])
    nodes = [start(*join, "--backend", "scripted", "--max-runtimes", "1") for _ in range(2)]
    wait(lambda: alive(url) == 2, "both have joined")
    client = openai(url)

    def served_by(model: str) -> str:
        message = {"role": "user", "content": "hello"}
        reply = client.with_raw_response.chat.completions.create(
            model=model,
            messages=[message],  # type: ignore[list-item]
        )
        return str(reply.headers["x-roost-node"])

    homes = {model: served_by(model) for model in (MODEL, OTHER)}
    assert len(set(homes.values())) == 2
    for _ in range(4):
        assert {model: served_by(model) for model in homes} == homes
    assert loads(*nodes) == 2

    # A node says a moment after an answer that it is idle again.
    shows = partial(fetch, url, "/roost/v1/placement")
    wait(lambda: b'"why":"busy"' not in shows(), "both are idle")
    shown = start("placement", "--url", url)
    assert shown.ends() == 0
    assert f"{MODEL}  1 ready, 0 loading, 0 wanted" in shown.output
    assert f"in place of {MODEL}" in shown.output

    (lost,) = [node for node in nodes if OTHER in node.output]
    (left,) = [node for node in nodes if node is not lost]
    lost.signal(signal.SIGKILL)
    wait(lambda: alive(url) == 1, "one is lost")
    assert served_by(OTHER) == homes[MODEL]
    assert loads(left) == 2
    assert left.output.count("runtime_gone") == 1
