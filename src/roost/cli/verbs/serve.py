"""WIRING: `roost serve`: gateway and node in one process, over a link in memory."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roost.cli import options
from roost.cli.banner import banner
from roost.cli.parts.gateway import GATEWAY_SETTINGS
from roost.cli.parts.model_watch import Watch, watch
from roost.cli.parts.node import NODE_SETTINGS, Parts, check_node, open_node, preloaded
from roost.cli.parts.node_limits import of_node
from roost.cli.parts.own_gateway import open_own
from roost.cli.parts.places import node_places
from roost.cli.parts.stores import Stores, open_to_listen
from roost.cli.parts.takers import of_default
from roost.cli.parts.worker_door import WORKER_SETTINGS, Door, follow, let_end, open_door
from roost.errors import RoostError, fail
from roost.node.joining.dial import DialSettings, keep_joined
from roost.observe import logs
from roost.wire.memory import NodeConnection, memory_pair

if TYPE_CHECKING:
    from roost.cli.lifetime import Lifetime
    from roost.config import Settings
    from roost.core.model import Manifest
    from roost.gateway.assemble import Gateway
    from roost.node.loop import NodeLoop
    from roost.store.home import Held
    from roost.store.models.registry import ModelStore


REJOIN_MAX_S = 1.0
SETTINGS = (*GATEWAY_SETTINGS, *NODE_SETTINGS, *WORKER_SETTINGS)
DESCRIPTION = """\
Serve every installed model on this machine, or MODEL.gguf where it lies, on one address that OpenAI
clients understand. The default model, or the only one, is loaded at once, others when first asked
for. Ctrl-C ends everything; TERM lets running answers end first.
"""


class Served(NamedTuple):
    """What serves here, and what the banner says of it."""

    settings: Settings
    stores: Stores
    gateway: Gateway
    models: tuple[Manifest, ...]
    node: NodeLoop
    door: Door | None

    async def drain(self, grace_s: float) -> bool:
        """Take nothing new and let what runs end; False if `grace_s` was not enough.

        The node has to take what its gateway still lets in, so it is second; what coordinators
        have running there is not the gateway's to wait for.
        """
        clock = asyncio.get_running_loop().time
        until_s = clock() + grace_s
        if self.door is not None:
            self.door.turn_away()
        drained = await self.gateway.drain(grace_s)
        left_s = max(0.0, until_s - clock())
        return await let_end(self.node, self.door, left_s) and drained


def flags() -> options.Parser:
    """Make the parser of this verb's command line."""
    parser = options.parser("serve", DESCRIPTION, SETTINGS)
    parser.add_argument("file", nargs="?", metavar="MODEL.gguf", help="serve this file only")
    return parser


def main(arguments: list[str]) -> int:
    """Run until a signal ends it."""
    parsed = flags().parse_args(arguments)
    lifetime = options.start_lifetime(parsed)
    return run(options.load(parsed).settings, lifetime, parsed.file)


def run(settings: Settings, lifetime: Lifetime, file: str | None = None) -> int:
    """Serve with these settings; `file` is a model file that stays where it is."""
    from roost.gateway.loop import run as run_loop

    check_node(settings)
    settings, stores = open_to_listen(settings)
    try:
        models = _models(stores, file)
        _check_default(settings, models)
        watching = Watch(stores.models, models, settings.models_poll_s) if file is None else None
        if file is None:
            lifetime.reloads.add(of_default(partial(_check_installed, stores.models)))
        return run_loop(_serve(settings, stores, models, lifetime, watching))
    finally:
        stores.close()


def _models(stores: Stores, file: str | None) -> tuple[Manifest, ...]:
    if file is None:
        return stores.models.list()
    # Exit code 1, as system 1's workers end: a script has to tell a file that is not there from a
    # command line that can never work.
    if not Path(file).exists():
        message = (
            "There is no such file. Installed models are served without naming them; "
            "`roost models` lists them, --default-model names the one for requests that name none."
        )
        raise fail("storage_error", message)
    bar = options.Progress()
    try:
        return (
            stores.models.add_file(
                Path(file), link=True, progress=lambda done, total: bar("reading", done, total)
            ),
        )
    except RoostError as error:
        raise fail("storage_error", error.failure.message) from None
    finally:
        bar.close()


def _check_default(settings: Settings, models: tuple[Manifest, ...]) -> None:
    wanted = settings.default_model
    if wanted and wanted not in [model.id for model in models]:
        raise fail("bad_request", f"--default-model: no model {wanted!r} is installed.")


def _check_installed(store: ModelStore, settings: Settings) -> None:
    if settings.default_model:
        _check_default(settings, store.list())


async def _serve(
    settings: Settings,
    stores: Stores,
    models: tuple[Manifest, ...],
    lifetime: Lifetime,
    watching: Watch | None,
) -> int:
    lifetime.listen()
    gateway = await open_own(settings, stores, lifetime.reloads)
    try:
        identity, held = stores.home.claim_node()
        with held, node_places(stores.home, identity, settings) as places:
            parts = open_node(settings, stores, models, identity, places)
            lifetime.reloads.add(of_node(parts, settings, places))
            node = parts.node
            door = await open_door(settings, stores, node, identity)
            if door is not None:
                follow(door, settings, stores, lifetime.reloads)
            async with asyncio.TaskGroup() as group:
                group.create_task(node.run())
                if door is not None:
                    group.create_task(door.run())
                joined = gateway.mind.report_of(identity)
                beside = group.create_task(_beside(gateway, parts, watching))
                model = preloaded(settings, models)
                if model is not None:
                    await node.preload(model)
                served = Served(settings, stores, gateway, models, node, door)
                await _live(served, joined, lifetime)
                # A second signal cuts the drain short, but never what ends the children.
                await node.stop(0.0)
                beside.cancel()
            if door is not None:
                await door.close()
    finally:
        await gateway.close(0.0)
    return lifetime.code


async def _beside(gateway: Gateway, parts: Parts, watching: Watch | None) -> None:
    """Keep the node joined, and up to date with what is installed; until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_stay_joined(gateway, parts.node))
        if watching is not None:
            group.create_task(watch(watching, parts.set_models))


async def _stay_joined(gateway: Gateway, node: NodeLoop) -> None:
    """Join the node, and again should the link ever end: nobody else would."""

    async def dial() -> NodeConnection:
        node_side, gateway_side = memory_pair()
        gateway.join(gateway_side)
        return node_side

    settings = DialSettings(max_s=REJOIN_MAX_S)
    await keep_joined(dial, node.serve_link, settings, random.Random(), logs.get())


async def _live(served: Served, joined: asyncio.Event, lifetime: Lifetime) -> None:
    """Serve until the end is asked for.

    People and client verbs are told where when this process's own node has joined, and not when
    it listens: a request in between would find nobody.
    """
    with ExitStack() as told:
        if await _joins(joined, lifetime):
            told.enter_context(_tell(served))
            lifetime.settled()
        await lifetime.wait()
        await lifetime.wind_down(served.drain)


async def _joins(joined: asyncio.Event, lifetime: Lifetime) -> bool:
    """Wait for the node, or for a signal that makes it needless."""
    async with asyncio.TaskGroup() as group:
        ready, asked = group.create_task(joined.wait()), group.create_task(lifetime.wait())
        await asyncio.wait((ready, asked), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        asked.cancel()
    return joined.is_set()


def _tell(served: Served) -> Held:
    assert served.gateway.front is not None, "an open gateway listens"
    url = served.gateway.front.url + served.settings.base_path
    stores = served.stores
    held = stores.home.record_instance(url, fingerprint=stores.fingerprint)
    keys, roost = stores.keys.any_keys(), options.called()
    home = options.at_home(served.settings.home)
    print(banner(url, served.models, keys_exist=keys, roost=roost, home=home), flush=True)
    return held
