"""Shapes of requests on which two HTTP readers might disagree: all refused, none desynchronised."""

from __future__ import annotations

import pytest

from tests.gateway.front.conftest import World

P = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
G = b"GET /hello HTTP/1.1\r\n"
H = b"Host: localhost\r\n"
TE = b"Transfer-Encoding: chunked\r\n"

VECTORS = {
    "length and chunks": P + b"Content-Length: 3\r\n" + TE + b"\r\n0\r\n\r\n",
    "chunks and length": P + TE + b"Content-Length: 3\r\n\r\n0\r\n\r\n",
    "two equal lengths": P + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "two lengths": P + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "list of lengths": P + b"Content-Length: 3, 3\r\n\r\nabc",
    "length with plus": P + b"Content-Length: +3\r\n\r\nabc",
    "negative length": P + b"Content-Length: -3\r\n\r\nabc",
    "hex length": P + b"Content-Length: 0x3\r\n\r\nabc",
    "length with underscore": P + b"Content-Length: 1_0\r\n\r\nabc",
    "endless length": P + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nabc",
    "empty length": P + b"Content-Length: \r\n\r\nabc",
    "two codings": P + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding twice": P + TE + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked twice": P + TE + TE + b"\r\n0\r\n\r\n",
    "chunked, chunked": P + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "identity coding": P + b"Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
    "unknown coding": P + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "quoted coding": P + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "coding with tab": P + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "space before colon": P + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "coding in 1.0": P.replace(b"1.1", b"1.0") + TE + b"\r\n0\r\n\r\n",
    "folded line": P + b"X: a\r\n b\r\n\r\n",
    "folded first line": b"POST /echo HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "bare LF": b"GET /hello HTTP/1.1\nHost: localhost\n\n",
    "bare LF inside": G + b"Host: localhost\nX: y\r\n\r\n",
    "bare CR inside": G + b"Host: localhost\rX: y\r\n\r\n",
    "NUL in value": G + H + b"X: a\0b\r\n\r\n",
    "control in name": G + H + b"X\x01: a\r\n\r\n",
    "odd name": G + H + b"X(y: a\r\n\r\n",
    "empty name": G + H + b": a\r\n\r\n",
    "no colon": G + H + b"nonsense\r\n\r\n",
    "chunk size with sign": P + TE + b"\r\n-3\r\nabc\r\n0\r\n\r\n",
    "chunk size with 0x": P + TE + b"\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "chunk size with space": P + TE + b"\r\n3 \r\nabc\r\n0\r\n\r\n",
    "chunk size too big": P + TE + b"\r\n" + b"f" * 17 + b"\r\nabc\r\n0\r\n\r\n",
    "chunk with LF": P + TE + b"\r\n3\nabc\n0\n\n",
    "wrong chunk end": P + TE + b"\r\n3\r\nabcXX0\r\n\r\n",
    "trailer": P + TE + b"\r\n0\r\nX: y\r\n\r\n",
    "trailing length": P + TE + b"\r\n0\r\nContent-Length: 3\r\n\r\n",
    "no host": G + b"\r\n",
    "two keys": G + H + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    "two wishes": G + H + b"X-Roost-Class: bulk\r\nX-Roost-Class: agent\r\n\r\n",
    "two hosts": G + H + b"Host: other\r\n\r\n",
    "two equal hosts": G + H + H + b"\r\n",
    "host differs from address": b"GET http://other/hello HTTP/1.1\r\n" + H + b"\r\n",
    "version 1.2": b"GET /hello HTTP/1.2\r\n" + H + b"\r\n",
    "version 0.9": b"GET /hello\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"FOO /hello HTTP/1.1\r\n" + H + b"\r\n",
    "lower-case method": b"get /hello HTTP/1.1\r\n" + H + b"\r\n",
    "raw bytes in path": b"GET /\xff\xfe HTTP/1.1\r\n" + H + b"\r\n",
    "tab in path": b"GET /\thello HTTP/1.1\r\n" + H + b"\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS.keys())
async def test_ambiguous_request_is_refused(world: World, vector: bytes) -> None:
    """Refused with 400 and the end of the connection; a request hidden behind it is not served."""
    client = await world.client()
    hidden = b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Hidden: 1\r\n\r\n"
    reply = await client.ask(vector + hidden)
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert reply.error["type"] == "invalid_request_error"
    assert len(reply.headers["x-roost-request-id"]) == 32
    assert await client.closed() == b""
    assert world.seen.bodies == []


async def test_byte_by_byte_is_the_same(world: World) -> None:
    """Where the bytes are cut changes nothing."""
    client = await world.client()
    request = P + TE + b"\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    for index in range(len(request)):
        await client.send(request[index : index + 1])
    assert (await client.reply()).body == b'{"got":7,"rest":""}'
    assert world.seen.bodies == [b"abcdefg"]


async def test_connect_is_refused(world: World) -> None:
    """This is no forward proxy."""
    client = await world.client()
    reply = await client.ask(b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n")
    assert reply.status == 405
    assert await client.closed() == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n" + G + H + b"\r\n",
        b"GET http://localhost/hello HTTP/1.1\r\n" + H + b"\r\n",
        G + H + b"X: \xff\xfe\r\n\r\n",
        G + b"Host: \t localhost \t\r\n\r\n",
        P + b"Transfer-Encoding: Chunked\r\n\r\n3;name=value\r\nabc\r\n0\r\n\r\n",
        b"GET /hello HTTP/1.0\r\n\r\n",
    ],
)
async def test_unusual_but_clear_requests_are_served(world: World, request_bytes: bytes) -> None:
    """What the standard allows and every reader reads the same way is fine."""
    assert (await world.ask(request_bytes)).status == 200
