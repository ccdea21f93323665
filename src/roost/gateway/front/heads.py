"""DECIDER: whether a request head is one that every HTTP implementation reads the same way.

Request smuggling lives where two readers disagree, so what is ambiguous is refused, not repaired.
The parser has already refused bad framing; see `gateway.http1`.
"""

from __future__ import annotations

import msgspec

from roost.errors import Failure
from roost.gateway.front.access import Fields
from roost.gateway.front.refusals import too_large

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_SINGLE = _FRAMING | {
    *(b"host", b"content-encoding", b"content-type", b"expect", b"upgrade", b"origin"),
    *(b"authorization", b"x-api-key", b"idempotency-key", b"last-event-id"),
}
_OURS = b"x-roost-"
"""With this begin headers that say what a request asks for; each of them says one thing."""
_OFFER = frozenset({b"connection", b"upgrade", b"http2-settings"})
_HEAD_OVERHEAD_BYTES = 4
"""What a header line has besides name and value: `: ` and CRLF."""


class Head(msgspec.Struct, frozen=True):
    """A request head as it came, names in lower case; `fields` is the last of each name."""

    method: str
    target: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    fields: Fields


def bare(name: bytes, value: bytes) -> bytes:
    """Return a value without the white space around it, which is no part of it.

    Where it frames the body it stays, to be refused: not every reader reads it that way.
    """
    return value if name in _FRAMING else value.strip(b" \t")


def size_bytes(head: Head) -> int:
    """Return how long the head was, give or take optional white space."""
    lines = sum(len(name) + len(value) for name, value in head.headers)
    return len(head.target) + lines + _HEAD_OVERHEAD_BYTES * len(head.headers)


def check(head: Head, body_max_bytes: int) -> Failure | None:
    """Return why this head is refused, or None. What it refuses ends the connection."""
    return _check_line(head) or _check_framing(head) or _check_body(head, body_max_bytes)


def _bad(message: str) -> Failure:
    return Failure("bad_request", message)


def _check_line(head: Head) -> Failure | None:
    if head.version not in {"1.0", "1.1"}:
        return _bad("Speak HTTP/1.1.")
    if head.method == "CONNECT":
        return Failure("method_not_allowed", "This server is no proxy.")
    if not head.target.isascii():
        return _bad("The address has bytes that must be percent-encoded.")
    if head.version == "1.1" and b"host" not in head.fields:
        return _bad("HTTP/1.1 needs a Host header.")
    authority = authority_of(head.target)
    if authority is not None and authority != head.fields.get(b"host"):
        return _bad("The address names another host than the Host header.")
    return None


def authority_of(target: bytes) -> bytes | None:
    """Return the authority of an absolute-form target, None for every other form."""
    if target.startswith(b"/") or target == b"*":
        return None
    _, found, rest = target.partition(b"://")
    return rest.partition(b"/")[0].partition(b"?")[0] if found else b""


def path_of(target: bytes) -> tuple[bytes, bytes]:
    """Split a target into path and query, of the absolute form too."""
    path, _, query = target.partition(b"?")
    if not path.startswith(b"/") and path != b"*":
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return path, query


def _check_framing(head: Head) -> Failure | None:
    fields = head.fields
    if len(fields) != len(head.headers):
        seen: set[bytes] = set()
        for name, _ in head.headers:
            if name in seen and (name in _SINGLE or name.startswith(_OURS)):
                return _bad("A header that may come once came twice.")
            seen.add(name)
    coding = fields.get(b"transfer-encoding")
    if coding is None:
        return None
    if b"content-length" in fields:
        return _bad("Content-Length and Transfer-Encoding exclude each other.")
    if coding.lower() != b"chunked" or head.version == "1.0":
        return _bad("The only Transfer-Encoding accepted is chunked, in HTTP/1.1.")
    return None


def _check_body(head: Head, body_max_bytes: int) -> Failure | None:
    coding = head.fields.get(b"content-encoding", b"identity").lower()
    if coding not in {b"identity", b""}:
        return Failure("unsupported_encoding", "Send the body without Content-Encoding.")
    length = head.fields.get(b"content-length", b"0")
    if not length.isdigit():
        return _bad("Content-Length is no number.")
    if len(length) > 18 or int(length) > body_max_bytes:
        return too_large(body_max_bytes)
    return None


def asks_first(head: Head) -> bool:
    """Whether the client may keep the body back until it has heard that it is wanted."""
    fields = head.fields
    if head.version != "1.1" or fields.get(b"expect", b"").lower() != b"100-continue":
        return False
    return b"transfer-encoding" in fields or int(fields.get(b"content-length", b"0")) > 0


def wants_websocket(head: Head) -> bool:
    """Whether this is the beginning of a WebSocket."""
    return head.method == "GET" and head.fields.get(b"upgrade", b"").lower() == b"websocket"


def without_offer(head: Head) -> bytes:
    """Return the head as bytes, without its offer to speak something else."""
    line = b"%b %b HTTP/%b\r\n" % (head.method.encode(), head.target, head.version.encode())
    kept = [b"%b: %b\r\n" % header for header in head.headers if header[0] not in _OFFER]
    return b"".join([line, *kept, b"\r\n"])
