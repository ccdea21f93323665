"""SHELL: asks one server for streamed chats, over connections that are kept."""

from __future__ import annotations

import asyncio
import json
import ssl
from time import monotonic

from roost.bench.load.plan import Manner
from roost.bench.load.reading import Reading
from roost.bench.load.sample import Sample
from roost.gateway.front.rendering import Headers
from roost.gateway.upstream.client import ClientLimits, ConnectionPool, UpstreamConnection
from roost.gateway.upstream.targets import Target

CONNECT_S = 5.0
KEPT_MAX = 1024


class _Answer:
    """Hands a connection's answer to a reading; `over` says whether HTTP was whole, and why not."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.stale = False

    def on_answer(self, status: int, headers: Headers) -> None:
        """Take the head."""
        fields = dict(headers)
        self.reading.on_head(status, fields.get(b"retry-after", b"").decode("latin-1"))

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        """Take a piece."""
        self.reading.on_data(data, monotonic())
        if last and not self.over.done():
            self.over.set_result("" if framed else "cut")

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        """Note the loss. A kept connection that its server had closed is nobody's failure."""
        self.stale = reused and not any_byte
        if not self.over.done():
            self.over.set_result("cut" if any_byte else "no_answer")


class Client:
    """A load client of one server, known by `tls` behind https; `close` it in the end."""

    def __init__(self, target: Target, manner: Manner, tls: ssl.SSLContext | None) -> None:
        limits = ClientLimits(connect_s=CONNECT_S, kept=KEPT_MAX)
        self._pool = ConnectionPool(target, limits, tls)
        self._target = target
        self._manner = manner

    async def ask(
        self, model: str, messages: list[dict[str, str]], max_tokens: int, due_s: float
    ) -> tuple[Sample, str]:
        """Ask for a chat that was due then, and wait for its end; returns what was said as well.

        Never raises for what a server does.
        """
        request = self._request(model, messages, max_tokens)
        reading = Reading(model, due_s, monotonic())
        why, whole = "timeout", False
        try:
            async with asyncio.timeout(self._manner.timeout_s):
                why = await self._asked(request, reading)
                whole = not why
        except TimeoutError:
            pass
        except OSError as error:
            why = f"connect:{type(error).__name__}"
        return reading.ended(monotonic(), whole=whole, why=why), reading.text

    async def _asked(self, request: bytes, reading: Reading) -> str:
        """Send it and wait; once more if the connection turned out to be closed already."""
        connection = self._pool.take()
        if connection is not None:
            answer = await self._sent(connection, request, reading)
            if not answer.stale:
                return answer.over.result()
        answer = await self._sent(await self._pool.open(), request, reading)
        return answer.over.result()

    async def _sent(
        self, connection: UpstreamConnection, request: bytes, reading: Reading
    ) -> _Answer:
        answer = _Answer(reading)
        connection.ask(request, answer)
        try:
            await answer.over
        except asyncio.CancelledError:
            connection.abort()
            raise
        return answer

    def _request(self, model: str, messages: list[dict[str, str]], max_tokens: int) -> bytes:
        manner, target = self._manner, self._target
        body: dict[str, object] = {
            "model": model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": manner.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **dict(manner.more),
        }
        if manner.seed is not None:
            body["seed"] = manner.seed
        raw = json.dumps(body).encode()
        key = f"authorization: Bearer {target.key}\r\n" if target.key else ""
        head = (
            f"POST {target.base}/v1/chat/completions HTTP/1.1\r\nhost: {target.authority}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n{key}\r\n"
        )
        return head.encode() + raw

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
