"""DECIDER: what only this machine can reach, and what may therefore be said in the clear."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.config import Settings


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there; of other names nobody knows."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_the_clear(settings: Settings) -> bool:
    """Whether who listens with these settings does without TLS."""
    may_be = is_loopback(settings.host) or settings.insecure_http
    return may_be and not settings.tls_cert


def from_here(url: str) -> str:
    """Return where to ask who listens at `url`: who is on every address is on loopback too."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
