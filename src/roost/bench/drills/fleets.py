"""SHELL: fleets for drills: a gateway with nodes, and a stateless one before servers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from roost.bench.drills.stage import FleetView, Running, Stage, until

LINK_FLAGS = (
    *("--link-ping-s", "0.25", "--link-suspect-s", "1.5"),
    *("--link-stale-s", "2.0", "--link-dead-s", "3.0"),
)
PROBE_FLAGS = ("--upstream-probe-s", "0.5")
JOIN_S = 30.0
Kind = Literal["nodes", "servers"]


class Fleet:
    """A gateway and who serves behind it, by the name the gateway gives each."""

    def __init__(self, stage: Stage, kind: Kind, gateway: Running) -> None:
        self.stage = stage
        self.kind = kind
        self.gateway = gateway
        self.members: dict[str, Running] = {}

    @property
    def port(self) -> int:
        """Where clients ask."""
        return self.gateway.port

    def kill(self, name: str) -> None:
        """Kill -9 a node or server."""
        self.members[name].kill()

    async def restart(self, name: str) -> None:
        """Start a killed one again, as it was and where it was."""
        old = self.members[name]
        words = list(old.words[: old.words.index("--home")])
        if self.kind == "servers":
            words[words.index("--port") + 1] = str(old.port)
        self.members[name] = new = self.stage.run(words, old.home.name)
        if self.kind == "servers":
            await new.serves()

    async def restart_gateway(self, pause_s: float = 0.0) -> None:
        """Kill -9 the gateway, and after a pause start it again as it was, on its port."""
        old = self.gateway
        old.kill()
        await asyncio.sleep(pause_s)
        words = list(old.words[: old.words.index("--home")])
        words[words.index("--port") + 1] = str(old.port)
        self.gateway = self.stage.run(words, old.home.name)
        await self.gateway.listens()

    async def all_alive(self) -> FleetView:
        """Wait until the gateway counts on every member."""
        return await self.seen(lambda view: view.alive >= set(self.members), "all are alive")

    async def seen(
        self, holds: Callable[[FleetView], bool], what: str, within_s: float = JOIN_S
    ) -> FleetView:
        """Wait until the gateway's view has something."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not holds(view := await self.gateway.view()):
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"within {within_s:g} s: {what}; {view}")
            await asyncio.sleep(0.03)
        return view


async def nodes(
    stage: Stage, count: int, node_flags: Sequence[str], gateway_flags: Sequence[str] = ()
) -> Fleet:
    """Start a gateway and real nodes that join it."""
    fleet, token = await _gateway(stage, gateway_flags)
    words = ("node", "--join", f"http://127.0.0.1:{fleet.port}", "--token", token)
    flags = (*words, *stage.backend(), *LINK_FLAGS, *node_flags)
    started = [stage.start(f"node-{number}", *flags) for number in range(count)]
    for node in started:
        identity = node.home / "nodes" / "0" / "id"
        name = await until(partial(_read, identity), "the node has a name", JOIN_S)
        fleet.members[name] = node
    await fleet.all_alive()
    return fleet


async def paced_nodes(
    stage: Stage, delays_ms: dict[str, float], slots: int, gateway_flags: Sequence[str] = ()
) -> Fleet:
    """Start a gateway and scripted nodes, each with a pace of its own."""
    fleet, token = await _gateway(stage, gateway_flags)
    for name, delay_ms in delays_ms.items():
        words = [
            *(sys.executable, "-u", "-m", "roost.bench.drills.paced_node"),
            *("--name", name, "--join", f"http://127.0.0.1:{fleet.port}", "--token", token),
            *("--delay-ms", str(delay_ms), "--slots", str(slots)),
        ]
        fleet.members[name] = stage.run(words, name)
    await fleet.all_alive()
    return fleet


async def _gateway(stage: Stage, flags: Sequence[str]) -> tuple[Fleet, str]:
    # Every drill is about a model that all of its nodes run.
    everywhere = ("--placement-replicas", "0")
    gateway = stage.start("gateway", "gateway", "--port", "0", *LINK_FLAGS, *everywhere, *flags)
    token = stage.start("gateway", "token", "--json")
    await gateway.listens()
    said = await token.says(r'\{.*"token".*\}')
    return Fleet(stage, "nodes", gateway), str(json.loads(said[0])["token"])


async def servers(
    stage: Stage, count: int, server_flags: Sequence[str], gateway_flags: Sequence[str] = ()
) -> Fleet:
    """Start servers and a stateless gateway before them."""
    started = stage.serve_all("server", count, server_flags)
    for server in started:
        await server.serves()
    fleet = await before(stage, started, gateway_flags)
    await fleet.all_alive()
    return fleet


async def before(stage: Stage, started: Sequence[Running], flags: Sequence[str]) -> Fleet:
    """Start a stateless gateway before servers that listen."""
    urls = [word for s in started for word in ("--upstream", f"http://127.0.0.1:{s.port}")]
    home = f"before-{started[0].home.name}"
    gateway = stage.start(home, "gateway", "--port", "0", *urls, *PROBE_FLAGS, *flags)
    await gateway.listens()
    fleet = Fleet(stage, "servers", gateway)
    fleet.members = {f"upstream-{number}": s for number, s in enumerate(started, 1)}
    return fleet


def _read(path: Path) -> str | None:
    return path.read_text("ascii").strip() or None if path.exists() else None
