"""WIRING: from settings to where models come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import RoostError, fail

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.store.pulling.pull import PullSettings


def pull_settings(settings: Settings) -> PullSettings:
    """Say where models come from, and with which token."""
    import msgspec

    from roost.store.pulling.pull import PullSettings

    check_endpoint(settings)
    made = PullSettings(hub_token=settings.hub_token or None, offline=settings.offline)
    endpoint = settings.hub_endpoint or made.hub_endpoint
    return msgspec.structs.replace(made, hub_endpoint=endpoint)


def check_endpoint(settings: Settings) -> None:
    """Raise `bad_request` where the hub that is named can be none."""
    from roost.store.pulling.addresses import origin

    try:
        if settings.hub_endpoint:
            origin(settings.hub_endpoint)
    except RoostError:
        said = f"--hub-endpoint {settings.hub_endpoint}"
        raise fail("bad_request", f"{said}: write http://HOST or https://HOST.") from None
