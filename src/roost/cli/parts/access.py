"""WIRING: the checks of keys and join tokens, from the stores to the front."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from roost.core.allowance import NO_LIMITS, Account
from roost.core.hosts import is_loopback
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.front.access import Authorise, Fields, Principal, presented_key

if TYPE_CHECKING:
    from roost.store.credentials.keys import KeyStore
    from roost.store.credentials.records import KeyRecord
    from roost.store.credentials.tokens import TokenStore


COORDINATOR = TenantId("coordinator")
"""Whose sessions they are on a worker, whichever coordinator it has told its key."""
NODE = "node"
"""The role of whoever has shown a join token."""
OPERATOR = Principal(role="admin")
"""Whoever sits at a machine that asks for no key may do everything there."""


def by_keys(store: KeyStore, host: str) -> Authorise:
    """Ask for a key as soon as one exists; before that anybody on this machine may ask.

    Where other machines can reach `host` a key is always needed, also after all were forgotten.
    """
    always = not is_loopback(host)

    def authorise(fields: Fields) -> Principal | Failure:
        if not always and not store.any_keys():
            return OPERATOR
        presented = presented_key(fields)
        if presented is None:
            return Failure("unauthorized", "A key is needed: send 'Authorization: Bearer KEY'.")
        record = store.check(presented.decode("latin-1"))
        if record is None:
            return Failure("unauthorized", "This key is not known here, or was revoked.")
        return principal(record)

    return authorise


def principal(record: KeyRecord) -> Principal:
    """Return who has shown this key."""
    account = Account(record.id, record.tenant, record.allowance)
    served = record.weight, record.class_
    return Principal(record.tenant, record.role, *served, account, sharer(record.cache_salt))


def sharer(salt: str) -> TenantId:
    """Return by what name nodes know all who have this salt; "" for none.

    No tenant has such a name: those are printable. And nobody who reads it learns the salt.
    """
    if not salt:
        return TenantId("")
    return TenantId("\0" + hashlib.sha256(b"cache salt\0" + salt.encode()).hexdigest())


def or_key(key: str, authorise: Authorise) -> Authorise:
    """Let a coordinator in that shows the key it was told; all others as `authorise` does.

    But for keys with limits: what they use is counted at gateways, and nowhere else.
    """

    def admit(fields: Fields) -> Principal | Failure:
        presented = presented_key(fields)
        if presented is not None and hmac.compare_digest(presented, key.encode()):
            return Principal(COORDINATOR)
        found = authorise(fields)
        account = found.account if isinstance(found, Principal) else None
        if account is not None and account.allowance != NO_LIMITS:
            return Failure("forbidden", "A key with limits counts at a gateway alone: ask there.")
        return found

    return admit


def by_tokens(store: TokenStore) -> Authorise:
    """Let nodes join that show a valid token; there is no way without one.

    Whoever is let in goes by the token's id: it opens this door and no other.
    """

    def admit(fields: Fields) -> Principal | Failure:
        presented = presented_key(fields)
        record = None if presented is None else store.check(presented.decode("latin-1"))
        if record is None:
            return Failure("unauthorized", "A node needs a valid join token: see `roost token`.")
        return Principal(TenantId(record.id), NODE)

    return admit
