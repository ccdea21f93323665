"""Whatever code of ours raises, no client waits for ever, and the log says where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from roost.errors import fail
from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.defects import where
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.rendering import JSON_BODY, Headers, head_bytes
from roost.gateway.front.server import Front, open_front
from roost.gateway.front.shared import Match
from tests.conftest import Eventually
from tests.gateway.front.conftest import GET, Client
from tests.gateway.front.test_protocol import post


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing: everything here is for the direct routes."""


@dataclass
class Faulty:
    """Direct routes whose matching and handling fail as they are told."""

    on_match: Callable[[Exchange], None] = lambda _: None
    on_handle: Callable[[Exchange], None] = lambda _: None
    seen: list[Exchange] = field(default_factory=list)

    def match(self, exchange: Exchange) -> Match:
        """Match everything."""
        self.on_match(exchange)
        return self.handle

    def handle(self, exchange: Exchange) -> None:
        """Answer with an empty object, if nothing is raised before."""
        self.seen.append(exchange)
        self.on_handle(exchange)
        if exchange.watcher is None and not exchange.done:
            exchange.reply(200, JSON_BODY, b"{}")


@dataclass
class Watcher:
    """A producer that is told things, and fails when it is told `fails_on`."""

    fails_on: str = ""
    heard: list[str] = field(default_factory=list)

    def on_gone(self) -> None:
        """Hear that the client has left."""
        self._hear("gone")

    def on_blocked(self) -> None:
        """Hear that the client does not keep up."""
        self._hear("blocked")

    def on_writable(self) -> None:
        """Hear that the client reads again."""
        self._hear("writable")

    def _hear(self, word: str) -> None:
        self.heard.append(word)
        if word == self.fails_on:
            raise ValueError("a secret prompt")


def boom(_exchange: Exchange) -> None:
    """Fail as a defect does, with something in the message that must not be seen."""
    raise ValueError("a secret prompt")


def refuse(_exchange: Exchange) -> None:
    """Fail as a room does that knows why."""
    raise fail("model_not_found", "The model does not exist.")


@asynccontextmanager
async def fronted(faulty: Faulty, limits: FrontLimits | None = None) -> AsyncIterator[Front]:
    """Open a front for these routes."""
    front = await open_front(
        nothing, Listener(port=0), limits or FrontLimits(sweep_s=0.02), direct=faulty
    )
    try:
        yield front
    finally:
        await front.close(0)


async def dial(front: Front) -> Client:
    """Connect."""
    return Client(*await asyncio.open_connection("127.0.0.1", front.port))


@pytest.mark.parametrize("place", ["on_match", "on_handle"])
@pytest.mark.parametrize("size", [0, 70_000])
async def test_a_defect_in_the_request_path_is_a_500(
    place: str, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client hears 500 at once, the next request is served, the log has no client data."""
    faulty, body = Faulty(), b"x" * size
    setattr(faulty, place, boom)
    async with fronted(faulty) as front:
        client = await dial(front)
        reply = await client.ask(post("/x", body))
        assert (reply.status, reply.error["code"]) == (500, "internal")
        faulty.on_match = faulty.on_handle = lambda _: None
        assert (await client.ask(GET)).status == 200
        client.close()
    out = "".join(capsys.readouterr())
    assert "internal_error" in out
    assert "ValueError" in out
    assert "roost.gateway.front." in out
    assert "secret" not in out


@pytest.mark.parametrize("place", ["on_match", "on_handle"])
async def test_a_known_failure_keeps_its_status(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A `RoostError` is no defect: its failure is the reply, and nothing is logged."""
    faulty = Faulty()
    setattr(faulty, place, refuse)
    async with fronted(faulty) as front:
        client = await dial(front)
        reply = await client.ask(post("/x", b"abc"))
        assert (reply.status, reply.error["code"]) == (404, "model_not_found")
        client.close()
    assert "internal_error" not in "".join(capsys.readouterr())


async def test_close_waits_until_a_reply_is_sent() -> None:
    """A reply that its client is still reading is not cut off by a close with a grace."""

    def large(exchange: Exchange) -> None:
        exchange.reply(200, JSON_BODY, b"x" * 3_000_000)

    async with fronted(Faulty(on_handle=large)) as front:
        client = await dial(front)
        await client.send(GET)
        assert (await client.head())[0] == 200
        closing = asyncio.ensure_future(front.close(3))
        await asyncio.sleep(0)
        assert len(await client.reader.readexactly(3_000_000)) == 3_000_000
        assert await closing
        client.close()


async def test_pipelined_requests_survive_a_defect() -> None:
    """A handler that fails costs its own request, not those behind it."""
    calls: list[str] = []

    def first_fails(exchange: Exchange) -> None:
        calls.append(exchange.path)
        if len(calls) == 1:
            boom(exchange)

    async with fronted(Faulty(on_handle=first_fails)) as front:
        client = await dial(front)
        await client.send(GET * 3)
        assert [(await client.reply()).status for _ in range(3)] == [500, 200, 200]
        client.close()


async def test_who_was_set_to_work_before_a_defect_is_stopped() -> None:
    """A handler that fails after it named a watcher leaves nobody at work."""
    watcher = Watcher()

    def begins_then_fails(exchange: Exchange) -> None:
        exchange.watcher = watcher
        boom(exchange)

    async with fronted(Faulty(on_handle=begins_then_fails)) as front:
        client = await dial(front)
        assert (await client.ask(GET)).status == 500
        assert watcher.heard == ["gone"]
        client.close()


async def test_a_defect_after_the_reply_has_begun_is_no_clean_end() -> None:
    """A stream that has begun is cut."""

    def begins_then_fails(exchange: Exchange) -> None:
        exchange.start(200, [])
        exchange.write(b"half")
        boom(exchange)

    async with fronted(Faulty(on_handle=begins_then_fails)) as front:
        client = await dial(front)
        await client.send(GET)
        assert (await client.head())[0] == 200
        assert not (await client.closed()).endswith(b"0\r\n\r\n")
        client.close()


async def test_a_watcher_that_fails_on_leaving_is_reported(
    eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `on_gone` raises is in the log, and the requests that waited are let go."""
    watcher = Watcher("gone")

    def wait(exchange: Exchange) -> None:
        exchange.watcher = watcher

    async with fronted(Faulty(on_handle=wait)) as front:
        client = await dial(front)
        await client.send(GET * 2)
        await eventually(lambda: front.busy == 1)
        client.close()
        await eventually(lambda: front.connections == 0)
        assert watcher.heard == ["gone"]
    assert "internal_error" in "".join(capsys.readouterr())


@pytest.mark.parametrize("word", ["blocked", "writable"])
async def test_a_watcher_that_fails_in_mid_reply_breaks_the_connection(
    word: str, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer that did not hear what it should would stall: its client is cut off and told so."""
    watcher = Watcher(word)

    def flood(exchange: Exchange) -> None:
        exchange.watcher = watcher
        exchange.start(200, [])
        while not exchange.blocked and not exchange.done:
            exchange.write(b"x" * 10_000)

    limits = FrontLimits(sweep_s=0.02, send_buffer_bytes=8192, write_buffer_bytes=8192)
    async with fronted(Faulty(on_handle=flood), limits) as front:
        client = await dial(front)
        await client.send(GET)
        assert not (await client.closed()).endswith(b"0\r\n\r\n")
        await eventually(lambda: front.connections == 0)
        assert watcher.heard[-1] == "gone"
        client.close()
    assert "internal_error" in "".join(capsys.readouterr())


async def test_a_body_listener_that_fails_breaks_the_connection(
    eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `on_body` raises is no 400 of the client's."""

    def listen(exchange: Exchange) -> None:
        def fails() -> None:
            boom(exchange)

        exchange.on_body = fails

    async with fronted(Faulty(on_match=listen)) as front:
        client = await dial(front)
        await client.send(post("/x", b"abc"))
        assert await client.closed() == b""
        await eventually(lambda: front.connections == 0)
        client.close()
    assert "internal_error" in "".join(capsys.readouterr())


async def test_a_defect_in_the_parsing_itself_is_no_400(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A callback of the parser that fails is our defect, and the client is told so."""
    calls: list[str] = []

    def fails_once() -> str:
        calls.append("")
        if len(calls) == 1:
            raise ValueError("a secret prompt")
        return "0" * 32

    async with fronted(Faulty()) as front:
        front._shared.ids = fails_once  # type: ignore[assignment]  # noqa: SLF001 - no other way in
        client = await dial(front)
        reply = await client.ask(GET)
        assert (reply.status, reply.error["code"]) == (500, "internal")
        client.close()
    out = "".join(capsys.readouterr())
    assert "internal_error" in out
    assert "secret" not in out


def raised(work: Callable[[], object]) -> str:
    """Say where `work` raised."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - any
        return where(error)
    return "nothing was raised"


def test_where_names_the_innermost_frame_of_roost() -> None:
    """Frames of libraries and tests are passed over; none of roost is no place."""
    no_headers: Headers = None  # type: ignore[assignment]
    module, _, line = raised(lambda: head_bytes(200, no_headers, b"")).partition(":")
    assert module == "roost.gateway.front.rendering"
    assert int(line) > 0
    assert raised(lambda: 1 // 0) == ""
