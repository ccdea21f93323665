"""DECIDER: which model a request names, what a server lists, and several lists as one.

Nothing here changes a byte: a body is looked into and passed on as it came.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

LIST_MAX_BYTES = 1024 * 1024
"""A longer list is not read; its server counts as one that tells nothing."""


class Listed(msgspec.Struct, frozen=True):
    """One model of a server, with the server's own words about it."""

    id: str
    entry: msgspec.Raw


class _Named(msgspec.Struct):
    model: str | None = None


class _Entry(msgspec.Struct):
    id: str


class _List(msgspec.Struct):
    data: list[msgspec.Raw]


def named_model(body: bytes) -> str | None:
    """Return the model that a request names; None where it names none or is not readable.

    What is wrong with such a body is for the server to say.
    """
    try:
        return msgspec.json.decode(body, type=_Named).model
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_list(body: bytes) -> tuple[Listed, ...] | None:
    """Read the answer of `/v1/models`; None where it is not in OpenAI's shape."""
    try:
        entries = msgspec.json.decode(body, type=_List).data
        return tuple(Listed(msgspec.json.decode(e, type=_Entry).id, e.copy()) for e in entries)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def merged(lists: Iterable[tuple[Listed, ...]]) -> bytes:
    """Render several lists as one; of two entries with one id the first is kept."""
    entries: dict[str, msgspec.Raw] = {}
    for listed in lists:
        for one in listed:
            entries.setdefault(one.id, one.entry)
    return msgspec.json.encode({"object": "list", "data": list(entries.values())})
