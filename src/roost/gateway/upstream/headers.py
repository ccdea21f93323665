"""DECIDER: which headers cross the gateway; both directions are rebuilt from lists of names.

What is not listed stays behind: hop-by-hop fields, the client's key and cookies, the server's CORS
headers (they would override ours) and whatever else a connection is about.
"""

from __future__ import annotations

from roost.core.ids import RequestId
from roost.gateway.front.access import Fields
from roost.gateway.front.rendering import EVENT_STREAM, Headers
from roost.gateway.upstream.targets import Target

_ASKED = (
    *(b"content-type", b"accept", b"user-agent", b"idempotency-key"),
    *(b"anthropic-version", b"anthropic-beta", b"openai-beta", b"traceparent", b"tracestate"),
    *(b"x-roost-session", b"x-roost-affinity", b"x-roost-on-loss", b"x-roost-class"),
)
_ANSWERED = frozenset(
    {
        *(b"content-type", b"cache-control", b"content-encoding", b"content-language"),
        *(b"retry-after", b"x-should-retry", b"openai-version", b"openai-processing-ms"),
        *(b"x-roost-placement", b"x-roost-cached-tokens", b"x-roost-session"),
    }
)
_EVENTS = b"text/event-stream"
_STREAM_NAMES = frozenset(name for name, _ in EVENT_STREAM)


def request_prefix(target: Target) -> bytes:
    """Return the header lines that every request to this server has."""
    lines = b"host: %b\r\nconnection: keep-alive\r\n" % target.authority.encode()
    if target.key is not None:
        lines += b"authorization: Bearer %b\r\n" % target.key.encode()
    return lines


def request_head(
    method: str,
    path: bytes,
    prefix: bytes,
    asked: Fields,
    request_id: RequestId,
    body_bytes: int | None,
) -> bytes:
    """Render the head of a request to a server; `body_bytes` None for no body at all."""
    lines = [b"%b %b HTTP/1.1\r\n" % (method.encode(), path), prefix]
    lines += [b"%b: %b\r\n" % (name, asked[name]) for name in _ASKED if name in asked]
    lines.append(b"x-request-id: %b\r\n" % request_id.encode())
    if body_bytes is not None:
        lines.append(b"content-length: %d\r\n" % body_bytes)
    lines.append(b"\r\n")
    return b"".join(lines)


def is_events(headers: Headers) -> bool:
    """Whether an answer is a stream of events."""
    return any(n == b"content-type" and v.lower().startswith(_EVENTS) for n, v in headers)


def reply_headers(headers: Headers, node: bytes, *, events: bool) -> Headers:
    """Return what the client gets of an answer's headers (names in lower case)."""
    kept = [h for h in headers if h[0] in _ANSWERED]
    if events:
        kept = [*EVENT_STREAM, *(h for h in kept if h[0] not in _STREAM_NAMES)]
    kept.append((b"x-roost-node", node))
    return kept
