"""SHELL: one HTTP GET with redirects, for downloads: who may be asked, and who gets the token.

The redirects are followed here and not by the library, for three rules: an encrypted address never
leads to an unencrypted one, the token never goes to another host, and what the first host says of
the file's digest is kept though the bytes come from elsewhere.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from types import TracebackType
from typing import Self

import msgspec

from roost.errors import fail
from roost.store.pulling.addresses import named_sha256, next_address, origin

USER_AGENT = "roost"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Limits(msgspec.Struct, frozen=True):
    """Limits of a download.

    `silence_s` is how long a connection may say nothing. `attempts` count connections in a row
    that brought less than `progress_bytes`; between them it waits `pause_s`, doubled each time up
    to `max_pause_s`. `redirects` are followed per attempt; no file is longer than `max_bytes`.
    """

    silence_s: float = 30.0
    attempts: int = 5
    progress_bytes: int = 2**20
    pause_s: float = 0.5
    max_pause_s: float = 15.0
    redirects: int = 5
    max_bytes: int = 2**41

    def pause_after_s(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row, 1 or more."""
        return min(self.pause_s * 2.0 ** (failures - 1), self.max_pause_s)


class BrokenError(Exception):
    """The network or the server failed in a way that may pass: try again."""


class Reply:
    """A server's answer: status, headers, the digest its first host named, and the body."""

    def __init__(self, response: http.client.HTTPResponse, named_sha256: str | None) -> None:
        self._response = response
        self.status = response.status
        self.named_sha256 = named_sha256

    def header(self, name: str) -> str | None:
        """Return a header's value; names know no case."""
        return self._response.headers.get(name)

    def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes as soon as there are some; b"" at the end."""
        try:
            return self._response.read1(limit)
        except (http.client.HTTPException, OSError) as error:
            raise BrokenError("the connection was cut") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._response.close()


def get(url: str, headers: dict[str, str], token: str | None, limits: Limits) -> Reply:
    """Send a GET and follow redirects; the caller closes the reply, whatever its status.

    `token` is sent to the host of `url` alone. Raises `BrokenError` when the network fails, and
    `upstream_error` for redirects that must not be followed.
    """
    first = origin(url)
    named: str | None = None
    for _ in range(limits.redirects + 1):
        sent = dict(headers)
        if token and origin(url) == first:
            sent["Authorization"] = f"Bearer {token}"
        response = _send(url, sent, limits.silence_s)
        if origin(url) == first:
            named = named or _named(response)
        if response.status not in _REDIRECTS:
            return Reply(response, named)
        response.close()
        url = next_address(url, response.headers.get("Location"))
    raise fail("upstream_error", "The server redirects in circles. Try again later.")


def _named(response: http.client.HTTPResponse) -> str | None:
    return named_sha256(response.headers.get("x-linked-etag"), response.headers.get("ETag"))


def _send(url: str, headers: dict[str, str], silence_s: float) -> http.client.HTTPResponse:
    # Without the handlers for errors and redirects, every answer comes back as it is.
    opener = urllib.request.OpenerDirector()
    opener.addheaders = [("User-Agent", USER_AGENT), ("Accept-Encoding", "identity")]
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
    ):
        opener.add_handler(handler)
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - origin and next_address check schemes
        response = opener.open(request, timeout=silence_s)
    except urllib.error.URLError as error:
        raise BrokenError(_words(error.reason)) from error
    except (http.client.InvalidURL, ValueError) as error:
        raise fail("bad_request", "The address is none that can be downloaded from.") from error
    except (http.client.HTTPException, OSError) as error:
        raise BrokenError("the server closed the connection") from error
    assert isinstance(response, http.client.HTTPResponse)
    return response


def _words(reason: str | BaseException) -> str:
    """Say why a connection failed, without addresses."""
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.partition(" (_ssl")[0]
    return "no answer in time" if isinstance(reason, TimeoutError) else "no connection"
