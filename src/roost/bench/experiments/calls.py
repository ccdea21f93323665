"""SHELL: one call of a server's API with JSON, whatever its answer is."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Mapping
from contextlib import closing

import msgspec

from roost.bench.drills.stage import Counts, FleetView, Running

REPLY_S, SEEN_S = 180.0, 60.0


class Reply(msgspec.Struct, frozen=True):
    """The status, the headers by lower-case names, and the body; status 0 is no answer."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def reason(self) -> str:
        """What an error is called; "" where there is none."""
        try:
            found = json.loads(self.raw)
        except ValueError:
            return ""
        error = found.get("error", found) if isinstance(found, dict) else {}
        words = error if isinstance(error, dict) else {}
        return str(words.get("code") or words.get("reason") or words.get("type") or "")


async def view_with(server: Running, holds: Callable[[Counts], bool], what: str) -> FleetView:
    """Wait until a server's counts have something; `TimeoutError` with the last look."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + SEEN_S
    while not holds((view := await server.view()).statistics):
        if loop.time() > deadline_s:
            raise TimeoutError(f"within {SEEN_S:g} s: {what}; {view}")
        await asyncio.sleep(0.02)
    return view


async def call(port: int, path: str, body: Mapping[str, object] | None = None) -> Reply:
    """GET a path, or POST a body to it."""
    return await asyncio.to_thread(_call, port, path, body)


def _call(port: int, path: str, body: Mapping[str, object] | None) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_S)
    with closing(connection):
        try:
            if body is None:
                connection.request("GET", path)
            else:
                kind = {"content-type": "application/json"}
                connection.request("POST", path, json.dumps(body), kind)
            reply = connection.getresponse()
            raw = reply.read()
        except (OSError, http.client.HTTPException):
            return Reply(0, {}, b"")
        return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, raw)
