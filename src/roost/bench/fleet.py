"""WIRING: a fleet gateway and a scripted node as processes of their own, for benchmarks.

`gateway` listens with a key and prints the JSON `{"port": …}`; `node` joins it over a real link and
answers every request with `EVENTS` short pieces, `--gap-us` apart.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sys
import time
from collections.abc import Callable
from functools import partial

from roost.backends.base import Runtime, StartSettings
from roost.backends.scripted.backend import ScriptedBackend
from roost.backends.scripted.script import Script
from roost.bench.loads import EVENTS
from roost.core.fence import Life
from roost.core.ids import ModelId, NodeId, RuntimeId, TenantId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.fleet.settings import FleetSettings
from roost.gateway.assemble import GatewaySettings, open_gateway
from roost.gateway.front.access import ANYONE, Fields, Principal, by_digest
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.generation import GenerationSettings
from roost.gateway.loop import run
from roost.gateway.node_link import GatewayLinkSettings
from roost.node.agent import Agent
from roost.node.joining.dial import DialSettings, keep_joined
from roost.node.joining.socket_connection import Address, dial
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.observe import logs
from roost.wire.messages import VERSION, Hello

MODEL = ModelId("stub")
SLOTS = 64
CREDIT = 64


async def gateway(key: str) -> None:
    """Serve until killed."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    settings = GatewaySettings(
        name="bench",
        fleet=FleetSettings(queue_length=1024),
        generation=GenerationSettings(),
        link=GatewayLinkSettings("bench", CREDIT, Life("bench", 1)),
        listener=Listener(port=0),
        limits=FrontLimits(),
    )
    opened = await open_gateway(
        settings, by_digest({digest: Principal(TenantId("key:bench"))}), _admit
    )
    assert opened.front is not None, "an open gateway listens"
    sys.stdout.write(f'{{"port":{opened.front.port}}}\n')
    sys.stdout.flush()
    await opened.front.wait_closed()


def _admit(_fields: Fields) -> Principal:
    return ANYONE


async def node(url: str, gap_us: int) -> None:
    """Answer until killed."""
    script = Script(pieces=("tok ",) * EVENTS, delay_ms=gap_us / 1000)
    backend = ScriptedBackend(script)
    options = RuntimeOptions(ctx=65_536, slots=SLOTS)

    async def launch(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the scripted runtime; there is only one."""
        assert (model, runtime) == (MODEL, f"{MODEL}#1")
        manifest = Manifest(model, "", 0, "none", format="scripted")
        key = RuntimeKey("scripted", model, "none", options)
        return await backend.start(key, manifest, StartSettings("", ""), on_progress)

    agent = Agent(AgentSettings("scripted"), [ModelOffer(MODEL, SLOTS, options.ctx)])
    hello = Hello(VERSION, NodeId("bench"), "bench", "1", "bench")
    loop = NodeLoop(agent, launch, hello, LoopSettings(), time.monotonic, logs.get())
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run())
        dialling = partial(dial, Address(url, "none"))
        dice = random.Random()
        await keep_joined(dialling, loop.serve_link, DialSettings(), dice, logs.get())


def main() -> None:
    """Be one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("gateway", "node"))
    parser.add_argument("--key", default="")
    parser.add_argument("--join", default="")
    parser.add_argument("--gap-us", type=int, default=0)
    arguments = parser.parse_args()
    logs.configure("error")
    if arguments.part == "gateway":
        run(gateway(arguments.key))
    else:
        run(node(arguments.join, arguments.gap_us))


if __name__ == "__main__":
    main()
