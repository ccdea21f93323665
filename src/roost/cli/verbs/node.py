"""WIRING: `roost node`: lend this machine's models to a gateway."""

from __future__ import annotations

import asyncio
import random
import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from roost.cli import options
from roost.cli.parts.join_tokens import join_token, split_token
from roost.cli.parts.model_watch import Watch, watch
from roost.cli.parts.node import NODE_SETTINGS, Parts, check_node, open_node
from roost.cli.parts.node_limits import of_node
from roost.cli.parts.places import node_places
from roost.cli.parts.stores import open_stores
from roost.cli.parts.worker_door import WORKER_SETTINGS, Door, follow, let_end, open_door
from roost.core.hosts import is_loopback
from roost.errors import RoostError, fail
from roost.node.joining.dial import DialSettings, keep_joined
from roost.node.joining.socket_connection import Address, dial, link_url
from roost.observe import logs

if TYPE_CHECKING:
    from roost.cli.lifetime import Lifetime
    from roost.config import Settings

LISTENING = ("allowed_hosts", "tls_cert", "tls_key", "insecure_http", "stream.keepalive_s", "keys")
SETTINGS = (
    *(*NODE_SETTINGS, *WORKER_SETTINGS, *LISTENING),
    *("link.", "drain.", "log_level", "log_format", "join", "token", "token_file", "ca_file"),
)
DESCRIPTION = """\
Join a gateway and serve this machine's models through it. The node dials the gateway's address, so
it needs no open port of its own; make the token with `roost token` where the gateway runs. What
stands on a command line is in the list of processes: --token-file or ROOST_TOKEN keep the token out
of it.
"""


def flags() -> options.Parser:
    """Make the parser of this verb's command line."""
    return options.parser("node", DESCRIPTION, SETTINGS)


def main(arguments: list[str]) -> int:
    """Run until a signal ends it, or the gateway says that there is no point in trying."""
    parsed = flags().parse_args(arguments)
    settings = options.load(parsed).settings
    if not settings.join:
        raise fail("bad_request", "--join is missing: the gateway's address.", param="join")
    address = gateway_address(settings, settings.join)
    lifetime = options.start_lifetime(parsed)
    from roost.gateway.loop import run

    check_node(settings)
    return run(_node(settings, address, lifetime))


def gateway_address(settings: Settings, url: str) -> Address:
    """Return where to join and how; raises `bad_request` where the token would be overheard."""
    token, pin = split_token(join_token(settings))
    link = link_url(url)
    if link.startswith("ws:"):
        _check_in_the_clear(settings, urlsplit(link).hostname or "", pin)
    limit = settings.link_message_max_bytes
    return Address(url, token, settings.ca_file, pin, message_max_bytes=limit)


def _check_in_the_clear(settings: Settings, host: str, pin: str) -> None:
    if is_loopback(host):
        return
    if not settings.insecure_http:
        why = (
            "the token names the gateway's certificate: write https://HOST:PORT"
            if pin
            else "the token would travel in the clear: write https://HOST:PORT, or, if the network "
            "can be trusted with it, say --insecure-http"
        )
        raise fail("bad_request", f"--join {host}: {why}.", param="join")
    print(f"roost node: the token travels to {host} without TLS", file=sys.stderr)


async def _node(settings: Settings, address: Address, lifetime: Lifetime) -> int:
    stores = open_stores(settings)
    lifetime.listen()
    try:
        models = stores.models.list()
        if not models:
            raise fail("bad_request", "No model is installed here: see `roost pull --help`.")
        identity, held = stores.home.claim_node()
        with held, node_places(stores.home, identity, settings) as places:
            parts = open_node(settings, stores, models, identity, places)
            lifetime.reloads.add(of_node(parts, settings, places))
            watching = Watch(stores.models, models, settings.models_poll_s)
            door = await open_door(settings, stores, parts.node, identity)
            if door is not None:
                from roost.cli.parts.takers import of_credentials

                lifetime.reloads.add(of_credentials(stores))
                follow(door, settings, stores, lifetime.reloads)
            try:
                await _live(parts, watching, address, lifetime, door)
            finally:
                if door is not None:
                    await door.close()
    finally:
        stores.close()
    return lifetime.code


async def _live(
    parts: Parts, watching: Watch, address: Address, lifetime: Lifetime, door: Door | None
) -> None:
    """Stay joined until a signal, or until the gateway says that there is no point."""
    lifetime.settled()
    node, log, dice = parts.node, logs.get(), random.Random()
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        joining = keep_joined(partial(dial, address), node.serve_link, DialSettings(), dice, log)
        joined = group.create_task(joining)
        waiting = group.create_task(lifetime.wait())
        looking = group.create_task(watch(watching, parts.set_models))
        if door is not None:
            group.create_task(door.run())
        await asyncio.wait((joined, waiting), return_when=asyncio.FIRST_COMPLETED)
        turned_away = joined.result() if joined.done() else None
        await lifetime.wind_down(partial(let_end, node, door))
        # A second signal cuts the drain short, but never what ends the children.
        await node.stop(0.0)
        for task in (waiting, joined, looking):
            task.cancel()
    if turned_away is not None:
        raise RoostError(turned_away)
