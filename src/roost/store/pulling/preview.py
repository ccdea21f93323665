"""SHELL: what a model of a hub would be, from its headers alone: a few megabytes in place of all.

Headers are judged as those of installed files are; nothing is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from roost.errors import RoostError, fail
from roost.store.models.describing import described_as
from roost.store.models.inspection import FIRST_READ_BYTES
from roost.store.models.parts import check_shards
from roost.store.models.vocabulary import read_facts
from roost.store.pulling.hub import look
from roost.store.pulling.pull import files_of
from roost.store.pulling.sources import HfSource
from roost.store.pulling.transfer import BrokenError, get
from roost.text import ggml
from roost.text.gguf import TRUNCATED, Header, read_header

if TYPE_CHECKING:
    from roost.core.model import Manifest
    from roost.store.pulling.pull import PullSettings

GROWTH = 4
_SPAN = re.compile(r"bytes 0-\d+/(\d{1,15})")


def preview_hub(source: HfSource, file: str, settings: PullSettings) -> Manifest:
    """Say what pulling this would install; without digest and path. Raises what pulling raises."""
    settings.require_network()
    listing = look(source, settings.hub_endpoint, settings.hub_token, settings.limits)
    files = files_of(source, listing, file)
    revision = listing.revision if listing else "main"
    urls = [source.beside(one).url(settings.hub_endpoint, revision) for one in files]
    try:
        looked = [_header(url, settings) for url in urls]
    except BrokenError as broken:
        raise fail("upstream_error", f"The hub cannot be asked: {broken}. Try later.") from broken
    headers = [header for _, header, _ in looked]
    check_shards(headers)
    weights = sum(header.data_bytes for header in headers)
    facts = msgspec.structs.replace(read_facts(looked[0][0], headers[0]), weight_bytes=weights)
    return described_as(files[0].rpartition("/")[2], facts, sum(size for _, _, size in looked))


def _header(url: str, settings: PullSettings) -> tuple[bytes, Header, int]:
    """Fetch as much of a file as its header needs; returns that, and the length of the file."""
    wanted = FIRST_READ_BYTES
    while True:
        head, size = _beginning(url, wanted, settings)
        try:
            return head, read_header(head, size), size
        except RoostError as error:
            more = len(head) < min(size, ggml.MAX_HEADER_BYTES)
            if error.failure.message != TRUNCATED or not more:
                raise
        wanted = min(wanted * GROWTH, ggml.MAX_HEADER_BYTES)


def _beginning(url: str, wanted: int, settings: PullSettings) -> tuple[bytes, int]:
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
