"""WIRING: what is measured: every variant is a function that starts something in front of the stub.

To add one, write such a function and put it into `VARIANTS`. It may return None where what it needs
is not installed here; the report then says so.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from roost.bench.processes import (
    GATEWAY_CORE,
    LOAD_CORE,
    end,
    first_line,
    free_port,
    pinned,
    python,
)

START_S = 20.0


@dataclass(frozen=True)
class Scene:
    """Where a variant finds its upstream, a folder of its own, and programs of other projects."""

    stub_port: int
    folder: Path
    key: str
    gap_us: int = 0
    peers: Path | None = None

    def program(self, name: str) -> str | None:
        """Return the path of a program of the peers' environment or of this machine."""
        if self.peers is not None and (self.peers / "bin" / name).exists():
            return str(self.peers / "bin" / name)
        return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


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


def _router(scene: Scene, name: str, *arguments: str) -> Running | None:
    program = scene.program(name)
    if program is None:
        return None
    port = free_port()
    command = [
        *(program, *arguments, "--host", "127.0.0.1", "--port", str(port)),
        *("--worker-urls", f"http://127.0.0.1:{scene.stub_port}"),
        *("--prometheus-port", str(free_port())),
    ]
    log = scene.folder / f"{name}-{port}.log"
    return Running(port, " ".join(arguments), pinned(command, GATEWAY_CORE, log=log))


def smg_cache_aware(scene: Scene) -> Running | None:
    """Shepherd Model Gateway with its default policy."""
    return _router(scene, "smg", "launch", "--policy", "cache_aware")


def smg_round_robin(scene: Scene) -> Running | None:
    """Shepherd Model Gateway with its cheapest policy."""
    return _router(scene, "smg", "launch", "--policy", "round_robin")


def vllm_router(scene: Scene) -> Running | None:
    """vllm-router with its cheapest policy."""
    return _router(scene, "vllm-router", "--policy", "round_robin")


_NGINX = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 100000000;
    upstream stub {{ server 127.0.0.1:{stub}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://stub;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def nginx(scene: Scene) -> Running | None:
    """A plain reverse proxy in C: the floor."""
    program = scene.program("nginx")
    if program is None:
        return None
    port = free_port()
    config = scene.folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=scene.folder, stub=scene.stub_port, port=port))
    command = [program, "-c", str(config), "-p", str(scene.folder), "-g", "daemon off;"]
    process = pinned(command, GATEWAY_CORE, log=scene.folder / "nginx.out")
    return Running(port, "worker_processes 1, upstream keepalive, proxy_buffering off", process)


VARIANTS: dict[str, Start] = {
    "direct": direct,
    "roost": roost_upstream,
    "roost-fleet": roost_fleet,
    "smg": smg_cache_aware,
    "smg-rr": smg_round_robin,
    "vllm-router": vllm_router,
    "nginx": nginx,
}
"""Every variant by name, in the order of the report. The first two are always there."""
