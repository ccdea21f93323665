"""SHELL: one live roost on `scripted` and one on a real model, and programs that ask them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.smollm2 import smollm2_path
from tests.source import ROOT
from tests.store.gguf_writer import Typed, tiny
from tests.system.processes import Roost, get, wait

HERE = Path(__file__).parent
ENVIRONMENTS = ROOT / ".venv" / "clients"
KEY, ONE_AT_ONCE = "sk-client-of-the-tests-0001", "sk-client-of-the-tests-0002"
SETTINGS = f"""
[[keys]]
name = "client"
key = "{KEY}"
role = "admin"
[[keys]]
name = "one"
key = "{ONE_AT_ONCE}"
at_once = 1
"""
PROGRAM_S = 300.0
# What a program would fetch at its start, or write down about whoever runs it.
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONDONTWRITEBYTECODE": "1"}


class Live(NamedTuple):
    """A running roost: where, which model, and what runs it."""

    roost: Roost
    url: str
    model: str
    kind: str

    def idle(self) -> bool:
        """Whether nothing runs, waits or holds a place."""
        status, body = get(self.url, "/roost/v1/fleet", KEY)
        assert status == 200
        counts = msgspec.json.decode(body)["statistics"]
        return not (counts["leases"] or counts["running"] or counts["waiting"])


def run(live: Live, *argv: str, cwd: Path) -> None:
    """Run a program against it; what it wrote is the message where it fails."""
    plain = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG"}}
    environ = {"CLIENT_KEY": KEY, "ONE_AT_ONCE_KEY": ONE_AT_ONCE, **OFFLINE, **plain}
    done = subprocess.run(
        [*argv, live.url, live.model, live.kind],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    wait(live.idle, "who has left has left nothing")


def python_of(environment: str) -> str:
    """Give the interpreter of an environment that `make test-clients` has made."""
    if environment == "current":
        return sys.executable
    return str(ENVIRONMENTS / environment / "bin" / "python")


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A live roost whose model says what it is told."""
    folder = tmp_path_factory.mktemp("scripted")
    home, source = folder / "home", folder / "tiny.gguf"
    source.write_bytes(tiny(**{"llama.context_length": Typed("u32", 65_536)}))
    ModelStore(Home.open(home)).add_file(source, link=False)
    (home / "roost.toml").write_text(SETTINGS)
    arguments = ("serve", "--port", "0", "--backend", "scripted", "--ctx", "65536")
    paced = ("--stream-commit-after-s", "0.5", "--stream-keepalive-s", "0.2")
    with Roost(folder / "roost.log", *arguments, *paced, home=home) as roost:
        yield Live(roost, roost.url(), "tiny", "scripted")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A live roost with SmolLM2 in llama.cpp."""
    folder = tmp_path_factory.mktemp("real")
    home = folder / "home"
    Home.open(home)
    (home / "roost.toml").write_text(SETTINGS)
    arguments = ("serve", str(smollm2_path()), "--port", "0", "--slots", "2", "--ctx", "2048")
    paced = ("--stream-commit-after-s", "0.2", "--stream-keepalive-s", "0.05")
    # On a machine that is short of time a silence of seconds is nobody's death.
    patient = ("--link-suspect-s", "30", "--link-stale-s", "60", "--link-dead-s", "90")
    with Roost(folder / "roost.log", *arguments, *paced, *patient, home=home) as roost:
        roost.wait_for("runtime_ready", 120)
        yield Live(roost, roost.url(), "smollm2-135m-instruct", "real")


@pytest.fixture(params=["scripted", "real"])
def live(request: pytest.FixtureRequest) -> Live:
    """Each of the two in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Live)
    return found
