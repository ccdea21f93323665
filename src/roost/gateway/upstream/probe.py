"""SHELL: asks servers, at rest every `probe_s`, whether they can serve; at once after a failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import RequestId
from roost.gateway.upstream.headers import request_head
from roost.gateway.upstream.models import LIST_MAX_BYTES, Listed, read_list
from roost.gateway.upstream.routes import MODELS
from roost.gateway.upstream.whole import Whole, ask_whole

if TYPE_CHECKING:
    from roost.gateway.upstream.proxy import Proxy
    from roost.gateway.upstream.servers import Server

USUAL_PATH = "/health"
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


async def _ask(server: Server, path: str, timeout_s: float) -> Whole | None:
    full = server.base + path.encode()
    head = request_head("GET", full, server.prefix, {}, RequestId("probe"), None)
    return await ask_whole(server.connections, head, timeout_s, LIST_MAX_BYTES)


async def probe(server: Server, path: str, timeout_s: float) -> bool:
    """Say whether a server is ready: 2xx, or a guarded address that asks for a key.

    With an empty `path` that is `/health` or, where there is no such thing, `/v1/models`.
    """
    told = await _ask(server, path or USUAL_PATH, timeout_s)
    if told is not None and told.status == 404 and not path:
        told = await _ask(server, MODELS, timeout_s)
    return told is not None and (200 <= told.status < 300 or told.status in _GUARDED)


class Told(msgspec.Struct, frozen=True):
    """What a server says of its models: `listed` is None where it does not tell.

    `answered` is whether it said anything at all in time.
    """

    listed: tuple[Listed, ...] | None
    answered: bool


async def ask_models(server: Server, timeout_s: float) -> Told:
    """Ask a server for its models."""
    told = await _ask(server, MODELS, timeout_s)
    if told is None:
        return Told(None, answered=False)
    return Told(read_list(told.body) if told.status == 200 else None, answered=True)


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
