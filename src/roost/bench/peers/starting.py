"""SHELL: a peer is looked for on this machine and started before servers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from roost.bench.peers.entries import FILE, PEERS, Launch, Peer, Site
from roost.bench.processes import free_port, pinned

SBIN = "/usr/sbin:/usr/local/sbin"
VERSION_S = 30.0


def program_of(name: str, environment: Path | None) -> str | None:
    """Return the path of a program of a virtual environment, or of this machine."""
    if environment is not None and (environment / "bin" / name).exists():
        return str(environment / "bin" / name)
    return shutil.which(name) or shutil.which(name, path=SBIN)


def prepared(peer: Peer, program: str, site: Site) -> list[str]:
    """Write what a peer reads, and return the command that starts it."""
    launch: Launch = peer.launch(site)
    if launch.text:
        (Path(site.folder) / FILE).write_text(launch.text, "utf-8")
    environment = [f"{name}={value}" for name, value in launch.environment.items()]
    return [*(("env", *environment) if environment else ()), program, *launch.words]


def started(
    name: str, servers: tuple[int, ...], folder: Path, environment: Path | None, core: int | None
) -> tuple[int, subprocess.Popen[bytes]] | None:
    """Start a peer before servers on a core, or on any; return its port and its process.

    None where its program is not installed.
    """
    peer = PEERS[name]
    program = program_of(peer.program, environment)
    if program is None:
        return None
    own = folder / name
    own.mkdir()
    # Some start as root here and there, and then work as somebody else.
    own.chmod(0o755)
    site = Site(free_port(), servers, free_port(), str(own))
    command = prepared(peer, program, site)
    return site.port, pinned(command, core, log=own / "output")


def version(name: str, environment: Path | None) -> str:
    """Return the version of a peer, by its package or by its own word; "" where nobody knows."""
    peer = PEERS[name]
    if environment is not None:
        package = peer.program.replace("-", "_")
        for found in environment.glob(f"lib/python*/site-packages/{package}-*.dist-info"):
            return found.name.removesuffix(".dist-info").replace("_", "-")
    program = program_of(peer.program, environment)
    if program is None or not peer.version:
        return ""
    said = subprocess.run(
        [program, *peer.version], capture_output=True, timeout=VERSION_S, check=False
    )
    return (said.stdout + said.stderr).decode("utf-8", "replace").partition("\n")[0]
