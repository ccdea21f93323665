"""WIRING: the servers behind `roost gateway --upstream`: read at the start and again on HUP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roost.errors import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roost.config import Settings
    from roost.gateway.upstream.targets import Target


class UpstreamList:
    """Those of `--upstream`, which stay, and then those of the setting `upstream.urls`."""

    def __init__(self, urls: Sequence[str], keys: Sequence[str]) -> None:
        if len(keys) > len(urls):
            raise fail("bad_request", "There are more --upstream-key than --upstream.")
        self._urls = list(urls)
        self._keys = [*keys, *["-"] * (len(urls) - len(keys))]
        self._in_use: tuple[Target, ...] = ()
        self._use: Callable[[Sequence[Target]], None] | None = None

    def read(self, settings: Settings) -> tuple[Target, ...]:
        """Return the whole list, empty where nobody gave one; raises `bad_request`."""
        from roost.gateway.upstream.targets import parse_targets

        if len(settings.upstream_keys) > len(settings.upstream_urls):
            message = "upstream.keys has more entries than upstream.urls."
            raise fail("bad_request", message, param="upstream.keys")
        urls = [*self._urls, *settings.upstream_urls]
        try:
            return parse_targets(urls, [*self._keys, *settings.upstream_keys], self._in_use)
        except ValueError as error:
            message = f"--upstream or upstream.urls: {error}."
            raise fail("bad_request", message, param="upstream.urls") from None

    def attach(self, targets: tuple[Target, ...], use: Callable[[Sequence[Target]], None]) -> None:
        """From now on HUP changes what a gateway uses; `targets` is what it has."""
        self._in_use = targets
        self._use = use

    def follow(self, settings: Settings) -> Callable[[], None]:
        """Return what gives the gateway a list that has changed; raises `bad_request`."""
        targets = self.read(settings)
        if bool(targets) != (self._use is not None):
            message = "upstream.urls: from no server to some, or back, takes a restart."
            raise fail("bad_request", message, param="upstream.urls")
        return partial(self._take, targets)

    def _take(self, targets: tuple[Target, ...]) -> None:
        if self._use is not None and targets != self._in_use:
            self._use(targets)
            self._in_use = targets
