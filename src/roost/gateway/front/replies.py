"""SHELL: sending whole replies over ASGI."""

from __future__ import annotations

from roost.dialects.openai.errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.asgi import Headers, Scope, Send
from roost.gateway.front.rendering import ErrorBody, failure_headers


async def send_reply(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Send a whole reply."""
    framed = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": framed})
    await send({"type": "http.response.body", "body": body})


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
