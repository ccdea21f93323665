"""SHELL: the backend `omlx`: oMLX's own server as a child, as a card says; on Apple's machines.

It retains what it has: `RETAINED_MAX` configurations may run at once, none of them goes for
another, and the next one is refused.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from roost.backends.base import StartSettings
from roost.backends.card_file import read_installed
from roost.backends.http1.exchange import Place
from roost.backends.openai import served
from roost.backends.openai.openai_http import CAPABILITIES
from roost.backends.processes.places import LOOPBACK, Ports, making, private_folder, remove_folder
from roost.core.card import Omlx as Card
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.errors import fail

RETAINED_MAX = 16


class Omlx:
    """Starts servers, as the cards of their models say, and knows which of its own run."""

    def __init__(self, platform: str = sys.platform, retained_max: int = RETAINED_MAX) -> None:
        self._platform = platform
        self._retained_max = retained_max
        self._loading: set[RuntimeKey] = set()
        self._running: dict[RuntimeKey, served.ServedRuntime] = {}

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "omlx"

    @property
    def capabilities(self) -> Capabilities:
        """What the dialect promises, as for every server of it."""
        return CAPABILITIES

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> served.ServedRuntime:
        """Start a server and wait until the model is loaded; see `base.Backend.start`."""
        on_progress(0.0)
        if self._platform != "darwin":
            raise fail("load_failed", "oMLX runs on Apple's machines alone.")
        card = await asyncio.to_thread(_card, manifest)
        if key not in self.retained and len(self.retained) >= self._retained_max:
            what = f"oMLX retains {self._retained_max} configurations, and none goes for another"
            raise fail("load_failed", f"{what}: unload one first.")
        self._loading.add(key)
        try:
            runtime = self._running[key] = await _begun(card, key, settings, on_progress)
        finally:
            self._loading.discard(key)
        return runtime

    @property
    def retained(self) -> frozenset[RuntimeKey]:
        """The configurations that run, or are being loaded."""
        self._running = {
            key: runtime for key, runtime in self._running.items() if not runtime.died.is_set()
        }
        return frozenset(self._loading | set(self._running))


async def _begun(
    card: Card,
    key: RuntimeKey,
    settings: StartSettings,
    on_progress: Callable[[float], None],
) -> served.ServedRuntime:
    secret = secrets.token_hex(32)
    with Ports() as ports:
        port = ports.take()
        folder = await asyncio.to_thread(_folder, card, key, settings, secret)
        argv = (card.executable or "omlx", *arguments(card, str(folder), port), *card.args)
        plan = served.Plan(argv, Place("", port, secret), card.ctx, card.health_timeout_s, folder)
        return await served.begin(key, plan, settings, on_progress)


def arguments(card: Card, folder: str, port: int) -> tuple[str, ...]:
    """Say what roost itself tells a server; everything that it writes stays in its folder."""
    cache = (
        ("--no-cache",)
        if card.ssd_cache == "0"
        else (
            *("--paged-ssd-cache-dir", f"{folder}/cache"),
            *("--paged-ssd-cache-max-size", card.ssd_cache),
        )
    )
    return (
        *("serve", "--model-dir", f"{folder}/models", "--base-path", f"{folder}/base"),
        *("--host", LOOPBACK, "--port", str(port)),
        *cache,
        *("--hot-cache-max-size", card.hot_cache),
    )


def _folder(card: Card, key: RuntimeKey, settings: StartSettings, secret: str) -> Path:
    """Make its folder: one model, settings of its own, and a key that is on no command line.

    Raises `load_failed`, with nothing left of it.
    """
    folder = private_folder(settings.workdir)
    try:
        with making("The folder of oMLX"):
            for name in ("models", "base", "cache"):
                (folder / name).mkdir()
            (folder / "models" / key.model).symlink_to(card.path, target_is_directory=True)
            told = {"version": "1.0", "auth": {"api_key": secret}}
            (folder / "base" / "settings.json").write_bytes(msgspec.json.encode(told))
    except BaseException:
        remove_folder(folder)
        raise
    return folder


def _card(manifest: Manifest) -> Card:
    """Read the card again, which may have changed since; raises `load_failed`."""
    card = read_installed(manifest.path, Card, "omlx")
    if shutil.which(card.executable or "omlx") is None:
        message = "There is no oMLX here: install it, or name it as the card's executable."
        raise fail("load_failed", message)
    if not Path(card.path).is_dir():
        raise fail("load_failed", "The card's path is no folder of a model.")
    return card
