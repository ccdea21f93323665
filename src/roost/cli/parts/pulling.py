"""WIRING: from settings to where models come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.store.pulling.pull import PullSettings


def pull_settings(settings: Settings) -> PullSettings:
    """Say where models come from, and with which token."""
    import msgspec

    from roost.store.pulling.pull import PullSettings

    made = PullSettings(hub_token=settings.hub_token or None, offline=settings.offline)
    endpoint = settings.hub_endpoint or made.hub_endpoint
    return msgspec.structs.replace(made, hub_endpoint=endpoint)
