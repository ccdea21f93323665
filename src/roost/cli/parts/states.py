"""WIRING: what of idle conversations outlives a node, where that lies, and under whose names."""

from __future__ import annotations

import hashlib
import hmac
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from roost.backends.base import SavedState
from roost.core.ids import ModelId, TenantId
from roost.errors import RoostError, fail
from roost.node.states.parked import Kept
from roost.observe import logs
from roost.store.shelved import Found, hold, reconcile, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from roost.config import Settings
    from roost.core.about import Persistence
    from roost.core.ids import NodeId
    from roost.store.home import Home
    from roost.store.states import Label

TENANTS_REMEMBERED = 4096


class Lasting(NamedTuple):
    """What outlives what, and, where that is the node, the folder and what was found in it."""

    persistence: Persistence
    folder: Path | None = None
    found: Found = Found()


@contextmanager
def lasting_states(home: Home, node: NodeId, settings: Settings) -> Iterator[Lasting]:
    """Hold a node's folder of states while it runs.

    Raises `storage_error` where they have to be on disk and cannot be; with `auto`, that is told.
    """
    sweep(home, int(time.time()), settings.sessions_idle_s)
    match settings.sessions_persistence:
        case "ephemeral":
            yield Lasting("ephemeral")
            return
        case "memory":
            yield Lasting("memory")
            return
    try:
        require_both_limits(settings)
        folder, held = hold(home, node)
    except RoostError as error:
        if settings.sessions_persistence == "disk":
            raise
        logs.get().warning("states_not_kept", reason=error.failure.reason)
        yield Lasting("memory")
        return
    with held:
        found = reconcile(folder, int(time.time()), settings.sessions_idle_s)
        _tell(found)
        yield Lasting("disk", folder, found)


def require_both_limits(settings: Settings) -> None:
    """Refuse to keep on disk what has room nowhere; raises `bad_request`."""
    if not settings.sessions_ram_bytes or not settings.sessions_disk_bytes:
        message = (
            "sessions.persistence = disk needs room: sessions.ram_bytes and sessions.disk_bytes"
            " above 0."
        )
        raise fail("bad_request", message, param="sessions.persistence")


def _tell(found: Found) -> None:
    if found != Found():
        logs.get().info(
            "states_found",
            kept=len(found.labels),
            expired=found.expired,
            quarantined=found.quarantined,
            leftovers=found.leftovers,
        )


def kept_of(found: Found, *, reuse: bool) -> tuple[Kept, ...]:
    """What a node takes over of that; without `reuse` it only counts and ages there."""
    now_unix_s = int(time.time())
    return tuple(
        _kept(label, now_unix_s, label.facts.kin if reuse else "") for label in found.labels
    )


def _kept(label: Label, now_unix_s: int, kin: str) -> Kept:
    return Kept(
        session=label.session,
        kin=kin,
        tenant=TenantId(label.tenant),
        known=label.known,
        saved=SavedState(label.tokens, label.size_bytes),
        age_s=max(0.0, float(now_unix_s - label.saved_unix_s)),
        pinned=label.pinned,
        model=ModelId(label.facts.model),
    )


def salted(home: Home) -> Callable[[TenantId], TenantId]:
    """Name tenants so that what is kept of them does not tell who they are.

    Raises `storage_error`.
    """
    secret = home.secret("tenants")

    @lru_cache(TENANTS_REMEMBERED)
    def salt(tenant: TenantId) -> TenantId:
        digest = hmac.new(secret, tenant.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return TenantId(f"t_{digest[:24]}")

    return salt
