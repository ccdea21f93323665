"""SHELL: the backend `vllm`: vLLM's own server as a child, as a card or the node's options say.

A vLLM that is somebody else's is a card as well, and a server like any other: see `core/card`.
"""

from __future__ import annotations

import asyncio
import platform
import secrets
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from roost.backends.base import StartSettings
from roost.backends.card_file import read_installed
from roost.backends.http1.exchange import Place
from roost.backends.install import install_command
from roost.backends.looking import vllm_found
from roost.backends.openai import served
from roost.backends.openai.openai_http import CAPABILITIES
from roost.backends.processes.places import LOOPBACK, Ports, private_folder
from roost.backends.processes.program_help import help_of
from roost.core.card import Vllm as Card
from roost.core.engine import lack
from roost.core.model import Capabilities, Manifest, RuntimeKey, ctx_within
from roost.errors import fail

MODULE = "vllm.entrypoints.openai.api_server"
PREFIX_CACHING = ("--enable-prefix-caching", "--no-enable-prefix-caching")
FORMAT = "safetensors"
"""What it reads without a card, as roost's own options say."""

HELP_TIMEOUT_S = 120.0
"""It imports all of itself before it says anything."""


class Vllm:
    """Starts servers, as the cards of their models say."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "vllm"

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
        if manifest.format == FORMAT:
            card, remedy = of_weights(key, manifest, settings), "Raise runtime.start_timeout_s."
        else:
            card, remedy = await asyncio.to_thread(_card, manifest), served.REMEDY
        _check_here(card)
        program = _program(card)
        switch = await _switch(card, program)
        with Ports() as ports:
            port, secret = ports.take(), secrets.token_hex(32)
            folder = await asyncio.to_thread(private_folder, settings.workdir)
            argv = (*program, *arguments(card, manifest.id, port), *switch, *card.args)
            place = Place("", port, secret)
            environ = {"VLLM_API_KEY": secret, "VLLM_NO_USAGE_STATS": "1"}
            timeout_s = card.health_timeout_s
            plan = served.Plan(argv, place, card.ctx, timeout_s, folder, environ, remedy)
            return await served.begin(key, plan, settings, on_progress)


def arguments(card: Card, model: str, port: int) -> tuple[str, ...]:
    """Say what roost itself tells a server."""
    # Its own command takes the folder without a flag, its module with one.
    folder = (card.path,) if _is_command(card.executable) else ("--model", card.path)
    address = ("--host", LOOPBACK, "--port", str(port))
    return (*folder, *address, "--served-model-name", model, "--max-model-len", str(card.ctx))


async def _switch(card: Card, program: tuple[str, ...]) -> tuple[str, ...]:
    """Say what it is told of prefix caching, where the card does not say it in its own words."""
    chosen = {word.partition("=")[0].replace("_", "-") for word in card.args}
    if card.prefix_caching == "auto" or chosen & set(PREFIX_CACHING):
        return ()
    on, off = PREFIX_CACHING
    if card.prefix_caching == "off":
        return (off,)
    # All of it has been asked for since it has a short one; before, that is an error with all.
    text = await help_of((*program, "--help=all"), "vLLM", HELP_TIMEOUT_S)
    return (on,) if on in text else ()


def _card(manifest: Manifest) -> Card:
    """Read the card again, which may have changed since; raises `load_failed`."""
    return read_installed(manifest.path, Card, "vllm")


def of_weights(key: RuntimeKey, manifest: Manifest, settings: StartSettings) -> Card:
    """Write the card of a folder that has none: what the node's own options say of it.

    Raises `load_failed` for what vLLM does not do, or not as it is installed here.
    """
    options, here = key.options, vllm_found().of(FORMAT)
    if options.mode != "generate":
        raise fail("load_failed", f"The backend vllm {lack('generate', options.mode)}.")
    if options.device and here.usable and options.device != here.accelerator:
        message = f"vLLM as it is installed here computes on {here.accelerator}: see --device."
        raise fail("load_failed", message)
    ctx = ctx_within(options.ctx, manifest.ctx_train)
    if ctx < 2:
        raise fail("load_failed", "The folder does not say how much context its model has.")
    dtype = ("--dtype", options.dtype) if options.dtype else ()
    args = ("--max-num-seqs", str(options.slots), *dtype)
    folder = str(Path(manifest.path).parent)
    return Card(ctx, folder, args=args, health_timeout_s=settings.start_timeout_s)


def _check_here(card: Card) -> None:
    """Refuse where it cannot be started; raises `load_failed`."""
    if sys.platform != "linux":
        raise fail("load_failed", f"vLLM does not run on {sys.platform}.")
    if "microsoft" in platform.release().lower():
        raise fail(
            "load_failed", "vLLM is not started under WSL. Start it yourself: host and port."
        )
    if not Path(card.path).is_dir():
        raise fail("load_failed", "The folder of this model is not there.")


def _program(card: Card) -> tuple[str, ...]:
    """Choose what starts it; raises `load_failed` where there is nothing."""
    if not card.executable:
        if find_spec("vllm") is None:
            raise fail("load_failed", f"vLLM is not installed. Type: {install_command('vllm')}")
        return (sys.executable, "-P", "-m", MODULE)
    if shutil.which(card.executable) is None:
        raise fail("load_failed", "The card's executable is no program that may be run here.")
    rest = ("serve",) if _is_command(card.executable) else ("-m", MODULE)
    return (card.executable, *rest)


def _is_command(executable: str) -> bool:
    return Path(executable).name == "vllm"
