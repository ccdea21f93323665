"""SHELL: the servers of a stateless gateway, those in use and those whose last answers still run.

A name stands for one server at a time. If another one is put behind it, requests that run keep the
old one: each request holds the server that it was sent to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from roost.gateway.upstream.client import ClientLimits, ConnectionPool
from roost.gateway.upstream.headers import request_prefix
from roost.gateway.upstream.models import Listed
from roost.gateway.upstream.targets import Target


class Server:
    """One server with its connections, what is sent to it every time, and what it lists."""

    def __init__(self, target: Target, limits: ClientLimits) -> None:
        self.name = target.name
        self.target = target
        self.label = target.name.encode()
        self.base = target.base.encode()
        self.prefix = request_prefix(target)
        self.connections = ConnectionPool(target, limits)
        self.suspected = asyncio.Event()
        self.listed: tuple[Listed, ...] | None = None


class Servers:
    """All servers by name."""

    def __init__(self, targets: Iterable[Target], limits: ClientLimits) -> None:
        self._limits = limits
        self._current = {target.name: Server(target, limits) for target in targets}
        self._old: list[Server] = []

    def __getitem__(self, name: str) -> Server:
        """Return the server behind a name."""
        return self._current[name]

    @property
    def current(self) -> tuple[Server, ...]:
        """The servers that have a name now."""
        return tuple(self._current.values())

    def is_current(self, server: Server) -> bool:
        """Whether the pool still knows this server: what others do says nothing about anybody."""
        return self._current.get(server.name) is server

    def put(self, target: Target) -> Server:
        """Put a server behind its name, instead of whichever stands there."""
        self.forget(target.name)
        server = self._current[target.name] = Server(target, self._limits)
        return server

    def forget(self, name: str) -> None:
        """Take a name away; what runs there goes on."""
        old = self._current.pop(name, None)
        if old is not None:
            self._old.append(old)

    def sweep(self, now: float) -> None:
        """Close connections that were kept unused for too long."""
        for server in (*self._current.values(), *self._old):
            server.connections.sweep(now)
        if self._old:
            self._old = [old for old in self._old if old.connections.open_connections]

    def close(self) -> None:
        """Close every connection."""
        for server in (*self._current.values(), *self._old):
            server.connections.close()
