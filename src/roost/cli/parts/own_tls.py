"""WIRING: TLS for whoever listens beyond this machine and was given no certificate."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from roost.cli.parts.loopback import in_the_clear
from roost.gateway.front.access import allowed
from roost.store.credentials.certificate import own_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roost.config import Settings
    from roost.store.credentials.certificate import Certificate
    from roost.store.credentials.tokens import TokenStore
    from roost.store.home import Home

SOON = timedelta(days=30)


class Secured(NamedTuple):
    """Settings that name a certificate where one is needed.

    `fingerprint` is that of the home's own, "" where it is not what is listened with.
    """

    settings: Settings
    fingerprint: str = ""


def secured(settings: Settings, home: Home, tokens: TokenStore) -> Secured:
    """Take the home's own certificate where TLS is needed and none was given; make it if need be.

    Raises `storage_error` where it cannot be made or read.
    """
    if settings.tls_cert or in_the_clear(settings):
        return Secured(settings)
    own = own_certificate(home, names(settings))
    for line in _told(own, tokens_exist=bool(tokens.list())):
        print(f"roost: {line}", file=sys.stderr)
    file = str(own.path)
    return Secured(settings._replace(tls_cert=file, tls_key=file), own.fingerprint)


def names(settings: Settings) -> list[str]:
    """List what a gateway with these settings answers to; raises `bad_request` for nonsense."""
    return sorted(allowed(settings.host, settings.allowed_hosts).names)


def _told(own: Certificate, *, tokens_exist: bool) -> Iterator[str]:
    """Say whom the certificate concerns, and what they have to do."""
    yield f"TLS with this home's own certificate; clients trust it by {own.public}"
    if own.is_new and tokens_exist:
        yield "it is new, and no join token names it yet: make new ones with `roost token`"
    if own.ends < datetime.now(UTC) + SOON:
        day = own.ends.date().isoformat()
        yield f"it counts until {day}: make another with `roost certificate renew`"
