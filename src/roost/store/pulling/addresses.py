"""DECIDER: which addresses a download may visit, and what servers say of a file's digest."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from roost.errors import fail

_PORTS = {"http": 80, "https": 443}
_SHA256 = re.compile(r'(?:W/)?"?([0-9a-f]{64})"?')


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port: what has to be equal to be the same server.

    Raises `bad_request` for anything that is no http or https address, or carries a password.
    """
    try:
        parts = urlsplit(url)
        usual = _PORTS[parts.scheme]
        port = parts.port or usual
    except (KeyError, ValueError) as error:
        raise fail("bad_request", "The address is none that can be downloaded from.") from error
    if not parts.hostname or parts.username is not None:
        raise fail("bad_request", "The address is none that can be downloaded from.")
    return parts.scheme, parts.hostname, port


def next_address(url: str, location: str | None) -> str:
    """Return where a redirect of `url` leads; raises `upstream_error` where none may follow."""
    target = urljoin(url, location or "")
    if not location or urlsplit(target).scheme not in _PORTS:
        raise fail("upstream_error", "The server redirects to no usable address.")
    if url.startswith("https:") and not target.startswith("https:"):
        raise fail("upstream_error", "The server redirects to an unencrypted address: refused.")
    return target


def named_sha256(*values: str | None) -> str | None:
    """Return the first of some headers' values that is a sha256, in hex, if any is."""
    matches = (_SHA256.fullmatch(value or "") for value in values)
    return next((match[1] for match in matches if match), None)
