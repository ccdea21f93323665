"""DECIDER: which model a request names, what a server lists, and several lists as one.

A body is looked into and passed on as it came, unless it names a model by another name than its
own: then that is put in, and everything else stays as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

LIST_MAX_BYTES = 1024 * 1024
"""A longer list is not read; its server counts as one that tells nothing."""

NO_ALIASES: Mapping[str, str] = MappingProxyType({})


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


def renamed(body: bytes, model: str) -> bytes:
    """Put a model's own name into a request in which `named_model` has found another one."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(fields)


def read_list(body: bytes) -> tuple[Listed, ...] | None:
    """Read the answer of `/v1/models`; None where it is not in OpenAI's shape."""
    try:
        entries = msgspec.json.decode(body, type=_List).data
        return tuple(Listed(msgspec.json.decode(e, type=_Entry).id, e.copy()) for e in entries)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def merged(lists: Iterable[tuple[Listed, ...]], aliases: Mapping[str, str] = NO_ALIASES) -> bytes:
    """Render several lists as one; of two entries with one id the first is kept.

    Other names follow, each with what is said of its model, where that is listed.
    """
    entries: dict[str, msgspec.Raw] = {}
    for listed in lists:
        for one in listed:
            entries.setdefault(one.id, one.entry)
    for name, model in aliases.items():
        if model in entries:
            entries.setdefault(name, _named(entries[model], name))
    return msgspec.json.encode({"object": "list", "data": list(entries.values())})


def _named(entry: msgspec.Raw, name: str) -> msgspec.Raw:
    fields = msgspec.json.decode(entry, type=dict[str, msgspec.Raw])
    fields["id"] = msgspec.Raw(msgspec.json.encode(name))
    return msgspec.Raw(msgspec.json.encode(fields))
