"""DECIDER: the text of a service: a systemd unit, or a launchd property list."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from roost.errors import fail

RESTART_S = 5
KILL_MARGIN_S = 30.0
"""After the grace for requests: what ending runtimes and writing the last words may take."""
USELESS_EXIT = 2
"""The exit code of a command line or a setting that is wrong: starting again changes nothing."""
_PLAIN = re.compile(r"[A-Za-z0-9_@:./=,+-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Service(NamedTuple):
    """What is run: the verb, the whole command, from which folder, and how long it may drain."""

    verb: str
    command: tuple[str, ...]
    folder: str
    drain_grace_s: float

    @property
    def name(self) -> str:
        """The name of the unit."""
        return f"roost-{self.verb}.service"

    @property
    def label(self) -> str:
        """The name for launchd."""
        return f"roost.{self.verb}"


def unit(service: Service) -> str:
    """Write a user's systemd unit; raises `bad_request` for what none can hold."""
    line = " ".join(quoted(word) for word in service.command)
    stop_s = int(service.drain_grace_s + KILL_MARGIN_S)
    return f"""\
[Unit]
Description=roost {service.verb}: large language models from one's own machines
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={line}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=-{_checked(service.folder).replace("%", "%%")}
Restart=on-failure
RestartSec={RESTART_S}
RestartPreventExitStatus={USELESS_EXIT}
KillMode=mixed
TimeoutStopSec={stop_s}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def plist(service: Service) -> str:
    """Write a user's launchd property list."""
    made = {
        "Label": service.label,
        "ProgramArguments": [_checked(word) for word in service.command],
        "WorkingDirectory": _checked(service.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RESTART_S,
        "ExitTimeOut": int(service.drain_grace_s + KILL_MARGIN_S),
        "Umask": 0o077,
    }
    return plistlib.dumps(made, sort_keys=False).decode()


def quoted(word: str) -> str:
    """Write one word of a command as systemd reads it: no variable, no specifier, one word."""
    safe = _checked(word).replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return safe
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(word: str) -> str:
    if _CONTROL.search(word) or not word.isprintable():
        message = "A service cannot be given control characters or text that is no Unicode."
        raise fail("bad_request", message)
    return word


def told_secrets(words: Sequence[str], secret_flags: frozenset[str]) -> list[str]:
    """List the flags among these that are secrets: a unit can be read, and so can a command."""
    return sorted({word.partition("=")[0] for word in words} & secret_flags)
