"""SHELL: a request over ASGI as a handful of plain calls, for routes that live in another room."""

from __future__ import annotations

from roost.gateway.front.asgi import Receive, Send


class PlainExchange:
    """One request and its reply."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def body(self, max_bytes: int) -> bytes | None:
        """Read the request's body to its end; None if the client left, or it is over the limit."""
        parts = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            parts += message.get("body", b"")
            if len(parts) > max_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(parts)

    async def left(self) -> None:
        """Return when the client has left, or has everything."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(
        self, status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes = b""
    ) -> None:
        """Send a whole reply."""
        length = () if status == 204 else ((b"content-length", b"%d" % len(body)),)
        await self.start(status, (*headers, *length))
        await self.write(body, last=True)

    async def start(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        """Begin a reply."""
        await self._send(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send more of a reply, waiting while the client does not keep up."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})
