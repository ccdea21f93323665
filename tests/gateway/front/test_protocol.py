"""One connection, over real sockets: framing, limits, deadlines, order, leaving."""

from __future__ import annotations

import asyncio
import socket

import pytest

from roost.gateway.front.limits import FrontLimits
from tests.conftest import Eventually
from tests.gateway.front.conftest import AT_ONCE_S, GET, World, opened

HOST = b"Host: localhost\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + HOST


def post(path: str, body: bytes = b"", extra: bytes = b"") -> bytes:
    """Build a POST with a body of known length."""
    line = b"POST %s HTTP/1.1\r\n" % path.encode()
    return line + HOST + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def test_reply_carries_ids_and_date(world: World) -> None:
    """Every reply has the request id under the three names, and a date."""
    reply = await world.ask(GET)
    assert (reply.status, reply.body) == (200, b'{"hello":"you"}')
    ids = {reply.headers[n] for n in ("x-request-id", "request-id", "x-roost-request-id")}
    assert len(ids) == 1
    assert len(ids.pop()) == 32
    assert reply.headers["date"].endswith("GMT")
    assert "connection" not in reply.headers


async def test_ids_differ(world: World) -> None:
    """Two requests on one connection have different ids."""
    client = await world.client()
    first, second = await client.ask(GET), await client.ask(GET)
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_head_answers_like_get_without_body(world: World) -> None:
    """HEAD has GET's status and headers, no body, and the connection goes on."""
    client = await world.client()
    await client.send(GET.replace(b"GET", b"HEAD"))
    reply = await client.reply(to_head=True)
    assert (reply.status, reply.headers["content-length"]) == (200, "15")
    assert (await client.ask(GET)).body == b'{"hello":"you"}'


async def test_stream_headers(world: World) -> None:
    """A stream is chunked and tells proxies not to hold it back; the alias without /v1 works."""
    reply = await world.ask(post("/chat/completions"))
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.body == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


async def test_http_1_0_gets_no_chunks(world: World) -> None:
    """An HTTP/1.0 client gets a stream that ends with the connection."""
    client = await world.client()
    await client.send(post("/v1/chat/completions").replace(b"HTTP/1.1", b"HTTP/1.0"))
    status, headers = await client.head()
    assert (status, headers["connection"]) == (200, "close")
    assert "transfer-encoding" not in headers
    assert (await client.closed()).endswith(b"data: 2\n\ndata: [DONE]\n\n")


async def test_connection_close_is_honoured(world: World) -> None:
    """`Connection: close` ends the connection after the reply; what follows is not answered."""
    client = await world.client()
    await client.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET)
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await client.closed() == b""


async def test_pipelined_requests_are_answered_in_order(world: World) -> None:
    """Requests sent without waiting get their replies in order, also a body in the middle."""
    client = await world.client()
    await client.send(GET + post("/echo", b"abc") + post("/v1/chat/completions") + GET)
    replies = [await client.reply() for _ in range(4)]
    assert [r.status for r in replies] == [200] * 4
    assert replies[1].body == b'{"got":3,"rest":""}'
    assert replies[2].body.endswith(b"[DONE]\n\n")
    assert replies[3].body == b'{"hello":"you"}'


async def test_large_body_behind_a_stream_is_read_on_later(world: World) -> None:
    """Only so much is read ahead of an answer; the rest comes when its turn has come."""
    client = await world.client()
    await client.send(post("/v1/chat/completions") + post("/echo", b"x" * 1_000_000) + GET)
    assert (await client.reply()).body.endswith(b"[DONE]\n\n")
    assert (await client.reply()).body == b'{"got":1000000,"rest":""}'
    assert (await client.reply()).status == 200


async def test_too_many_pipelined_requests_are_refused_after_the_answers() -> None:
    """Only so many requests may wait; the answers to those come first, then a 400 and the end."""
    async with opened(FrontLimits(pipelined=4)) as world:
        client = await world.client()
        await client.send(GET * 50)
        statuses = [(await client.reply()).status for _ in range(6)]
        assert statuses == [200] * 5 + [400]
        assert await client.closed() == b""


async def test_pipelined_bad_request_does_not_spoil_the_answer_before_it(world: World) -> None:
    """Garbage behind a good request is refused after the good one was answered."""
    client = await world.client()
    await client.send(post("/v1/chat/completions") + b"\x00garbage\r\n\r\n")
    assert (await client.reply()).body.endswith(b"[DONE]\n\n")
    assert (await client.reply()).status == 400
    assert await client.closed() == b""


async def test_expect_continue_is_answered_at_once(world: World) -> None:
    """A client that asks before it sends its body is told to go on."""
    client = await world.client()
    await client.send(POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    status, _ = await client.head()
    assert status == 100
    assert (await client.ask(b"hello")).body == b'{"got":5,"rest":""}'


async def test_expect_continue_over_the_limit_is_refused_without_body() -> None:
    """No 100 for a body that is announced as too large."""
    async with opened(FrontLimits(body_max_bytes=10)) as world:
        head = POST + b"Content-Length: 11\r\nExpect: 100-continue\r\n\r\n"
        assert (await world.ask(head)).status == 413


async def test_announced_oversize_is_refused_at_once() -> None:
    """A Content-Length over the limit is a 413 before any body has come."""
    async with opened(FrontLimits(body_max_bytes=100)) as world:
        client = await world.client()
        reply = await client.ask(POST + b"Content-Length: 101\r\n\r\n")
        assert (reply.status, reply.error["code"]) == (413, "body_too_large")
        assert reply.headers["connection"] == "close"
        assert await client.closed() == b""
        assert world.seen.bodies == []


async def test_chunked_oversize_is_refused_while_it_comes() -> None:
    """A chunked body is counted: the 413 comes though the body never ends, and can be read."""
    async with opened(FrontLimits(body_max_bytes=1000)) as world:
        client = await world.client()
        await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            await client.send(b"64\r\n" + b"x" * 100 + b"\r\n")
        assert (await client.reply()).status == 413
        assert world.seen.bodies == []


async def test_body_at_the_limit_is_accepted() -> None:
    """The limit itself is allowed, chunked or not."""
    async with opened(FrontLimits(body_max_bytes=100)) as world:
        client = await world.client()
        assert (await client.ask(post("/echo", b"x" * 100))).status == 200
        chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n0\r\n\r\n"
        assert (await client.ask(chunked)).status == 200


async def test_endless_chunk_extensions_are_refused(eventually: Eventually) -> None:
    """Framing that outweighs the body without end is refused too."""
    async with opened(FrontLimits(body_max_bytes=1000, pipelined_bytes=1000)) as world:
        client = await world.client()
        await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        await eventually(lambda: world.front.busy == 1)
        for _ in range(5):
            await client.send(b"1;" + b"e" * 1000 + b"\r\nx\r\n")
        assert (await client.reply()).status == 413


@pytest.mark.parametrize("split", [False, True])
async def test_head_over_the_limit_is_refused(world: World, split: bool) -> None:
    """A head over 16 KiB is a 431, whether it comes whole or never ends."""
    client = await world.client()
    head = GET.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 17_000)
    reply = await client.ask(head if split else head + b"\r\n\r\n")
    assert (reply.status, reply.error["code"]) == (431, "headers_too_large")


async def test_large_body_behind_small_head_is_fine(world: World) -> None:
    """The head limit does not count the body that arrives with the head."""
    assert (await world.ask(post("/echo", b"x" * 100_000))).body == b'{"got":100000,"rest":""}'


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, identity"])
async def test_compressed_bodies_are_refused(world: World, coding: bytes) -> None:
    """No compressed body, so no bomb."""
    extra = b"Content-Encoding: " + coding + b"\r\n"
    assert (await world.ask(post("/echo", b"xx", extra))).status == 415


async def test_early_reply_keeps_the_connection(world: World) -> None:
    """A 404 before the body has come lets the body come and the connection go on."""
    client = await world.client()
    await client.send(post("/nowhere", b"x" * 10)[:-10])
    assert (await client.reply()).status == 404
    await client.send(b"x" * 10)
    assert (await client.ask(GET)).status == 200


async def test_slow_head_is_closed_with_408() -> None:
    """A head that trickles is over at its absolute deadline, however lively the trickle."""
    async with opened(FrontLimits(head_s=0.15, sweep_s=0.02)) as world:
        client = await world.client()
        await client.send(GET[:10])
        reply = await client.reply()
        assert (reply.status, reply.error["code"]) == (408, "request_timeout")
        assert await client.closed() == b""


async def test_slow_body_is_closed_with_408() -> None:
    """A body that does not come is over at its deadline, and the handler is released."""
    async with opened(FrontLimits(body_s=0.1, sweep_s=0.02)) as world:
        client = await world.client()
        await client.send(post("/echo", b"x" * 10)[:-5])
        assert (await client.reply()).status == 408
        assert await client.closed() == b""
        assert world.seen.bodies == []


@pytest.mark.slow
async def test_idle_connection_is_closed_silently() -> None:
    """A connection with nothing to say is closed without a reply nobody asked for."""
    async with opened(FrontLimits(head_s=0.8, idle_s=0.1, sweep_s=0.02)) as world:
        fresh, used = await world.client(), await world.client()
        assert (await used.ask(GET)).status == 200
        assert await fresh.closed() == b""
        assert await used.closed() == b""


@pytest.mark.slow
async def test_kept_connection_outlives_the_deadline_of_heads(eventually: Eventually) -> None:
    """A proxy that keeps connections for a minute must not lose a request to our close."""
    async with opened(FrontLimits(head_s=0.8, idle_s=60, sweep_s=0.02)) as world:
        fresh, used = await world.client(), await world.client()
        assert (await used.ask(GET)).status == 200
        assert await fresh.closed() == b""
        await eventually(lambda: world.front.connections == 1)
        assert (await used.ask(GET)).status == 200


@pytest.mark.slow
async def test_running_reply_has_no_receipt_deadline(eventually: Eventually) -> None:
    """Deadlines bound the client's part: a reply may take its time."""
    async with opened(FrontLimits(head_s=0.5, body_s=0.5, sweep_s=0.01)) as world:
        client = await world.client()
        await client.send(post("/silent"))
        await world.seen.entered.wait()
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.7
        await eventually(lambda: loop.time() > until)
        assert not world.seen.gone.is_set()
        assert world.front.busy == 1


@pytest.mark.slow
async def test_slowloris_leaves_a_good_client_unharmed(eventually: Eventually) -> None:
    """Beside 500 clients that trickle a good one is served, and each is closed at its deadline."""
    async with opened(FrontLimits(head_s=2.0, sweep_s=0.05)) as world:
        slow = []
        for _ in range(500):
            slow.append(await world.client())
            slow[-1].writer.write(b"POST /echo HT")
        good = await world.client()
        for _ in range(20):
            assert (await good.ask(GET)).status == 200
        answers = await asyncio.gather(*(client.closed() for client in slow))
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
        assert (await (await world.client()).ask(GET)).status == 200
        await eventually(lambda: world.front.connections <= 2)


async def test_connections_over_the_cap_get_503() -> None:
    """The one too many is told so and closed; when one leaves there is room again."""
    async with opened(FrontLimits(connections_max=2)) as world:
        first, second = await world.client(), await world.client()
        assert (await first.ask(GET)).status == 200
        assert (await second.ask(GET)).status == 200
        third = await world.client()
        refused = await third.reply()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert await third.closed() == b""
        first.close()
        await first.writer.wait_closed()
        assert (await second.ask(GET)).status == 200


@pytest.mark.parametrize("path", ["/endless", "/silent"])
async def test_leaving_client_is_noticed(world: World, path: str) -> None:
    """A handler hears at once that its client has closed, streamed or not."""
    client = await world.client()
    await client.send(post(path))
    await world.seen.entered.wait()
    client.close()
    await asyncio.wait_for(world.seen.gone.wait(), AT_ONCE_S)


async def test_reset_is_noticed(world: World) -> None:
    """A reset counts as leaving too."""
    client = await world.client()
    await client.send(post("/silent"))
    await world.seen.entered.wait()
    raw = client.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.writer.transport.abort()
    await asyncio.wait_for(world.seen.gone.wait(), AT_ONCE_S)


async def test_leaving_in_mid_body_is_noticed(world: World, eventually: Eventually) -> None:
    """A client that leaves before its body is complete leaves nothing behind."""
    client = await world.client()
    await client.send(post("/echo", b"x" * 10)[:-5])
    await eventually(lambda: world.front.busy == 1)
    client.close()
    await eventually(lambda: world.front.connections == 0)
    assert world.seen.bodies == []


async def test_reader_that_stops_reading_stops_the_producer(eventually: Eventually) -> None:
    """Back-pressure is real: small buffers bound what waits, and the write deadline ends it."""
    limits = FrontLimits(send_buffer_bytes=16_384, write_buffer_bytes=16_384, write_s=0.3)
    async with opened(limits) as world:
        client = await world.client()
        raw = client.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
        await client.send(post("/endless"))
        await world.seen.entered.wait()
        await asyncio.wait_for(world.seen.gone.wait(), AT_ONCE_S)
        assert world.seen.pieces < 8000


async def test_send_buffer_is_small(world: World) -> None:
    """Accepted sockets inherit the small send buffer of the listener."""
    await world.ask(GET)
    connection = next(iter(world.front._shared.connections))  # noqa: SLF001 - no client sees it
    kernel = connection.transport.get_extra_info("socket")
    assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * 65_536
    assert kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_failing_application_answers_500_without_details(world: World) -> None:
    """What an application raises is a 500 in the usual shape, and says nothing of what it was."""
    reply = await world.ask(GET.replace(b"/hello", b"/broken"))
    assert (reply.status, reply.error["code"]) == (500, "internal")
    assert b"secret" not in reply.body


async def test_failure_in_mid_stream_is_no_clean_end(world: World) -> None:
    """A stream whose producer fails is cut without the last chunk."""
    client = await world.client()
    await client.send(GET.replace(b"/hello", b"/half"))
    assert (await client.head())[0] == 200
    assert not (await client.closed()).endswith(b"0\r\n\r\n")


async def test_foreign_upgrade_is_ignored(world: World) -> None:
    """An offer of h2c, which Java clients make, is passed over and the body stays whole."""
    extra = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
    client = await world.client()
    assert (await client.ask(post("/echo", b"hello", extra))).body == b'{"got":5,"rest":""}'
    assert (await client.ask(GET)).status == 200


async def test_websocket_without_a_taker_is_refused(world: World) -> None:
    """Where no WebSocket is served, an upgrade gets a 404 in the usual shape."""
    upgrade = (
        b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    client = await world.client()
    await client.send(GET.replace(b"\r\n\r\n", upgrade))
    assert (await client.head())[0] == 404
