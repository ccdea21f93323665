"""SHELL: tells a coordinator of system 1, every few seconds, that the worker API is there.

Whatever comes of that, the worker goes on: a heartbeat that is refused or unheard is logged, once
until that changes.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from roost.core.hosts import in_address, is_host
from roost.core.worker import WorkerBeat
from roost.dialects.system1.heartbeat import heartbeat_body
from roost.errors import fail
from roost.node.joining.pinned_tls import pinned_context
from roost.observe.logs import Log

PATH = "/coordinator/health/heartbeat"
ANSWER_MAX_BYTES = 16 * 1024
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_PLAIN = re.compile(r"[A-Za-z0-9._~/-]*")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
_ERROR = re.compile(rb'"error"\s*:\s*"([^"\\]{1,300})"')


class BeatSettings(msgspec.Struct, frozen=True):
    """Where heartbeats go, with which join token, how often, and how long one may take.

    `pin` is the fingerprint of the only certificate that the coordinator may have, "" for any that
    the system's authorities verify.
    """

    url: str
    token: str = ""
    every_s: float = 10.0
    timeout_s: float = 5.0
    pin: str = ""


class Place(msgspec.Struct, frozen=True):
    """A coordinator's address, taken apart."""

    host: str
    port: int
    tls: bool
    path: str

    @property
    def authority(self) -> str:
        """The Host header."""
        return f"{in_address(self.host)}:{self.port}"


def read_place(url: str) -> Place:
    """Read a coordinator's address; `bad_request` for what is not plain http(s)://HOST[:PORT]."""
    message = "--worker-heartbeat: write http(s)://HOST[:PORT], without user, query or fragment."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise fail("bad_request", message, param="worker.heartbeat") from None
    is_plain = _HOST.fullmatch(host) and is_host(host) and "@" not in parts.netloc
    strange = parts.query or parts.fragment or not is_plain
    if strange or parts.scheme not in ("http", "https") or not _PLAIN.fullmatch(parts.path):
        raise fail("bad_request", message, param="worker.heartbeat")
    tls = parts.scheme == "https"
    return Place(host, port or (443 if tls else 80), tls, parts.path.rstrip("/") + PATH)


class Beats:
    """Sends heartbeats; `run` is its life. `drained` is set when the worker takes nothing new."""

    def __init__(
        self,
        settings: BeatSettings,
        tell: Callable[[], WorkerBeat],
        drained: asyncio.Event,
        log: Log,
    ) -> None:
        self._settings = settings
        self._place = read_place(settings.url)
        self._tell = tell
        self._drained = drained
        self._log = log
        self._last = ""

    async def run(self) -> None:
        """Send one at once, one when the worker begins to drain, and one every `every_s`."""
        told = False
        while True:
            told = self._drained.is_set()
            self._note(await self._send())
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.every_s):
                    await (asyncio.Event() if told else self._drained).wait()

    async def _send(self) -> str:
        """Send one; say what is wrong, "" for nothing."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answer = await self._ask(heartbeat_body(self._tell(), time.time()))
        except (OSError, asyncio.IncompleteReadError) as error:
            return f"no answer ({type(error).__name__})"
        status = _STATUS.match(answer)
        if status is None:
            return "no answer in HTTP"
        if status[1] == b"200":
            return ""
        why = _ERROR.search(answer)
        return f"status {status[1].decode()}" + (f": {why[1].decode('latin-1')}" if why else "")

    async def _ask(self, body: bytes) -> bytes:
        """Send one request on a connection of its own and read what comes, up to a limit."""
        place = self._place
        context = self._tls() if place.tls else None
        reader, writer = await asyncio.open_connection(place.host, place.port, ssl=context)
        try:
            writer.write(self._head(len(body)) + body)
            await writer.drain()
            answer = bytearray()
            while len(answer) < ANSWER_MAX_BYTES and (piece := await reader.read(4096)):
                answer += piece
            return bytes(answer)
        finally:
            writer.close()

    def _tls(self) -> ssl.SSLContext:
        pin = self._settings.pin
        return pinned_context(pin) if pin else ssl.create_default_context()

    def _head(self, length: int) -> bytes:
        place, token = self._place, self._settings.token
        lines = [f"POST {place.path} HTTP/1.1", f"Host: {place.authority}", "Connection: close"]
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def _note(self, wrong: str) -> None:
        if wrong and wrong != self._last:
            self._log.warning("heartbeat_unheard", reason=wrong)
        elif not wrong and self._last != "heard":
            self._log.info("heartbeat_heard")
        self._last = wrong or "heard"
