"""The scripts of `deploy`, with roost as it is here on their PATH."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.cli import main
from roost.store.credentials.secrets import unpinned
from tests.source import ROOT
from tests.system.processes import Roost, fetch, gone, wait

Start = Callable[..., Roost]


def environment(tmp_path: Path, home: Path, **more: str) -> dict[str, str]:
    """Put a `roost` on the PATH, and nothing of this machine's own settings."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "roost"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m roost "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROOST_")}
    path = f"{folder}:{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "ROOST_HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


def free_port() -> int:
    """Name a port that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as asked:
        return int(asked.getsockname()[1])


@pytest.mark.slow
def test_the_start_script_runs_a_fleet_and_ends_all_of_it(tmp_path: Path, home: Path) -> None:
    """Both nodes join and serve; one TERM, and nothing is left of any of them."""
    port, log = free_port(), tmp_path / "log"
    env = environment(tmp_path, home, PORT=str(port), ROOST_BACKEND="scripted")
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        script = subprocess.Popen(
            [ROOT / "deploy/start.sh"],
            env=env,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            wait(lambda: log.read_text().count("node_joined") >= 2, "two nodes have joined")
            fleet = msgspec.json.decode(fetch(url, "/roost/v1/fleet"), type=dict[str, object])
            assert len(msgspec.convert(fleet["nodes"], list[object])) == 2
            family = psutil.Process(script.pid).children(recursive=True)
            script.send_signal(signal.SIGTERM)
            assert script.wait(20) == 0
            assert gone(family)
        finally:
            script.kill()
            script.wait()


@pytest.mark.slow
def test_the_gateways_script_leaves_a_token_for_its_nodes(tmp_path: Path, home: Path) -> None:
    """Made once, for its owner alone, naming the certificate; a restart keeps it."""
    folder, tokens = tmp_path / "join", []
    folder.mkdir()
    env = environment(tmp_path, home, JOIN_FOLDER=str(folder), ROOST_ALLOWED_HOSTS="gateway")
    for _ in range(2):
        done = subprocess.run(
            [ROOT / "deploy/gateway.sh", "--help"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "usage: roost gateway" in done.stdout
        tokens.append((folder / "token").read_text().strip())
    assert tokens[0] == tokens[1]
    assert unpinned(tokens[0])[1]
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["token"]


def runtimes(url: str) -> list[str]:
    """List the ids of all runtimes."""
    nodes = json.loads(fetch(url, "/roost/v1/fleet"))["nodes"]
    return [one["runtime"] for node in nodes for one in node["runtimes"] if one["runtime"]]


@pytest.mark.slow
def test_health_is_a_word_and_an_exit_code(
    start: Start, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the gateway that runs here, of its readiness, of a node's worker API, and of nobody.

    While it runs, a runtime's log is also found by the runtime's id.
    """
    nobody = start("health")
    assert nobody.ends() == 1
    anywhere = ("--port", "0", "--worker-api", "127.0.0.1:0")
    served = start("serve", "--backend", "scripted", *anywhere)
    worker = served.wait_for(r"worker API listens on http://(\S+)")[1]
    url = served.url()
    for flags in ((), ("--ready",), ("--worker", "--worker-api", worker)):
        asked = start("health", *flags)
        assert asked.ends() == 0, asked.output
    (node,) = json.loads(fetch(url, "/roost/v1/fleet"))["nodes"]
    folder = home / "logs" / node["id"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.log").write_text("loaded\n")
    wait(lambda: bool(runtimes(url)), "the model is loaded")
    assert main.run(["logs", runtimes(url)[0], "--home", str(home)]) == 0
    assert capsys.readouterr().out == "loaded\n"
    refused = start("health", "--url", f"http://127.0.0.1:{free_port()}")
    assert refused.ends() == 1
