"""SHELL: the backend `command`: a program of somebody else's that serves a model.

It is told and tells, as lines of JSON on its standard input and output, the words of
`hosted.frames`; docs/runners.md describes them for those who write one. Everything else is as for a
hosted library: its own process, its limits, its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from roost.backends.base import StartSettings
from roost.backends.card_file import read_installed
from roost.backends.hosted.frames import LINES
from roost.backends.hosted.hosting import Guest, begin
from roost.backends.hosted.runtime import HostedRuntime
from roost.core.card import Runner
from roost.core.model import Capabilities, Manifest, RuntimeKey

CAPABILITIES = Capabilities(
    chat=True,
    completion=True,
    streaming=True,
    concurrent_streams=True,
    cancel=True,
    exact_token_count=True,
    replay=True,
)
"""What the protocol itself demands of every runner; what single ones can do beyond is not known."""

AS_STDIO = """\
import os, sys
number = int(sys.argv[1])
os.dup2(number, 0)
os.dup2(number, 1)
os.close(number)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"the program cannot be started: {error.strerror}")
"""
"""Makes the socket a program's standard input and output; its errors go to the log."""


class Command:
    """Starts runners, as their cards say."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "command"

    @property
    def capabilities(self) -> Capabilities:
        """What every runner does."""
        return CAPABILITIES

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> HostedRuntime:
        """Start a runner and wait until it has loaded its model; see `base.Backend.start`."""
        card = read_runner(manifest)

        def argv(descriptor: int) -> tuple[str, ...]:
            exec_ = (sys.executable, "-S", "-E", "-I", "-c", AS_STDIO, str(descriptor))
            return (*exec_, *card.argv)

        guest = Guest(argv, LINES, card.path, self.capabilities)
        return await begin(guest, key, manifest, settings, on_progress)


def read_runner(manifest: Manifest) -> Runner:
    """Read the card again, which may have changed since; raises `load_failed`."""
    return read_installed(manifest.path, Runner, "command")
