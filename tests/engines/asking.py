"""Asks a server, as these tests do."""

from __future__ import annotations

import urllib.request


def post(url: str, body: bytes) -> tuple[int, bytes]:
    """Ask for a chat."""
    asked = urllib.request.Request(f"{url}/v1/chat/completions", body)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=300) as reply:  # noqa: S310
        return reply.status, reply.read()
