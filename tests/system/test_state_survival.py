"""Conversations outlive the process that computed them: an orderly end, and kill -9."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.smollm2 import smollm2_path
from tests.system.conftest import Start
from tests.system.processes import Roost, fetch, wait
from tests.system.test_sessions import Message, post

SERVE = ("serve", "--port", "0", "--slots", "1", "--sessions-tokens-min", "16")
SCRIPTED = ("--backend", "scripted", "--ctx", "4096")
DISK = ("--sessions-persistence", "disk")
NAMES = "abc"


def said(name: str, turns: int) -> list[Message]:
    """A conversation that shares nothing with others, as far as this turn."""
    first = {"role": "user", "content": f"{name}: " + f"{name * 5} " * 30}
    more = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    return [first, *(more * (turns - 1))]


def ask(roost: Roost, name: str, turns: int) -> tuple[int, int]:
    """Say a turn; how long the prompt was, and how much of it was not computed."""
    body = {"messages": said(name, turns), "max_tokens": 2, "temperature": 0}
    usage = json.loads(post(roost.url(), "/v1/chat/completions", body))["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def sessions(roost: Roost) -> dict[str, int]:
    """What the only node says of what it has put aside."""
    (node,) = json.loads(fetch(roost.url(), "/roost/v1/fleet"))["nodes"]
    told: dict[str, int] = node["sessions"]
    return told


def are_on_disk(roost: Roost, many: int, home: Path) -> Callable[[], bool]:
    """Whether so many are whole on disk, which the node has been told."""

    def look() -> bool:
        labels = list((home / "runtime-state").rglob("s*.json"))
        told = sessions(roost)
        return len(labels) == many and told["disk_bytes"] == told["ram_bytes"] > 0

    return look


def test_an_orderly_end_keeps_every_conversation(start: Start, home: Path) -> None:
    """Those in slots too: after TERM and a new start the next turn computes only what is new."""
    with start(*SERVE, *SCRIPTED, *DISK) as roost:
        lengths = {name: ask(roost, name, 1)[0] for name in NAMES}
        roost.signal(signal.SIGTERM)
        assert roost.ends() == 0
    with start(*SERVE, *SCRIPTED, *DISK) as roost:
        assert sessions(roost)["disk"] == 3
        for name in NAMES:
            prompt, cached = ask(roost, name, 2)
            assert prompt > cached >= lengths[name] - 8
        wait(lambda: sessions(roost)["restores"] == 3, "all three were brought back")
        assert "states_found" in roost.output


def test_what_was_put_aside_outlives_a_kill(start: Start, home: Path) -> None:
    """After kill -9 two of three are there; a damaged one is put aside and computed again."""
    with start(*SERVE, *SCRIPTED, *DISK) as roost:
        lengths = {name: ask(roost, name, 1)[0] for name in NAMES}
        wait(are_on_disk(roost, 2, home), "two are on disk")
        roost.signal(signal.SIGKILL)
        roost.ends()
    (damaged,) = (home / "runtime-state").rglob("s1.state")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with start(*SERVE, *SCRIPTED, *DISK) as roost:
        found = {name: ask(roost, name, 2)[1] for name in NAMES}
        wait(lambda: sessions(roost)["quarantined"] == 1, "the damaged one is told of")
    assert found["b"] >= lengths["b"] - 8
    assert max(found["a"], found["c"]) < 16
    assert [path.name for path in (home / "runtime-state").rglob("quarantine/*.state")]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_real_model_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Save, kill, restore with a real model: nearly nothing is computed again."""
    arguments = ("serve", str(smollm2_path()), *SERVE[1:], *DISK, "--ctx", "512", "--threads", "1")
    home, told = tmp_path / "home", []
    for life in range(2):
        with Roost(tmp_path / f"{life}.log", *arguments, home=home) as roost:
            roost.wait_for("runtime_ready")
            told.append(ask(roost, "a", 1))
            ask(roost, "b", 1)
            if life == 0:
                wait(are_on_disk(roost, 1, home), "one is on disk")
                roost.signal(signal.SIGKILL)
                roost.ends()
    (prompt, cold), (_, warm) = told
    assert cold < 40
    assert warm >= prompt - 2
