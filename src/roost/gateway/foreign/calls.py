"""SHELL: HTTP to one worker of system 1: a connection for each call, and a time limit on each.

Connections are not kept: a worker that died and came back would answer the next call on an old one
with silence, and a new connection costs nothing next to a prefill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from roost.dialects.system1.worker_calls import Denied, Said, read_denied, read_said
from roost.errors import Failure
from roost.gateway.foreign.effects import Began, Ended, Heard, Lost, Pieces
from roost.gateway.front.defects import INTERNAL, report
from roost.gateway.upstream.client import ClientLimits, ConnectionPool, UpstreamConnection
from roost.gateway.upstream.headers import is_events, request_prefix
from roost.gateway.upstream.whole import Whole, ask_whole
from roost.text.sse import SseEvent, SseParser

if TYPE_CHECKING:
    from roost.gateway.front.rendering import Headers
    from roost.gateway.upstream.targets import Target

PREFILL, DECODE = "/worker/prefill", "/worker/decode"
SESSIONS, HEALTH = "/worker/sessions", "/worker/health"
EVENT_MAX_BYTES = 64 * 1024
DENIAL_MAX_BYTES = 64 * 1024


class Answer:
    """One answer as it comes: bytes to events, whatever the pieces are, until it is hung up."""

    def __init__(self, hear: Callable[[Heard], None]) -> None:
        self._hear = hear
        self._connection: UpstreamConnection | None = None
        self._events = SseParser(EVENT_MAX_BYTES)
        self._over = False
        self._status = 0
        self._retry_after = ""
        self._denial = b""

    def begin(self, connection: UpstreamConnection, request: bytes) -> None:
        """Ask, unless that was hung up while the connection was made."""
        if self._over:
            connection.abort()
            return
        self._connection = connection
        connection.ask(request, self, once=True)

    def pause(self) -> None:
        """Read no more for now."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Read again."""
        if self._connection is not None:
            self._connection.resume()

    def hang_up(self) -> None:
        """Close the connection; nothing more is heard."""
        self._over = True
        if self._connection is not None:
            self._connection.abort()

    def tell(self, heard: Heard) -> None:
        """Pass on what has been heard, if anybody still listens."""
        if not self._over:
            self._over = isinstance(heard, (Denied, Ended, Lost))
            self._hear(heard)

    def on_answer(self, status: int, headers: Headers) -> None:
        """Begin, if it is an answer at all."""
        self._retry_after = dict(headers).get(b"retry-after", b"").decode("latin-1")
        self._status = 502 if status == 200 and not is_events(headers) else status
        if self._status == 200:
            self.tell(Began())

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        """Pass on what is complete."""
        if self._status != 200:
            self._deny(data, last=last)
            return
        said = tuple(_read(item) for item in self._events.push(data))
        if said:
            self.tell(Pieces(said))
        if last:
            self.tell(Ended() if framed else Lost())

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        """Tell who listens."""
        self.tell(Lost())

    def _deny(self, data: bytes, *, last: bool) -> None:
        self._denial += data
        if len(self._denial) > DENIAL_MAX_BYTES:
            self.tell(Lost())
            self.hang_up()
        elif last:
            self.tell(read_denied(self._status, self._denial, self._retry_after))


class WorkerCalls:
    """Asks one worker; made anew when its address or key changes."""

    def __init__(self, target: Target, key: str, limits: ClientLimits) -> None:
        target = msgspec.structs.replace(target, key=key or None)
        self._base = target.base.encode()
        self._prefix = request_prefix(target)
        self._pool = ConnectionPool(target, limits)

    async def ask(
        self, method: str, path: str, body: bytes | None, limit_s: float, body_max: int
    ) -> Whole | None:
        """Ask and read the whole answer; None where none comes in time, or it is too long."""
        told = await ask_whole(self._pool, self.request(method, path, body), limit_s, body_max)
        return None if told is None or told.is_too_long else told

    async def answer(self, body: bytes, answer: Answer) -> None:
        """Ask for an answer, of which `answer` tells; it never raises, for nobody waits for it."""
        try:
            answer.begin(await self._pool.open(), self.request("POST", DECODE, body))
        except OSError:
            answer.tell(Lost())
        except Exception as error:  # noqa: BLE001 - a defect is no worker's end
            report(error)
            answer.tell(Pieces((INTERNAL,)))
            answer.hang_up()

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """Render a request."""
        head = b"%b %b%b HTTP/1.1\r\n%b" % (
            *(method.encode(), self._base, path.encode(), self._prefix),
        )
        if body is None:
            return head + b"\r\n"
        length = b"content-length: %d\r\n" % len(body)
        return head + b"content-type: application/json\r\n" + length + b"\r\n" + body

    def close(self) -> None:
        """End every call."""
        self._pool.close()


def _read(item: SseEvent | Failure) -> Said:
    return item if isinstance(item, Failure) else read_said(item.data)
