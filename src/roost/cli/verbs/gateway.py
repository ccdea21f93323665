"""WIRING: `roost gateway`: in front of nodes that join, or of servers given by --upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.parts.gateway import GATEWAY_SETTINGS, UPSTREAM_SETTINGS
from roost.cli.parts.own_gateway import open_own
from roost.cli.parts.stores import open_to_listen
from roost.cli.parts.upstream_list import UpstreamList
from roost.errors import fail

if TYPE_CHECKING:
    from roost.cli.lifetime import Lifetime
    from roost.cli.parts.stores import Stores
    from roost.config import Loaded, Settings
    from roost.gateway.assemble import Gateway
    from roost.gateway.upstream.gateway import UpstreamGateway
    from roost.gateway.upstream.targets import Target

DESCRIPTION = """\
Stand in front of nodes that join with `roost node --join URL --token-file FILE`, or, with
--upstream, of any OpenAI-compatible servers: a fixed in-flight limit for each, instant refusal,
least in flight first. The setting upstream.urls names more of them, and is read again on HUP.
"""
UPSTREAM_ONLY = ("upstream.", "max_in_flight")


def flags() -> options.Parser:
    """Make the parser of this verb's command line."""
    parser = options.parser("gateway", DESCRIPTION, (*GATEWAY_SETTINGS, *UPSTREAM_ONLY))
    parser.add_argument(
        "--upstream", action="append", default=[], metavar="URL", help="a server; may be repeated"
    )
    parser.add_argument(
        "--upstream-key",
        action="append",
        default=[],
        metavar="KEY",
        help="its key, in the order of --upstream; '-' for none",
    )
    return parser


def main(arguments: list[str]) -> int:
    """Run until a signal ends it."""
    from roost.cli.parts.takers import SERVERS
    from roost.cli.reloading import Taker
    from roost.gateway.loop import run

    parsed = flags().parse_args(arguments)
    loaded = options.load(parsed)
    servers = UpstreamList(parsed.upstream, parsed.upstream_key)
    settings = loaded.settings
    targets = servers.read(settings)
    _check_flags(loaded, upstream=bool(targets))
    lifetime = options.start_lifetime(parsed)
    lifetime.reloads.add(Taker(SERVERS, servers.follow))
    if targets:
        return run(_upstream(settings, servers, targets, lifetime))
    return run(_fleet(settings, lifetime))


def _check_flags(loaded: Loaded, *, upstream: bool) -> None:
    """Refuse flags that the chosen mode does not read, rather than ignoring them.

    One flag may count for several rows; it is refused if none of them is read.
    """
    rows = UPSTREAM_SETTINGS if upstream else GATEWAY_SETTINGS
    flags = {name: origin for name, origin in loaded.origins.items() if origin.startswith("--")}
    read = {origin for name, origin in flags.items() if _is_one_of(name, ("home", *rows))}
    for name, origin in flags.items():
        if origin not in read:
            mode = "with --upstream" if upstream else "without --upstream"
            raise fail("bad_request", f"{origin} has no effect {mode}.", param=name)


def _is_one_of(name: str, rows: tuple[str, ...]) -> bool:
    return name in rows or name.startswith(tuple(row for row in rows if row.endswith(".")))


async def _fleet(settings: Settings, lifetime: Lifetime) -> int:
    lifetime.listen()
    settings, stores = open_to_listen(settings)
    gateway = await open_own(settings, stores, lifetime.reloads)
    said = "nodes join with: roost node --join URL --token-file FILE"
    return await _live(settings, stores, gateway, lifetime, said)


async def _upstream(
    settings: Settings, servers: UpstreamList, targets: tuple[Target, ...], lifetime: Lifetime
) -> int:
    from roost.cli.parts.access import by_keys
    from roost.cli.parts.gateway import said_where, upstream_settings
    from roost.cli.parts.takers import of_certificate, of_credentials, of_upstream
    from roost.gateway.upstream.gateway import open_upstream_gateway

    lifetime.listen()
    settings, stores = open_to_listen(settings)
    authorise = by_keys(stores.keys, settings.host)
    with said_where(settings):
        gateway = await open_upstream_gateway(upstream_settings(settings, targets), authorise)
    servers.attach(targets, gateway.use)
    assert gateway.front is not None, "an open gateway listens"
    lifetime.reloads.add(of_upstream(gateway))
    lifetime.reloads.add(of_credentials(stores))
    lifetime.reloads.add(of_certificate(gateway.front, settings, stores))
    known = f"in front of {options.counted(len(targets), 'server')}"
    return await _live(settings, stores, gateway, lifetime, known)


async def _live(
    settings: Settings,
    stores: Stores,
    gateway: Gateway | UpstreamGateway,
    lifetime: Lifetime,
    said: str,
) -> int:
    assert gateway.front is not None, "an open gateway listens"
    url = gateway.front.url + settings.base_path
    try:
        with stores.home.record_instance(url, fingerprint=stores.fingerprint):
            print(f"roost listens on {url}; {said}", flush=True)
            lifetime.settled()
            await lifetime.wait()
            await lifetime.wind_down(gateway.drain)
    finally:
        await gateway.close(0.0)
        stores.close()
    return lifetime.code
