"""WIRING: a scripted node with a pace of its own, as a process: `python -m …paced_node`."""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from functools import partial

from roost.backends.base import Runtime, StartSettings
from roost.backends.scripted.backend import ScriptedBackend
from roost.backends.scripted.script import Script
from roost.bench.drills.tiny_model import NAME
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.gateway.loop import run
from roost.node.agent import Agent
from roost.node.joining.dial import DialSettings, keep_joined
from roost.node.joining.socket_connection import Address, dial
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.observe import logs
from roost.wire.messages import VERSION, Hello

MODEL = ModelId(NAME)
PIECES = 10
CTX = 32_768


async def node(address: Address, name: str, slots: int, delay_ms: float) -> None:
    """Answer with `PIECES` pieces, `delay_ms` before each, until killed."""
    backend = ScriptedBackend(Script(pieces=("tick ",) * PIECES, delay_ms=delay_ms))
    options = RuntimeOptions(ctx=CTX, slots=slots)

    async def launch(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the scripted runtime of the only model."""
        assert model == MODEL, f"{runtime} is of another model"
        manifest = Manifest(model, "", 0, "none", format="scripted")
        key = RuntimeKey("scripted", model, "none", options)
        return await backend.start(key, manifest, StartSettings("", ""), on_progress)

    agent = Agent(AgentSettings("scripted"), [ModelOffer(MODEL, slots, CTX)])
    hello = Hello(VERSION, NodeId(name), name, name, "drill")
    loop = NodeLoop(agent, launch, hello, LoopSettings(), time.monotonic, logs.get())
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run())
        dialling = partial(dial, address)
        await keep_joined(dialling, loop.serve_link, DialSettings(), random.Random(), logs.get())


def main() -> None:
    """Join and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--join", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--home", help="taken and not used: the model has no file")
    options = parser.parse_args()
    logs.configure("error")
    run(node(Address(options.join, options.token), options.name, options.slots, options.delay_ms))


if __name__ == "__main__":
    main()
