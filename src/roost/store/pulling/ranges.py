"""DECIDER: what to do with a server's answer to a download that may already have begun."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

Step: TypeAlias = Literal["store", "again", "complete", "retry", "refused", "missing", "failed"]

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_LENGTH = re.compile(r"bytes \*/(\d{1,19})")
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Saved(msgspec.Struct, frozen=True):
    """What is known of a download that has begun: kept beside the part file.

    `sha256` is what the file must have, in hex; `etag` the server's own name for this version.
    """

    url: str
    sha256: str | None = None
    etag: str | None = None
    total: int | None = None


class Answer(msgspec.Struct, frozen=True):
    """The parts of a server's answer that matter."""

    status: int
    content_range: str | None = None
    content_length: str | None = None
    etag: str | None = None
    sha256: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """What to do next.

    `store` the body from byte `offset` on, `total` bytes in the end (None: not known); ask `again`
    without the part; the part is `complete`; `retry` later; access is `refused`; the file is
    `missing`; or it `failed` for good.
    """

    step: Step
    offset: int = 0
    total: int | None = None


def can_resume(saved: Saved | None, url: str, sha256: str | None) -> bool:
    """Whether bytes of an earlier attempt may begin the file that is wanted now.

    Either the digest is the same, so that a wrong mixture cannot pass, or the address is and the
    server can tell versions apart.
    """
    if saved is None:
        return False
    if sha256 is not None:
        return saved.sha256 == sha256
    return saved.url == url and (saved.sha256 is not None or is_strong(saved.etag))


def is_strong(etag: str | None) -> bool:
    """Whether an entity tag promises equal bytes; only such a tag may be sent in If-Range."""
    return etag is not None and etag.startswith('"')


def plan(answer: Answer, have: int, saved: Saved | None) -> Plan:
    """Decide about an answer to a request for the bytes from `have` on (0: for all)."""
    if answer.status in _PASSING:
        return Plan("retry")
    if answer.status in {401, 403}:
        return Plan("refused")
    if answer.status in {404, 410}:
        return Plan("missing")
    if have and _other_version(answer, saved):
        return Plan("again")
    if answer.status == 200:
        return Plan("store", 0, _number(answer.content_length))
    if answer.status == 206 and have:
        return _plan_part(answer, have, saved)
    if answer.status == 416 and have:
        match = _LENGTH.fullmatch(answer.content_range or "")
        whole = match is not None and int(match[1]) == have
        return Plan("complete", have, have) if whole else Plan("again")
    return Plan("failed")


def _other_version(answer: Answer, saved: Saved | None) -> bool:
    known = saved.sha256 if saved else None
    return None not in {known, answer.sha256} and known != answer.sha256


def _plan_part(answer: Answer, have: int, saved: Saved | None) -> Plan:
    match = _RANGE.fullmatch(answer.content_range or "")
    if match is None or int(match[1]) != have or match[3] == "*":
        return Plan("again")
    total = int(match[3])
    if int(match[2]) >= total or (saved and saved.total not in {None, total}):
        return Plan("again")
    return Plan("store", have, total)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None
