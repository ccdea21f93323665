"""DECIDER: what only this machine can reach, and what may therefore be said in the clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.core.hosts import is_loopback

if TYPE_CHECKING:
    from roost.config import Settings


def in_the_clear(settings: Settings) -> bool:
    """Whether who listens with these settings does without TLS."""
    may_be = is_loopback(settings.host) or settings.insecure_http
    return may_be and not settings.tls_cert


def from_here(url: str) -> str:
    """Return where to ask who listens at `url`: who is on every address is on loopback too."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
