"""WIRING: ROOST_HOME and its stores, opened for a serving verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from roost.cli import options

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.store.credentials.keys import KeyStore
    from roost.store.credentials.tokens import TokenStore
    from roost.store.database import Database
    from roost.store.home import Home
    from roost.store.models.registry import ModelStore


class Stores(NamedTuple):
    """What a serving verb reads and writes on disk.

    `fingerprint` is that of the home's own certificate, where this is what the verb listens with.
    """

    home: Home
    database: Database
    keys: KeyStore
    tokens: TokenStore
    models: ModelStore
    fingerprint: str = ""

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def open_stores(settings: Settings) -> Stores:
    """Open everything."""
    from roost.store.credentials.fixed_keys import read_keys, read_tokens
    from roost.store.credentials.keys import KeyStore
    from roost.store.credentials.tokens import TokenStore
    from roost.store.database import Database
    from roost.store.models.registry import ModelStore

    # Before anything is opened: what is wrong in the settings is told first.
    keys, tokens = read_keys(settings.keys), read_tokens(settings.node_tokens)
    home = options.open_home(settings)
    database = Database.open(home)
    stores = Stores(home, database, KeyStore(database), TokenStore(database), ModelStore(home))
    stores.keys.use(keys)
    stores.tokens.use(tokens)
    return stores


def open_to_listen(settings: Settings) -> tuple[Settings, Stores]:
    """Open everything, and refuse to listen where that would not be safe.

    The settings that come back name a certificate wherever one is needed.
    """
    from roost.cli.parts.gateway import check_exposure
    from roost.cli.parts.own_tls import secured

    stores = open_stores(settings)
    try:
        check_exposure(settings, keys_exist=stores.keys.any_keys())
        found = secured(settings, stores.home, stores.tokens)
    except BaseException:
        stores.close()
        raise
    return found.settings, stores._replace(fingerprint=found.fingerprint)
