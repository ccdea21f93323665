"""SHELL: asks servers, at rest every `probe_s`, whether they can serve; at once after a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from roost.core.ids import RequestId
from roost.gateway.front.defects import report
from roost.gateway.front.rendering import Headers
from roost.gateway.upstream.headers import request_head

if TYPE_CHECKING:
    from roost.gateway.upstream.proxy import Proxy, Server

USUAL_PATH, OTHER_PATH = "/health", "/v1/models"
_PAUSE_S = 0.1
"""Between a failure and the probe that may clear the server of it."""
_GUARDED = frozenset({401, 403})
_LOST = 0


class _Question:
    """Takes the answer to a probe; only its status matters."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._seen = _LOST

    def on_answer(self, status: int, headers: Headers) -> None:
        self._seen = status

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        if last and not self.status.done():
            self.status.set_result(self._seen)

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        if not self.status.done():
            self.status.set_result(_LOST)


async def _status(server: Server, path: str, timeout_s: float) -> int:
    """Return the status of GET `path`, 0 if there is none in time.

    A probe opens a connection of its own: that a kept one still works says little about a server
    whose listener is gone.
    """
    question = _Question()
    full = server.base + path.encode()
    head = request_head("GET", full, server.prefix, {}, RequestId("probe"), None)
    try:
        async with asyncio.timeout(timeout_s):
            connection = await server.connections.open()
            try:
                connection.ask(head, question)
                return await question.status
            finally:
                connection.abort()
    except OSError:
        return _LOST
    except Exception as error:  # noqa: BLE001 - probing goes on: nothing else brings a server back
        report(error)
        return _LOST


async def probe(server: Server, path: str, timeout_s: float) -> bool:
    """Say whether a server is ready: 2xx, or a guarded address that asks for a key.

    With an empty `path` that is `/health` or, where there is no such thing, `/v1/models`.
    """
    status = await _status(server, path or USUAL_PATH, timeout_s)
    if status == 404 and not path:
        status = await _status(server, OTHER_PATH, timeout_s)
    return 200 <= status < 300 or status in _GUARDED


async def keep_probing(proxy: Proxy, server: Server, path: str, probe_s: float) -> None:
    """Probe one server for ever."""
    while True:
        server.suspected.clear()
        started = proxy.now()
        ok = await probe(server, path, probe_s)
        proxy.on_probed(server.name, started, ok=ok)
        await _rest(server, probe_s, suspicious=ok)


async def _rest(server: Server, probe_s: float, *, suspicious: bool) -> None:
    """Wait for the next probe; only a failure that a request has seen shortens the wait."""
    if not suspicious:
        await asyncio.sleep(probe_s)
        return
    try:
        async with asyncio.timeout(probe_s):
            await server.suspected.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_PAUSE_S)
