"""SHELL: libraries that are hosted: each runtime is a process of its own that holds one model.

A library in the node's own process would take the node along when it crashes, hangs or runs out of
memory. Behind a socket it is a runtime like any other, and adding one means writing what happens in
the child (`engine`) and a `Library` that says how it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from roost.backends.base import StartSettings
from roost.backends.hostable import Library
from roost.backends.hosted.frames import FRAMES
from roost.backends.hosted.hosting import Guest, begin
from roost.backends.hosted.runtime import HostedRuntime
from roost.backends.looking import library_found
from roost.backends.processes.huge_pages import with_huge_pages
from roost.config.read import read_environment
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.errors import fail

CHILD = "roost.backends.hosted.child"
WAITING = "OMP_WAIT_POLICY"


class Hosted:
    """The backend of one library."""

    def __init__(self, library: Library) -> None:
        self._library = library

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return self._library.name

    @property
    def capabilities(self) -> Capabilities:
        """What its adapter does."""
        return self._library.capabilities

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> HostedRuntime:
        """Start a child and wait until the model is loaded; see `base.Backend.start`."""
        found = library_found(self._library)
        if not found.usable:
            what = f"{self._library.title} is not installed. Type: {found.command}"
            raise fail("load_failed", what)
        environ = surroundings(read_environment())
        guest = Guest(self._argv, FRAMES, manifest.path, self.capabilities, environ)
        return await begin(guest, key, manifest, settings, on_progress)

    def _argv(self, descriptor: int) -> tuple[str, ...]:
        # -P: whatever lies in the working directory is not ours to import.
        return (sys.executable, "-P", "-m", CHILD, str(descriptor), self._library.loader)


def surroundings(environ: Mapping[str, str]) -> dict[str, str]:
    """Say what a library's process is told of the machine, unless an operator has said it.

    Threads of OpenMP spin for milliseconds while they wait for each other: that is meant for a
    machine of their own, and here the node and other runtimes want the cores.
    """
    return {**with_huge_pages(environ), WAITING: environ.get(WAITING, "PASSIVE")}
