"""Heartbeats that a worker sends: to whom, when, and that nothing which comes of it stops it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from roost.core.worker import WorkerBeat, WorkerHealth
from roost.errors import RoostError
from roost.node.worker.beat import Beats, BeatSettings, read_place
from roost.observe import logs
from roost.store.credentials.certificate import own_certificate
from roost.store.home import Home
from tests.conftest import until

BEAT = WorkerBeat("w", "http://127.0.0.1:3001", WorkerHealth(), key="secret")


class Coordinator:
    """Hears heartbeats and answers what it is told to."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one heartbeat."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.heard.append(head + await reader.readexactly(length))
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def beating(
    every_s: float, url: str = ""
) -> AsyncIterator[tuple[Coordinator, asyncio.Event]]:
    """A coordinator, and a worker that sends heartbeats to it, or to this address."""
    coordinator, drained = Coordinator(), asyncio.Event()
    server = await asyncio.start_server(coordinator.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = BeatSettings(url or f"http://127.0.0.1:{port}/base", "the-token", every_s)
    async with server, asyncio.TaskGroup() as group:
        task = group.create_task(Beats(settings, lambda: BEAT, drained, logs.get()).run())
        yield coordinator, drained
        task.cancel()


async def test_a_heartbeat_says_who_and_shows_the_token() -> None:
    """One at once, in the fields of system 1, under the coordinator's base path."""
    async with beating(1000.0) as (coordinator, _):
        await until(lambda: bool(coordinator.heard), what="a heartbeat has come")
        head, _, body = coordinator.heard[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /base/coordinator/health/heartbeat HTTP/1.1\r\n")
        assert b"\r\nAuthorization: Bearer the-token" in head
        told = json.loads(body)
        assert (told["worker_id"], told["worker_url"]) == ("w", "http://127.0.0.1:3001")
        assert told["health"]["alive"] is True


async def test_they_follow_each_other() -> None:
    """Again and again."""
    async with beating(0.01) as (coordinator, _):
        await until(lambda: len(coordinator.heard) >= 3, what="three heartbeats have come")


async def test_the_end_is_said_at_once() -> None:
    """Whoever drains does not wait for the next heartbeat, and says it once."""
    async with beating(1000.0) as (coordinator, drained):
        await until(lambda: len(coordinator.heard) == 1, what="the first has come")
        drained.set()
        await until(lambda: len(coordinator.heard) == 2, what="another one has come")


async def test_a_refusal_is_logged_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """The worker goes on, and its token and key are in no line; the same refusal is logged once."""
    async with beating(0.01) as (coordinator, _):
        await until(lambda: bool(coordinator.heard), what="the first has come")
        coordinator.answer = b'HTTP/1.1 409 Conflict\r\n\r\n{"error":"taken"}'
        seen = len(coordinator.heard)
        await until(lambda: len(coordinator.heard) > seen + 3, what="it goes on")
        coordinator.answer = b"nonsense"
        seen = len(coordinator.heard)
        await until(lambda: len(coordinator.heard) > seen + 3, what="it goes on still")
    told = capsys.readouterr().err
    assert told.count("status 409: taken") == 1
    assert "no answer in HTTP" in told
    assert "the-token" not in told
    assert "secret" not in told


async def test_a_coordinator_that_is_not_there_is_no_reason_to_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may come back."""
    told: list[str] = []
    async with beating(0.01, "http://127.0.0.1:9"):

        def logged() -> bool:
            told.append(capsys.readouterr().err)
            return "ConnectionRefusedError" in "".join(told)

        await until(logged, what="it is logged")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:1337",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host?x=1",
        "http://host/#x",
        "http://host:99999",
        "http://ho st",
        "http://a..b",
        "http://host/a b",
        "http://host/\r\nx: y",
    ],
)
def test_only_plain_addresses_are_taken(url: str) -> None:
    """A token goes to the place that was meant, or nowhere."""
    with pytest.raises(RoostError) as caught:
        read_place(url)
    assert caught.value.failure.param == "worker.heartbeat"


def test_addresses_are_taken_apart() -> None:
    """Ports have their usual values, and brackets are for addresses with colons."""
    secure = read_place("https://gateway.example/llm/")
    assert (secure.port, secure.tls) == (443, True)
    assert secure.path == "/llm/coordinator/health/heartbeat"
    assert read_place("http://[::1]:1337").authority == "[::1]:1337"


async def test_a_coordinator_is_known_by_the_certificate_that_the_token_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that is named hears of the worker; another one hears nothing, and the log says so."""
    own, other = (own_certificate(Home.open(tmp_path / name)) for name in ("one", "two"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.path)
    coordinator = Coordinator()
    server = await asyncio.start_server(coordinator.serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    told: list[str] = []

    def said(words: str) -> bool:
        told.append(capsys.readouterr().err)
        return words in "".join(told)

    async with server, asyncio.TaskGroup() as group:
        for pin, words in (
            (other.fingerprint, "SSLCertVerificationError"),
            (own.fingerprint, "heartbeat_heard"),
        ):
            settings = BeatSettings(url, "the-token", 0.01, pin=pin)
            beats = Beats(settings, lambda: BEAT, asyncio.Event(), logs.get())
            task = group.create_task(beats.run())
            await until(partial(said, words), what=words)
            heard = bool(coordinator.heard)
            assert heard == (pin == own.fingerprint)
            task.cancel()
