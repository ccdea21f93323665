"""A peer is found, started before a server, asked through, and ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roost.bench.drills.asking import Chat, ask
from roost.bench.peers.deaths import Death
from roost.bench.peers.starting import program_of, started, version
from roost.bench.processes import end, wait_answering
from roost.bench.variants import START_S, VARIANTS, Scene
from tests.bench.lying import DONE, HEAD, LAST, said, server

WORDS = ("0 ", "1 ")


def test_what_is_not_installed_is_not_started(
    tmp_path: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the name of a program, nor as a variant, and its version is nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_of("no-such-program-anywhere", environment) is None
    assert started("smg", (1,), tmp_path, environment, None) is None
    assert VARIANTS["smg"](Scene(1, tmp_path, "key", peers=environment)) is None
    assert version("smg", environment) == ""


def test_a_package_has_its_version(environment: Path) -> None:
    """As the environment has it; a program without one has none."""
    assert version("vllm-router", environment) == ""
    folder = environment / "lib" / "python3.11" / "site-packages" / "vllm_router-1.2.dist-info"
    folder.mkdir(parents=True)
    assert version("vllm-router", environment) == "vllm-router-1.2"


@pytest.mark.slow
async def test_a_peer_stands_before_a_server(tmp_path: Path, environment: Path) -> None:
    """What the server says, a client of the peer reads; when the peer has ended, nobody answers."""
    async with server(HEAD + said(*WORDS) + DONE + LAST) as port:
        found = started("vllm-router", (port,), tmp_path, environment, None)
        assert found is not None
        try:
            assert await asyncio.to_thread(wait_answering, found[0], "", START_S)
            answer = await ask(Chat(found[0], "m", "hello", with_text=True))
        finally:
            end(found[1])
        assert (answer.end, answer.text, answer.clean) == ("complete", "".join(WORDS), True)
        gone = await ask(Chat(found[0], "m", "hello"))
        assert Death("it", (answer,), gone).then == "silent"
