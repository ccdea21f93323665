"""SHELL: asks servers, at rest every `probe_s`, whether they can serve; at once after a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import RequestId
from roost.gateway.front.defects import report
from roost.gateway.front.rendering import Headers
from roost.gateway.upstream.headers import request_head
from roost.gateway.upstream.models import LIST_MAX_BYTES, Listed, read_list
from roost.gateway.upstream.routes import MODELS

if TYPE_CHECKING:
    from roost.gateway.upstream.proxy import Proxy
    from roost.gateway.upstream.servers import Server

USUAL_PATH = "/health"
LOST = 0
"""The status of no answer."""
_PAUSE_S = 0.1
"""Between a failure and the probe that may clear the server of it."""
_GUARDED = frozenset({401, 403})


class ProbePace(msgspec.Struct, frozen=True):
    """What is asked and how often: `path` "" tries the usual ones.

    `probe_s` lies between probes and is how long an answer may take; a healthy server is asked for
    its models every `models_s`.
    """

    path: str = ""
    probe_s: float = 2.0
    models_s: float = 30.0


class _Question:
    """Takes an answer: its status, and up to `body_max` bytes of its body."""

    def __init__(self, body_max: int) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._room = body_max
        self._body: list[bytes] = []
        self._seen = LOST

    def on_answer(self, status: int, headers: Headers) -> None:
        self._seen = status

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        self._room -= len(data)
        if self._room >= 0:
            self._body.append(data)
        if last and not self.answer.done():
            self.answer.set_result((self._seen, b"".join(self._body) if self._room >= 0 else b""))

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        if not self.answer.done():
            self.answer.set_result((LOST, b""))


async def _ask(server: Server, path: str, timeout_s: float, body_max: int = 0) -> tuple[int, bytes]:
    """Return status and body of GET `path`; the status is 0 if there is no answer in time.

    A probe opens a connection of its own: that a kept one still works says little about a server
    whose listener is gone. A body that is longer than `body_max` is not kept.
    """
    question = _Question(body_max)
    full = server.base + path.encode()
    head = request_head("GET", full, server.prefix, {}, RequestId("probe"), None)
    try:
        async with asyncio.timeout(timeout_s):
            connection = await server.connections.open()
            try:
                connection.ask(head, question, once=True)
                return await question.answer
            finally:
                connection.abort()
    except OSError:
        return LOST, b""
    except Exception as error:  # noqa: BLE001 - probing goes on: nothing else brings a server back
        report(error)
        return LOST, b""


async def probe(server: Server, path: str, timeout_s: float) -> bool:
    """Say whether a server is ready: 2xx, or a guarded address that asks for a key.

    With an empty `path` that is `/health` or, where there is no such thing, `/v1/models`.
    """
    status, _ = await _ask(server, path or USUAL_PATH, timeout_s)
    if status == 404 and not path:
        status, _ = await _ask(server, MODELS, timeout_s)
    return 200 <= status < 300 or status in _GUARDED


class Told(msgspec.Struct, frozen=True):
    """What a server says of its models: `listed` is None where it does not tell.

    `answered` is whether it said anything at all in time.
    """

    listed: tuple[Listed, ...] | None
    answered: bool


async def ask_models(server: Server, timeout_s: float) -> Told:
    """Ask a server for its models."""
    status, body = await _ask(server, MODELS, timeout_s, LIST_MAX_BYTES)
    return Told(read_list(body) if status == 200 else None, status != LOST)


async def keep_probing(proxy: Proxy, server: Server, pace: ProbePace) -> None:
    """Probe one server for ever."""
    ok, listed_s = False, 0.0
    while True:
        was_ok = ok and not server.suspected.is_set()
        server.suspected.clear()
        started = proxy.now()
        ok = await probe(server, pace.path, pace.probe_s)
        if ok and (not was_ok or started - listed_s >= pace.models_s):
            # Before it gets its first request: it may have come back with another model.
            told = await ask_models(server, pace.probe_s)
            # Who is only slow, or has yet to learn what it serves, is asked with the next probe.
            is_final = told.answered and told.listed != ()
            listed_s = started if is_final else -pace.models_s
            proxy.on_listed(server, told.listed)
        proxy.on_probed(server, started, ok=ok)
        await _rest(server, pace.probe_s, suspicious=ok)


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
