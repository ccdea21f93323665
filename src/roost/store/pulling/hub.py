"""SHELL: asks a model hub what a repository holds."""

from __future__ import annotations

import time

from roost.errors import fail
from roost.store.pulling.listing import Listing, read_listing
from roost.store.pulling.sources import HfSource
from roost.store.pulling.transfer import BrokenError, Limits, get

LISTING_MAX_BYTES = 16 * 2**20


def look(source: HfSource, endpoint: str, token: str | None, limits: Limits) -> Listing | None:
    """Ask the hub about a repository; None where it does not know what it is asked.

    Raises `unauthorized` where it refuses, and `upstream_error` for everything else.
    """
    url = source.listing_url(endpoint)
    why = "it was not tried"
    for attempt in range(limits.attempts):
        if attempt:
            time.sleep(limits.pause_after_s(attempt))
        try:
            status, body = _ask(url, token, limits)
        except BrokenError as broken:
            why = str(broken)
            continue
        if status == 200:
            return read_listing(body)
        if status == 404:
            return None
        if status in (401, 403):
            raise fail("unauthorized", "The hub refuses access. The model may need a token.")
        why = f"the hub answers with status {status}"
    raise fail("upstream_error", f"The hub cannot be asked: {why}. Check the network.")


def _ask(url: str, token: str | None, limits: Limits) -> tuple[int, bytes]:
    with get(url, {"Accept": "application/json"}, token, limits) as reply:
        body = b""
        while chunk := reply.read(LISTING_MAX_BYTES):
            body += chunk
            if len(body) > LISTING_MAX_BYTES:
                raise fail("upstream_error", "The hub says more than any real one: refused.")
        return reply.status, body
