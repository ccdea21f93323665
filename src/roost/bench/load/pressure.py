"""SHELL: how full a server says it is while it is loaded, where it says that at all.

`GET /coordinator/stats` is asked, which system 1 had and roost has; other servers have none.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Coroutine
from typing import TypeVar

import msgspec

from roost.gateway.upstream.targets import Target

PATH = "/coordinator/stats"
ASK_S = 5.0
Result = TypeVar("Result")


class Pressure(msgspec.Struct, frozen=True):
    """The most that was seen of both, in percent of what there is room for; None was never told."""

    sessions_pct: float | None = None
    kv_pct: float | None = None

    @property
    def most_pct(self) -> float:
        """The larger of both; 0 where neither was told."""
        return max(self.sessions_pct or 0.0, self.kv_pct or 0.0)


class _Cluster(msgspec.Struct):
    session_capacity_pct: float | None = None
    kv_cache_capacity_pct: float | None = None


class _Stats(msgspec.Struct):
    cluster: _Cluster


class Gauge:
    """Looks at one server again and again."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None, poll_s: float) -> None:
        self._target = target
        self._tls = tls
        self._poll_s = poll_s
        self._seen: list[_Cluster] = []

    async def during(self, action: Coroutine[object, object, Result]) -> tuple[Result, Pressure]:
        """Wait for something, and return the most that was seen meanwhile as well."""
        self._seen = []
        async with asyncio.TaskGroup() as group:
            acting = group.create_task(action)
            watching = group.create_task(self._watch())
            acting.add_done_callback(lambda _: watching.cancel())
        return acting.result(), self._most()

    async def _watch(self) -> None:
        """Look until told to stop; who has no such page is not asked again."""
        while (found := await asyncio.to_thread(self._look)) is not None:
            self._seen.append(found)
            await asyncio.sleep(self._poll_s)

    def _look(self) -> _Cluster | None:
        target = self._target
        scheme = "https" if target.tls else "http"
        url = f"{scheme}://{target.authority}{target.base}{PATH}"
        headers = {"authorization": f"Bearer {target.key}"} if target.key else {}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, see above
        try:
            with urllib.request.urlopen(request, timeout=ASK_S, context=self._tls) as reply:  # noqa: S310
                return msgspec.json.decode(reply.read(), type=_Stats).cluster
        except (OSError, urllib.error.URLError, msgspec.MsgspecError, ValueError):
            return None

    def _most(self) -> Pressure:
        sessions, kv = (
            [value for value in values if value is not None]
            for values in (
                [one.session_capacity_pct for one in self._seen],
                [one.kv_cache_capacity_pct for one in self._seen],
            )
        )
        return Pressure(max(sessions, default=None), max(kv, default=None))
