"""DECIDER: reply heads and error bodies as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from roost.errors import Failure

Headers: TypeAlias = list[tuple[bytes, bytes]]
ErrorBody: TypeAlias = Callable[[Failure], tuple[int, bytes]]
"""From a failure to the status and the JSON body of a dialect."""

Errors: TypeAlias = Callable[[Failure, bytes, str], tuple[int, bytes]]
"""The same, where the path that was asked for decides, and the id of the request is told."""

JSON_BODY: Headers = [(b"content-type", b"application/json")]
"""Headers of a reply whose body is JSON."""

EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
"""Headers without which a reverse proxy holds a stream back and releases it in one lump."""

JSON_LINES: Headers = [(b"content-type", b"application/x-ndjson"), *EVENT_STREAM[1:]]
"""The same for a stream of lines, each of which is JSON."""

LONGEST_RETRY_S = 120
"""The most that a `retry-after` says; what takes longer is worth no retry."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_PHRASES = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    304: "Not Modified",
    307: "Temporary Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    499: "Client Closed Request",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    529: "Overloaded",
}


def status_line(status: int) -> bytes:
    """Return the first line of a reply."""
    return b"HTTP/1.1 %d %s\r\n" % (status, _PHRASES.get(status, "Status").encode())


_STATUS_LINES = {status: status_line(status) for status in _PHRASES}


def head_bytes(status: int, headers: Headers, common: bytes) -> bytes:
    """Render a reply head; `common` are finished header lines that every reply has."""
    first = _STATUS_LINES.get(status) or status_line(status)
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"".join([first, *lines, common, b"\r\n"])


def safe(headers: Headers) -> bool:
    """Whether no header can end its line early and smuggle another one in."""
    return not any(
        bad in part for header in headers for part in header for bad in (b"\r", b"\n", b"\0")
    )


def id_lines(request_id: str) -> bytes:
    """Return the three headers under which clients look for the id of their request."""
    value = request_id.encode()
    return b"x-request-id: %b\r\nrequest-id: %b\r\nx-roost-request-id: %b\r\n" % (
        value,
        value,
        value,
    )


def failure_headers(failure: Failure) -> Headers:
    """Return the headers that belong to a failure whatever the dialect."""
    headers = [*JSON_BODY]
    if failure.retry_after_s is not None:
        headers.append((b"retry-after", str(failure.retry_after_s).encode()))
    if failure.reason == "unauthorized":
        headers.append((b"www-authenticate", b"Bearer"))
    if failure.reason == "insufficient_quota" and failure.retry_after_s == LONGEST_RETRY_S:
        # SDKs heed it: to knock again every two minutes until tomorrow helps nobody.
        headers.append((b"x-should-retry", b"false"))
    return headers
