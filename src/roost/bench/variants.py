"""WIRING: what is measured: every variant is a function that starts something in front of the stub.

A gateway of somebody else's is an entry of `roost.bench.peers.entries`; anything else is such a
function here. It may return None where what it needs is not installed; the report then says so.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from roost.bench.peers.entries import PEERS
from roost.bench.peers.starting import started
from roost.bench.processes import (
    GATEWAY_CORE,
    LOAD_CORE,
    end,
    first_line,
    pinned,
    python,
)

START_S = 20.0


@dataclass(frozen=True)
class Scene:
    """Where a variant finds its upstream, a folder of its own, and programs of other projects.

    `peers` is a virtual environment with such programs; what is on PATH is found too.
    """

    stub_port: int
    folder: Path
    key: str
    gap_us: int = 0
    peers: Path | None = None


@dataclass(frozen=True)
class Running:
    """A variant that runs: ask it at `port`; `process` None where there is nothing in between."""

    port: int
    settings: str
    process: subprocess.Popen[bytes] | None = None
    behind: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End it, and what it has brought along behind itself."""
        for process in (self.process, self.behind):
            if process is not None:
                end(process)


Start: TypeAlias = Callable[[Scene], "Running | None"]


def direct(scene: Scene) -> Running:
    """Ask the stub itself."""
    return Running(scene.stub_port, "no gateway")


def roost_upstream(scene: Scene) -> Running:
    """`roost gateway --upstream` with a key: all of its policy is on."""
    command = [
        *(python(), "-m", "roost.bench.relay", "--key", scene.key),
        *("--upstream", f"http://127.0.0.1:{scene.stub_port}"),
    ]
    process = pinned(command, GATEWAY_CORE)
    port = int(first_line(process, START_S).partition(":")[2].strip(" }\n"))
    return Running(port, "host, origin and key checks, admission, metrics, ids", process)


def roost_fleet(scene: Scene) -> Running:
    """`roost gateway` with a scripted node over a real link, in place of the stub."""
    module = (python(), "-m", "roost.bench.fleet")
    process = pinned([*module, "gateway", "--key", scene.key], GATEWAY_CORE)
    port = int(first_line(process, START_S).partition(":")[2].strip(" }\n"))
    words = ("node", "--join", f"http://127.0.0.1:{port}", "--gap-us", str(scene.gap_us))
    node = pinned([*module, *words], LOAD_CORE, log=scene.folder / "node.log")
    return Running(port, "the fleet's policy, one scripted node that joined", process, node)


def peer(name: str) -> Start:
    """Return what starts a gateway of somebody else's."""

    def start(scene: Scene) -> Running | None:
        found = started(name, (scene.stub_port,), scene.folder, scene.peers, GATEWAY_CORE)
        return found and Running(found[0], PEERS[name].settings, found[1])

    return start


VARIANTS: dict[str, Start] = {
    "direct": direct,
    "roost": roost_upstream,
    "roost-fleet": roost_fleet,
    **{name: peer(name) for name in PEERS},
}
"""Every variant by name, in the order of the report. The first two are always there."""
