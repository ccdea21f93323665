"""SHELL: what a model of a hub would be, from its headers alone: a few megabytes in place of all.

Headers are judged as those of installed files are; nothing is kept.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from roost.errors import fail
from roost.store.models.describing import described_as
from roost.store.models.inspection import facts_in, grown_header
from roost.store.pulling.hub import look
from roost.store.pulling.pull import files_of
from roost.store.pulling.sources import HfSource
from roost.store.pulling.transfer import BrokenError, get

if TYPE_CHECKING:
    from roost.core.model import Manifest
    from roost.store.pulling.pull import PullSettings

_SPAN = re.compile(r"bytes 0-\d+/(\d{1,15})")


def preview_hub(source: HfSource, file: str, settings: PullSettings) -> Manifest:
    """Say what pulling this would install; without digest and path. Raises what pulling raises."""
    settings.require_network()
    listing = look(source, settings.hub_endpoint, settings.hub_token, settings.limits)
    files = files_of(source, listing, file)
    revision = listing.revision if listing else "main"
    urls = [source.beside(one).url(settings.hub_endpoint, revision) for one in files]
    try:
        facts, size_bytes = facts_in(
            grown_header(partial(_beginning, settings, url)) for url in urls
        )
    except BrokenError as broken:
        raise fail("upstream_error", f"The hub cannot be asked: {broken}. Try later.") from broken
    return described_as(files[0].rpartition("/")[2], facts, size_bytes)


def _beginning(settings: PullSettings, url: str, wanted: int) -> tuple[bytes, int]:
    """Read the first bytes of a file, from servers that know ranges and from those that do not."""
    asked = {"Range": f"bytes=0-{wanted - 1}"}
    with get(url, asked, settings.hub_token, settings.limits) as reply:
        if reply.status in (401, 403):
            raise fail("unauthorized", "The hub refuses access. The model may need a token.")
        if reply.status == 404:
            raise fail("not_found", "The hub has no such file. Check the name.")
        span = _SPAN.fullmatch(reply.header("Content-Range") or "")
        told = span[1] if reply.status == 206 and span else reply.header("Content-Length") or ""
        if reply.status not in (200, 206) or not told.isdecimal():
            raise BrokenError(f"the server answers with status {reply.status}")
        head = b""
        while len(head) < wanted and (chunk := reply.read(wanted - len(head))):
            head += chunk
        return head, int(told)
