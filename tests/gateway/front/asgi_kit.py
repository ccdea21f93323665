"""What the small applications of these tests are written with: bodies, replies, streams, routes."""

from __future__ import annotations

from roost.gateway.front.asgi import App, Receive, Scope, Send
from roost.gateway.front.rendering import EVENT_STREAM, JSON_BODY
from roost.gateway.front.replies import send_failure, send_reply
from roost.gateway.front.router import NotMatched, Router


async def read_body(receive: Receive) -> bytes:
    """Return the whole body; `ConnectionError` if the client leaves first."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the client left before its request was complete")
        pieces.append(message["body"])
        if not message["more_body"]:
            return b"".join(pieces)


async def wait_gone(receive: Receive) -> None:
    """Wait until the client has left or the reply is complete; call it after `read_body`."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, body: bytes) -> None:
    """Send JSON that is already encoded."""
    await send_reply(send, 200, JSON_BODY, body)


async def start_stream(send: Send) -> None:
    """Begin a stream of server-sent events; its head leaves with the first `send_piece`."""
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})


async def send_piece(send: Send, data: bytes) -> None:
    """Send a piece of a stream; returns once the client may be sent more."""
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def end_stream(send: Send, data: bytes = b"") -> None:
    """End a stream."""
    await send({"type": "http.response.body", "body": data})


def routed(router: Router[App]) -> App:
    """Serve the routes of a table; what `{rest}` stood for is in `scope["state"]`."""

    async def entry(scope: Scope, receive: Receive, send: Send) -> None:
        found = router.match(scope.get("method", "GET"), scope["raw_path"].decode("ascii"))
        if isinstance(found, NotMatched):
            allow = [(b"allow", ", ".join(found.allow).encode())] if found.allow else []
            await send_failure(scope, send, found.failure, extra=allow)
            return
        scope["state"]["rest"] = found.rest
        await found.handler(scope, receive, send)

    return entry
