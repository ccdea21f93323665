"""HTTP to our own children: every framing is read, and whatever is no HTTP is one kind of loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.backends.http1.connection import KEPT_MAX, Kept
from roost.backends.http1.exchange import Exchange, Lost, Place, call

Eventually = Callable[..., Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Raw:
    """A server that sends prepared bytes and remembers what it was sent."""

    def __init__(self, answer: bytes, *, stay: bool = False) -> None:
        self.answer = answer
        self.stay = stay
        self.heard = b""
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, byte for byte."""
        try:
            self.heard = await reader.read(65536)
            for start in range(0, len(self.answer), 4096):
                writer.write(self.answer[start : start + 4096])
                await writer.drain()
            if self.stay:
                await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.gone.set()


@asynccontextmanager
async def serving(raw: Raw, folder: Path) -> AsyncIterator[Place]:
    """Listen on a socket in `folder`."""
    path = str(folder / "s.sock")
    async with await asyncio.start_unix_server(raw.serve, path):
        yield Place(path, 0, "secret")
        await raw.gone.wait()


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 11\r\n\r\nhello world",
        OK + b"CONTENT-LENGTH:11\r\n\r\nhello worldmore",
        CHUNKED + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
        CHUNKED + b"B\r\nhello world\r\n0\r\nTrailer: x\r\n\r\n",
        OK + b"\r\nhello world",
    ],
)
async def test_bodies_are_read(answer: bytes, tmp_path: Path) -> None:
    """By length, in chunks, or to the end of the connection."""
    async with serving(Raw(answer), tmp_path) as place:
        assert await call(place, "GET", "/x", timeout_s=5) == (200, b"hello world")


async def test_requests_are_written(tmp_path: Path) -> None:
    """A request carries the key, its length and its body."""
    raw = Raw(OK + b"Content-Length: 0\r\n\r\n")
    async with serving(raw, tmp_path) as place:
        assert await call(place, "POST", "/x", b"{}", timeout_s=5) == (200, b"")
    head, _, body = raw.heard.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret" in head.split(b"\r\n")
    assert b"Content-Length: 2" in head.split(b"\r\n")
    assert body == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
        OK + b"Content-Length: 12\r\n\r\nhello world",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1x\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"-1\r\n\r\n",
        CHUNKED + b"7fffffff\r\n",
        CHUNKED + b"5\r\nhel",
    ],
)
async def test_what_is_no_http_is_lost(answer: bytes, tmp_path: Path) -> None:
    """Cut off, malformed or endless answers are one kind of loss, never a half answer."""
    async with serving(Raw(answer), tmp_path) as place:
        with pytest.raises(Lost):
            await call(place, "GET", "/x", timeout_s=5)


async def test_nobody_there_is_lost(tmp_path: Path) -> None:
    """A socket that is not there, a port nobody listens on, and silence are losses as well."""
    for place in (Place(str(tmp_path / "no.sock"), 0, ""), Place("", 1, "")):
        with pytest.raises(Lost, match="cannot be connected"):
            await call(place, "GET", "/x", timeout_s=5)
    async with serving(Raw(b"", stay=True), tmp_path) as place:
        with pytest.raises(Lost, match="in time"):
            await call(place, "GET", "/x", timeout_s=0.02)


async def test_close_waits_for_the_answer_to_begin(tmp_path: Path) -> None:
    """A request is not dropped before the server has begun to answer it, and then at once."""
    raw = Raw(CHUNKED, stay=True)
    async with serving(raw, tmp_path) as place:
        exchange = Exchange(place)
        await exchange.send("POST", "/completion", b"{}")
        await exchange.close()
        await raw.gone.wait()
        assert raw.heard.endswith(b"{}")


async def test_close_of_what_never_was(tmp_path: Path) -> None:
    """An exchange that was never sent, or whose server vanished, closes without a word."""
    await Exchange(Place("", 1, "")).close()
    async with serving(Raw(b""), tmp_path) as place:
        exchange = Exchange(place)
        await exchange.send("GET", "/x")
        await exchange.close()
        await exchange.close()


async def test_a_tap_hears_each_piece_as_it_comes(tmp_path: Path) -> None:
    """Until it says no: that piece and those after it are given to whoever reads, in order."""
    seen: list[bytes] = []
    parts = [b"1\r\na\r\n", b"1\r\nb\r\n1\r\nc\r\n", b"1\r\nd", b"\r\n0\r\n\r\n"]
    steps: list[asyncio.Event] = [asyncio.Event() for _ in parts]
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        for step, part in zip(steps, parts, strict=True):
            await step.wait()
            writer.write(part)
            await writer.drain()
        writer.close()
        gone.set()

    def tap(piece: bytes) -> bool:
        seen.append(piece)
        if len(seen) < len(parts):
            steps[len(seen)].set()
        return piece != b"bc"

    async with await asyncio.start_unix_server(serve, str(tmp_path / "s.sock")):
        exchange = Exchange(Place(str(tmp_path / "s.sock"), 0, ""))
        await exchange.send("GET", "/x")
        assert await exchange.status() == 200
        steps[0].set()
        given: list[bytes] = []
        async for piece in exchange.pieces(tap):
            given.append(piece)
            steps[3].set()
        exchange.drop()
        await gone.wait()
    assert seen == [b"a", b"bc", b"d"]
    assert given == [b""], "what a tap has refused it has taken"


async def test_what_a_tap_raises_is_the_readers(tmp_path: Path) -> None:
    """A defect of whoever listens does not end in the event loop."""

    def tap(_piece: bytes) -> bool:
        raise LookupError("a defect")

    steps, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        await steps.wait()
        writer.write(b"1\r\na\r\n")
        await reader.read()
        writer.close()
        gone.set()

    async with await asyncio.start_unix_server(serve, str(tmp_path / "s.sock")):
        exchange = Exchange(Place(str(tmp_path / "s.sock"), 0, ""))
        await exchange.send("GET", "/x")
        await exchange.status()
        pieces = exchange.pieces(tap)
        asyncio.get_running_loop().call_soon(steps.set)
        with pytest.raises(LookupError):
            await anext(pieces)
        exchange.drop()
        await gone.wait()


async def test_a_server_waits_for_a_reader_that_does_not(tmp_path: Path) -> None:
    """What is kept for it is bounded, and all of it is there when it reads on."""
    body = bytes(range(256)) * 16 * 1024
    async with serving(Raw(OK + b"\r\n" + body), tmp_path) as place:
        exchange = Exchange(place)
        await exchange.send("GET", "/x")
        await exchange.status()
        pieces = exchange.pieces()
        first = await anext(pieces)
        for _ in range(20):
            await asyncio.sleep(0)
        rest = [piece async for piece in pieces]
        assert max(map(len, [first, *rest])) < len(body) / 2
        assert first + b"".join(rest) == body
        exchange.drop()


KEEPS = OK + b"Keep-Alive: timeout=5, max=100\r\n"


class Keeping:
    """A server that answers request after request on a connection, with what was prepared.

    It closes a connection after so many answers that it has given on it.
    """

    def __init__(self, answer: bytes, most: int = 99) -> None:
        self.answer = answer
        self.most = most
        self.connections = self.requests = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self.open += 1
        try:
            for _ in range(self.most):
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                writer.write(self.answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def keeping(
    server: Keeping, folder: Path, eventually: Eventually
) -> AsyncIterator[tuple[Place, Kept]]:
    """Listen on a socket in `folder`; in the end nothing that was kept is left."""
    kept = Kept()
    async with await asyncio.start_unix_server(server.serve, str(folder / "s.sock")):
        yield Place(str(folder / "s.sock"), 0, ""), kept
        kept.close()
        await eventually(lambda: server.open == 0)


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (KEEPS + b"Content-Length: 2\r\n\r\nhi", 1),
        (KEEPS + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 1),
        (KEEPS + b"Content-Length: 2\r\n\r\nhi, what nobody has asked for", 3),
        (OK + b"Content-Length: 2\r\n\r\nhi", 3),
    ],
)
async def test_a_connection_is_kept_for_the_next_request(
    answer: bytes, connections: int, tmp_path: Path, eventually: Eventually
) -> None:
    """Where the server says that it keeps it, and nothing of the answer is left on it."""
    server = Keeping(answer)
    async with keeping(server, tmp_path, eventually) as (place, kept):
        for _ in range(3):
            found = await call(place, "GET", "/x", timeout_s=5, kept=kept)
            assert found == (200, b"hi")
        assert (server.requests, server.connections) == (3, connections)


async def test_a_kept_connection_that_was_closed_costs_nothing(
    tmp_path: Path, eventually: Eventually
) -> None:
    """A server may close one at any time: the request that meets that goes over another one."""
    server = Keeping(KEEPS + b"Content-Length: 2\r\n\r\nhi", most=1)
    async with keeping(server, tmp_path, eventually) as (place, kept):
        for count in range(1, 6):
            found = await call(place, "GET", "/x", timeout_s=5, kept=kept)
            assert found == (200, b"hi")
            assert server.requests == count


async def test_so_many_are_kept_and_no_more(tmp_path: Path, eventually: Eventually) -> None:
    """Each takes a thread of the server; and after the end none is kept."""
    server = Keeping(KEEPS + b"Content-Length: 2\r\n\r\nhi")
    async with keeping(server, tmp_path, eventually) as (place, kept):
        calls = (call(place, "GET", "/x", timeout_s=5, kept=kept) for _ in range(KEPT_MAX + 4))
        await asyncio.gather(*calls)
        await eventually(lambda: server.open == KEPT_MAX)
        kept.close()
        await eventually(lambda: server.open == 0)
        await call(place, "GET", "/x", timeout_s=5, kept=kept)
        await eventually(lambda: server.open == 0)
