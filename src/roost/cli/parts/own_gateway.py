"""WIRING: this process's gateway for nodes that join, with what it keeps in the home."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.cli.parts.stores import Stores
    from roost.cli.reloading import Reloads
    from roost.config import Settings
    from roost.gateway.assemble import Gateway


async def open_own(settings: Settings, stores: Stores, reloads: Reloads) -> Gateway:
    """Listen as a gateway that follows its settings.

    Raises what `said_where` says of an address that cannot be had.
    """
    from roost.cli.parts.access import by_keys, by_tokens
    from roost.cli.parts.conversations import identity_settings, open_journal
    from roost.cli.parts.gateway import gateway_settings, said_where
    from roost.cli.parts.takers import of_certificate, of_credentials, of_fleet
    from roost.gateway.assemble import Kept, open_gateway
    from roost.store.credentials.usage import UsageStore

    authorise = by_keys(stores.keys, settings.host)
    with said_where(settings):
        life = stores.home.begin_life()
        told = gateway_settings(settings, life, identity_settings(settings, stores.home, life))
        kept = Kept(open_journal(settings, stores.home), UsageStore.open(stores.home))
        gateway = await open_gateway(told, authorise, by_tokens(stores.tokens), kept)
    assert gateway.front is not None, "an open gateway listens"
    reloads.add(of_fleet(gateway, life))
    reloads.add(of_credentials(stores))
    reloads.add(of_certificate(gateway.front, settings, stores))
    return gateway
