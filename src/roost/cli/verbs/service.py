"""SHELL: `roost service`: has systemd run a verb for this user from the machine's start on."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from typing import NamedTuple

from roost.cli import options
from roost.cli.service_unit import Service, plist, told_secrets, unit
from roost.config import TABLE
from roost.config.read import read_environment, read_user_folder
from roost.errors import fail
from roost.store.files import write_atomic

VERBS = ("serve", "gateway", "node")
DESCRIPTION = """\
install writes a systemd unit of this user's that runs `roost serve`, or gateway or node, and starts
it. What follows -- is its command line: `roost service install node -- --join https://HOST:7878
--token-file TOKEN`. status says whether it runs, uninstall ends and removes it, and show prints the
unit (or, with --launchd, what macOS takes) and changes nothing. A unit for the whole machine is the
same text with User= under [Service], in /etc/systemd/system.
"""
COMMAND_S = 60.0
NOT_RUNNING = 3
UNIT_MODE = 0o644
SECRET_FLAGS = frozenset({*(row.flag for row in TABLE if row.secret), "--upstream-key"})


class Tools(NamedTuple):
    """The programs that are asked; a test has others."""

    systemctl: str = "systemctl"
    analyze: str = "systemd-analyze"


def main(arguments: list[str], tools: Tools = Tools()) -> int:  # noqa: B008 - frozen
    """Do what the first word says."""
    own, _, given = _parted(arguments)
    parser = options.parser("service", DESCRIPTION)
    parser.add_argument("action", choices=("install", "uninstall", "status", "show"))
    parser.add_argument("verb", nargs="?", choices=VERBS, default="serve", help="what is run")
    parser.add_argument("--user", action="store_true", help="for this user, as always")
    parser.add_argument("--no-start", action="store_true", help="install it and leave it stopped")
    parser.add_argument("--launchd", action="store_true", help="show what macOS takes")
    parser.add_argument("--json", action="store_true", help="print the status as JSON")
    parsed = parser.parse_args(own)
    if given and parsed.action not in {"install", "show"}:
        parser.error(f"{parsed.action} takes no command line after --")
    folder = read_user_folder() / "systemd" / "user"
    if parsed.action == "status":
        return _status(f"roost-{parsed.verb}.service", folder, tools, as_json=parsed.json)
    if parsed.action == "uninstall":
        return _uninstall(f"roost-{parsed.verb}.service", folder, tools)
    service = _service(parsed.verb, given, options.load(parsed).settings.home)
    if parsed.action == "show":
        print(plist(service) if parsed.launchd else unit(service), end="")
        return 0
    return _install(service, folder, tools, start=not parsed.no_start)


def _parted(words: list[str]) -> tuple[list[str], str, list[str]]:
    """Part the words at the first `--`."""
    if "--" not in words:
        return words, "", []
    at = words.index("--")
    return words[:at], "--", words[at + 1 :]


def _service(verb: str, given: list[str], home: str) -> Service:
    """Say what is to be run; raises `bad_request` for a command line that could not be."""
    secrets = told_secrets(given, SECRET_FLAGS)
    if secrets:
        flags = ", ".join(secrets)
        message = (
            f"{flags}: everybody on this machine could read it there. Write it into roost.toml, or "
            "use --token-file for a join token."
        )
        raise fail("bad_request", message)
    if "--home" not in {word.partition("=")[0] for word in given}:
        given = [*given, "--home", home]
    grace_s = _checked(verb, given)
    command = (sys.executable, "-m", "roost", verb, *given)
    return Service(verb, command, str(Path.cwd()), grace_s)


def _checked(verb: str, given: list[str]) -> float:
    """Have the verb's own parser and the settings look at a command line; return its grace."""
    from roost.cli.verbs import gateway, node, serve

    parsers = {
        "serve": serve.flags,
        "gateway": gateway.flags,
        "node": node.flags,
    }
    return options.load(parsers[verb]().parse_args(given)).settings.drain_grace_s


def _install(service: Service, folder: Path, tools: Tools, *, start: bool) -> int:
    if not sys.platform.startswith("linux"):
        message = f"There is no systemd here; `roost service show {service.verb} --launchd` prints"
        raise fail("unsupported", f"{message} what launchd takes.")
    text = unit(service)
    verify(service.name, text, tools)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / service.name, text.encode(), UNIT_MODE)
    print(f"{folder / service.name} is written")
    unread = sorted(name for name in read_environment() if name.startswith("ROOST_"))
    if unread:
        names = ", ".join(unread)
        print(f"roost: a service does not see {names}: write them into roost.toml", file=sys.stderr)
    wanted = [["daemon-reload"], ["enable", *(["--now"] if start else []), service.name]]
    for words in wanted:
        told = _systemctl(tools, *words)
        if told is not None:
            print(f"roost service: {told}", file=sys.stderr)
            print(f"it is not started; type: systemctl --user enable --now {service.name}")
            return 1
    if start:
        print(f"{service.name} runs; its log: journalctl --user -u {service.name} -f")
        print("it ends when you log out, unless you type: loginctl enable-linger")
    return 0


def verify(name: str, text: str, tools: Tools) -> None:
    """Let systemd read the unit first, where it can; raises `internal` with what it says of it."""
    program = which(tools.analyze)
    if program is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text, "utf-8")
        # It wants a folder of the session's, which a machine without one does not name.
        session = {"XDG_RUNTIME_DIR": folder, **read_environment()}
        _, said = _run([program, "--user", "verify", str(file)], session)
    # What it says of this machine, or of other units, is no fault of this one.
    complaints = [line for line in said.splitlines() if name in line]
    if complaints:
        raise fail("internal", f"systemd does not take the unit: {complaints[0]}")


def _uninstall(name: str, folder: Path, tools: Tools) -> int:
    if not (folder / name).exists():
        print(f"{name} is not installed", file=sys.stderr)
        return 1
    told = _systemctl(tools, "disable", "--now", name)
    (folder / name).unlink(missing_ok=True)
    _systemctl(tools, "daemon-reload")
    if told is not None:
        print(f"roost service: {told}", file=sys.stderr)
    print(f"{name} is removed")
    return 0


def _status(name: str, folder: Path, tools: Tools, *, as_json: bool) -> int:
    """Print what is known; 0 if it runs, 3 if not, as `systemctl status` does."""
    installed = (folder / name).exists()
    state = _state(tools, "is-active", name)
    told = {"service": name, "installed": installed, "state": state}
    told["enabled"] = _state(tools, "is-enabled", name) == "enabled"
    if as_json:
        options.print_json(told)
    else:
        here = "installed" if installed else "not installed"
        start = "starts with the machine" if told["enabled"] else "does not start by itself"
        print(f"{name}: {here}, {state}, {start}")
    return 0 if state == "active" else NOT_RUNNING


def _state(tools: Tools, question: str, name: str) -> str:
    """Ask one word of systemd; it answers also where its exit code says no."""
    program = which(tools.systemctl)
    if program is None:
        return "unknown"
    _, said = _run([program, "--user", question, name])
    word = said.strip().split("\n")[0]
    return word if word and " " not in word else "unknown"


def _systemctl(tools: Tools, *words: str) -> str | None:
    """Ask systemd for something; None where it has done it, else what it says."""
    program = which(tools.systemctl)
    if program is None:
        return "there is no systemctl here"
    code, said = _run([program, "--user", *words])
    return None if code == 0 else said.strip() or f"systemctl ended with {code}"


def _run(command: list[str], env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command; return its exit code and all that it said."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
            timeout=COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return 1, type(error).__name__
    return done.returncode, done.stdout
