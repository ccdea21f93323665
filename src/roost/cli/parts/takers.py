"""WIRING: which parts of a running verb follow which settings on HUP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roost.cli.parts.gateway import gateway_settings, limits, said_where, upstream_settings
from roost.cli.reloading import Taker
from roost.errors import fail
from roost.gateway.front.server import check_certificate
from roost.store.credentials.fixed_keys import read_keys, read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.cli.parts.stores import Stores
    from roost.config import Settings
    from roost.core.fence import Life
    from roost.gateway.assemble import Gateway
    from roost.gateway.front.server import Front
    from roost.gateway.upstream.gateway import UpstreamGateway

LIMITS = (
    *("receipt.head_s", "receipt.body_s", "receipt.idle_s", "head_max_bytes", "body_max_bytes"),
    *("bodies_max_bytes", "connections_max", "stream.write_deadline_s"),
)
FLEET = (
    *("default_model", "aliases", "strict", "body_offload_bytes", "stream.commit_after_s"),
    *("stream.keepalive_s", "stream.on_full", "replay.max_tokens", "conversations.release_wait_s"),
    *("queue.length", "queue.wait_s", "max_in_flight_decodes", "placement.keep", "cors.origins"),
)
CERTIFICATE = ("tls_cert", "tls_key")
SERVERS = ("upstream.urls", "upstream.keys")
CREDENTIALS = ("keys", "node_tokens")


def of_fleet(gateway: Gateway, life: Life) -> Taker:
    """Have a gateway for nodes follow its limits, and other names of models."""

    def prepare(settings: Settings) -> Callable[[], None]:
        return partial(gateway.use, gateway_settings(settings, life))

    return Taker((*LIMITS, *FLEET), prepare)


def of_upstream(gateway: UpstreamGateway) -> Taker:
    """Have a gateway for other servers follow its limits, and other names of models."""

    def prepare(settings: Settings) -> Callable[[], None]:
        return partial(gateway.follow, upstream_settings(settings, ()))

    return Taker((*LIMITS, "aliases", "cors.origins"), prepare)


def of_front(front: Front) -> Taker:
    """Have a listener follow what a client connection may cost."""

    def prepare(settings: Settings) -> Callable[[], None]:
        return partial(front.use, limits(settings))

    return Taker(LIMITS, prepare)


def of_default(check: Callable[[Settings], None]) -> Taker:
    """Refuse a default model that is not installed."""

    def prepare(settings: Settings) -> Callable[[], None]:
        check(settings)
        return _nothing

    return Taker((), prepare)


def of_credentials(stores: Stores) -> Taker:
    """Have the keys and join tokens of the settings count, and no others of them."""

    def prepare(settings: Settings) -> Callable[[], None]:
        keys, tokens = read_keys(settings.keys), read_tokens(settings.node_tokens)

        def take() -> None:
            stores.keys.use(keys)
            stores.tokens.use(tokens)

        return take

    return Taker(CREDENTIALS, prepare)


def of_certificate(front: Front, settings: Settings, stores: Stores) -> Taker:
    """Have a listener read its certificate again, where it began with files that were named.

    The home's own certificate is not read again: another one takes a restart.

    They are read also if their names have not changed: whoever renews a certificate writes the same
    files anew.
    """
    if stores.fingerprint or not settings.tls_cert:
        return Taker((), lambda _: _nothing)

    def prepare(settings: Settings) -> Callable[[], None]:
        if not settings.tls_cert:
            message = "tls_cert: to serve without these files takes a restart."
            raise fail("bad_request", message, param="tls_cert")
        with said_where(settings):
            check_certificate(settings.tls_cert, settings.tls_key)
        return partial(front.use_certificate, settings.tls_cert, settings.tls_key)

    return Taker(CERTIFICATE, prepare)


def _nothing() -> None:
    """Change nothing."""
