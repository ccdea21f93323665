"""SHELL: reading a body and sending replies over ASGI."""

from __future__ import annotations

from roost.dialects.openai_errors import error_body as openai_error
from roost.errors import Failure, fail
from roost.gateway.front.asgi import Headers, Receive, Scope, Send
from roost.gateway.front.rendering import (
    EVENT_STREAM,
    JSON,
    ErrorBody,
    failure_headers,
)


async def read_body(receive: Receive) -> bytes:
    """Return the whole body, which the front bounds; `cancelled` if the client leaves first."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise fail("cancelled", "The client left before its request was complete.")
        pieces.append(message["body"])
        if not message["more_body"]:
            return b"".join(pieces)


async def wait_gone(receive: Receive) -> None:
    """Wait until the client has left or the reply is complete; call it after `read_body`."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_reply(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Send a whole reply."""
    framed = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": framed})
    await send({"type": "http.response.body", "body": body})


async def send_json(
    send: Send, body: bytes, status: int = 200, extra: Headers | None = None
) -> None:
    """Send JSON that is already encoded."""
    await send_reply(send, status, [(b"content-type", JSON), *(extra or [])], body)


async def start_stream(send: Send, extra: Headers | None = None) -> None:
    """Begin a stream of server-sent events; its head leaves with the first `send_piece`."""
    headers = [*EVENT_STREAM, *(extra or [])]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_piece(send: Send, data: bytes) -> None:
    """Send a piece of a stream; returns once the client may be sent more."""
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def end_stream(send: Send, data: bytes = b"") -> None:
    """End a stream."""
    await send({"type": "http.response.body", "body": data})


async def send_failure(
    scope: Scope,
    send: Send,
    failure: Failure,
    error_body: ErrorBody = openai_error,
    extra: Headers | None = None,
) -> None:
    """Send a failure, also instead of accepting a WebSocket."""
    status, body = error_body(failure)
    headers = [*failure_headers(failure), *(extra or [])]
    if scope["type"] != "websocket":
        await send_reply(send, status, headers, body)
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
