"""SHELL: a light client: one chat on one connection, every arrival stamped, leaving when told to.

A latency counts from the moment at which the request was due, not from when this client got round
to it; `lag_s` says how far apart the two were.
"""

from __future__ import annotations

import asyncio
import json
import random
from time import monotonic
from typing import cast

import msgspec

from roost.bench.drills.answers import Answer, End


class Chat(msgspec.Struct, frozen=True):
    """A streamed chat to ask for, and when to break off: after so long or so many events.

    `half` sends half of the request and no more. `leave_at_done` breaks off at the last event.
    `pause_s` passes between two looks at the socket. With `with_text` the answer has its text.
    With a `key` it is asked for as its holder. Without `on_loss` nothing is said that only roost
    knows.
    """

    port: int
    model: str
    content: str
    max_tokens: int = 4000
    ignore_eos: bool = False
    leave_after_s: float | None = None
    leave_after_events: int | None = None
    leave_at_done: bool = False
    half: bool = False
    timeout_s: float = 60.0
    on_loss: str = "error"
    pause_s: float = 0.0
    with_text: bool = False
    key: str = ""

    def request(self) -> bytes:
        """Return the bytes to send."""
        body: dict[str, object] = {
            "model": self.model,
            "stream": True,
            "max_tokens": self.max_tokens,
            "messages": [{"role": "user", "content": self.content}],
        }
        if self.on_loss:
            body["roost"] = {"on_loss": self.on_loss}
        raw = json.dumps({**body, "ignore_eos": True} if self.ignore_eos else body).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n"
            + (f"authorization: Bearer {self.key}\r\n" if self.key else "")
            + "connection: close\r\n\r\n"
        ).encode()
        whole = head + raw
        return whole[: len(whole) // 2] if self.half else whole


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()


class _Chunk(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()


class _Connection(asyncio.Protocol):
    """Sends at once, keeps what arrives with its time, and breaks off where the chat says so."""

    def __init__(self, chat: Chat, loop: asyncio.AbstractEventLoop) -> None:
        self.over: asyncio.Future[None] = loop.create_future()
        self.sent_s = self.ended_s = 0.0
        self.raw = b""
        self.stamps: list[float] = []
        self.left = False
        self._body_at = 0
        self._chat = chat
        self._loop = loop
        self._clock = monotonic
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._chat.request())
        self.sent_s = self._clock()
        if self._chat.half:
            self.leave()

    def data_received(self, data: bytes) -> None:
        """Keep it with its time of arrival."""
        self.raw += data
        if not self._body_at and (end := self.raw.find(b"\r\n\r\n")) >= 0:
            self._body_at = end + 4
        if self._body_at and len(self.raw) > self._body_at:
            self.stamps.append(self._clock())
        if self._chat.pause_s and self._transport is not None:
            self._transport.pause_reading()
            self._loop.call_later(self._chat.pause_s, self._look_again)
        most = self._chat.leave_after_events
        if most is not None and self.raw.count(b"data: ") > most:
            self.leave()
        if self._chat.leave_at_done and b"[DONE]" in self.raw:
            self.leave()

    def _look_again(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.ended_s = self._clock()
        if not self.over.done():
            self.over.set_result(None)

    def leave(self) -> None:
        """Break the connection off, as a client that is killed does."""
        self.left = True
        if self._transport is not None:
            self._transport.abort()


async def ask(chat: Chat, due_s: float | None = None) -> Answer:
    """Ask, and wait for how it ends; never raises for what a server does."""
    loop = asyncio.get_running_loop()
    due_s = monotonic() if due_s is None else due_s
    try:
        _, connection = await loop.create_connection(
            lambda: _Connection(chat, loop), "127.0.0.1", chat.port
        )
    except OSError:
        return Answer(due_s, monotonic(), monotonic(), "silent")
    try:
        async with asyncio.timeout(chat.leave_after_s or chat.timeout_s):
            await connection.over
    except TimeoutError:
        connection.leave()
        connection.left = chat.leave_after_s is not None
        connection.ended_s = monotonic()
    except asyncio.CancelledError:
        connection.leave()
        raise
    return _judged(connection, due_s, with_text=chat.with_text)


def _judged(connection: _Connection, due_s: float, *, with_text: bool) -> Answer:
    head, found, body = connection.raw.partition(b"\r\n\r\n")
    times = (due_s, connection.sent_s, connection.ended_s)
    if not found:
        return Answer(*times, "left" if connection.left else "silent")
    status = int(head.split(b" ", 2)[1])
    fields = _fields(head)
    plain, whole = _unchunked(body) if b"chunked" in head.lower() else (body, True)
    events = [line[6:] for line in plain.split(b"\n") if line.startswith(b"data: ")]
    errors = [event for event in events if event.startswith(b'{"error"')]
    end: End = "left" if connection.left else _end(status, events, errors, whole=whole)
    return Answer(
        *times,
        end,
        status=status,
        node=fields.get("x-roost-node", ""),
        code=_code(errors[0] if errors else plain if status != 200 else b""),
        retry_after=fields.get("retry-after", ""),
        stamps=tuple(connection.stamps),
        done_marks=events.count(b"[DONE]"),
        error_events=len(errors),
        text=_text(events) if with_text else "",
        clean=whole,
    )


def _text(events: list[bytes]) -> str:
    chunks = (msgspec.json.decode(event, type=_Chunk) for event in events if event[:1] == b"{")
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def _end(status: int, events: list[bytes], errors: list[bytes], *, whole: bool) -> End:
    if status != 200:
        return "refused"
    if errors:
        return "error"
    return "complete" if whole and b"[DONE]" in events else "cut"


def _fields(head: bytes) -> dict[str, str]:
    lines = [line.decode("latin-1").partition(":") for line in head.split(b"\r\n")[1:]]
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _code(raw: bytes) -> str:
    try:
        error = json.loads(raw)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("code") or error.get("type"))


def _unchunked(body: bytes) -> tuple[bytes, bool]:
    """Take the framing of chunks off; False where the last chunk is missing."""
    parts: list[bytes] = []
    at = 0
    while (line_end := body.find(b"\r\n", at)) >= 0:
        size = int(body[at:line_end], 16)
        if size == 0:
            return b"".join(parts), True
        parts.append(body[line_end + 2 : line_end + 2 + size])
        at = line_end + 4 + size
    return b"".join(parts), False


def scripted(dice: random.Random, pieces: int, delay_ms: float, **more: float) -> str:
    """Return a prompt that makes the scripted backend say so many pieces, so far apart.

    The words before differ each time, so that no prefix is found again.
    """
    script = {"pieces": ["tick "] * pieces, "delay_ms": delay_ms, **more}
    return f"{dice.getrandbits(64):016x}\n@script {json.dumps(script)}"
