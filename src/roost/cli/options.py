"""WIRING: what verbs have in common: flags and settings, ROOST_HOME, progress."""

from __future__ import annotations

import argparse
import difflib
import math
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from roost.config.read import read, read_usual_home
from roost.config.show import add_flags

if TYPE_CHECKING:
    import msgspec

    from roost.cli.lifetime import Lifetime
    from roost.config import Loaded, Settings
    from roost.store.home import Home


ASKS = ("url", "api_key", "ca_file")
"""The settings of every verb that asks a gateway."""

SECONDS_MAX = 3_155_760_000
"""A century: any time that a flag means, and no moment computed with it leaves the calendar."""


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in one line, and which flag may have been meant."""

    def error(self, message: str) -> NoReturn:
        """End with 2."""
        wrong = message.rpartition(" ")[2]
        near = difflib.get_close_matches(wrong.partition("=")[0], self._option_string_actions, 1)
        meant = f"; did you mean {near[0]}?" if near and "unrecognized" in message else ""
        self.exit(2, f"{self.prog}: {message}{meant}. See: {self.prog} --help\n")


def parser(verb: str, description: str, settings: Iterable[str] = ()) -> Parser:
    """Make a verb's parser with the flags of the settings it uses, home included."""
    made = Parser(prog=f"roost {verb}", description=description)
    add_flags(made, ("home", *settings))
    return made


def seconds(text: str) -> float:
    """Read a time that somebody gives: as a flag's type, since `float` also takes nan and inf."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= SECONDS_MAX:
        message = f"{text!r} is no number of seconds from 0 to {SECONDS_MAX}"
        raise argparse.ArgumentTypeError(message)
    return found


def load(arguments: argparse.Namespace) -> Loaded:
    """Return the settings in force; raises `bad_request` naming the source of a wrong one."""
    loaded = read(vars(arguments))
    warn_unknown(loaded)
    return loaded


def warn_unknown(loaded: Loaded) -> None:
    """Name variables that look like settings and are none."""
    for name in loaded.unknown:
        print(f"roost: {name} is set, but there is no such setting", file=sys.stderr)


def open_home(settings: Settings) -> Home:
    """Open ROOST_HOME, making it if it is missing."""
    from roost.store.home import Home

    return Home.open(Path(settings.home))


def start_lifetime(arguments: argparse.Namespace) -> Lifetime:
    """Set up the log of a serving verb, its signals, and what HUP changes: the log, at first."""
    from roost.cli.lifetime import Lifetime
    from roost.cli.reloading import Reloads, Taker
    from roost.observe import logs

    def read_again() -> Settings:
        return read(vars(arguments)).settings

    def set_up(settings: Settings) -> Callable[[], None]:
        return lambda: logs.configure(settings.log_level, settings.log_format)

    settings = read_again()
    set_up(settings)()
    reloads = Reloads(settings, frozenset(vars(arguments)), read_again, logs.get())
    reloads.add(Taker(("log_level", "log_format"), set_up))
    return Lifetime(settings.drain_grace_s, reloads)


def human_bytes(size: float) -> str:
    """Write a size for people: `98.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def print_json(value: object) -> None:
    """Print one JSON value for a script."""
    import msgspec

    print(msgspec.json.encode(value).decode())


def print_records(records: Sequence[msgspec.Struct], *, as_json: bool) -> None:
    """Print records one a line, or as one JSON list."""
    import msgspec

    if as_json:
        print_json(records)
        return
    for record in records:
        fields = msgspec.structs.asdict(record).items()
        print("  ".join(shown(name, value) for name, value in fields))


def shown(name: str, value: object) -> str:
    """Write a field of a record for people."""
    if isinstance(value, int | float) and name.endswith("_unix_s"):
        return datetime.fromtimestamp(value).astimezone().strftime("%Y-%m-%d %H:%M")
    return "-" if value is None else str(value)


def counted(number: int, what: str) -> str:
    """Write how many there are: `1 session`, `2 sessions`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def at_home(home: str) -> str:
    """Return the flag by which another call finds what is in `home`, where it needs one."""
    return "" if home == read_usual_home() else f" --home {shlex.quote(home)}"


def called() -> str:
    """Return what to type for this command: its path where a shell does not find `roost`."""
    by = sys.argv[0]
    return shlex.quote(by) if Path(by).name == "roost" and not shutil.which("roost") else "roost"


def report_revoked(what: str, name: str, *, found: bool) -> int:
    """Say whether something was revoked, and return the exit code for it."""
    if found:
        print(f"{name} revoked")
        return 0
    print(f"there is no valid {what} {name}", file=sys.stderr)
    return 1


class Progress:
    """A one-line progress bar on a terminal; one line per stage where nobody watches."""

    WIDTH = 28

    def __init__(self) -> None:
        self._stage = ""
        self._percent = -1
        self._tty = sys.stderr.isatty()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` bytes of a stage are through."""
        percent = 100 * done // total if total else 0
        if stage == self._stage and percent == self._percent:
            return
        if not self._tty:
            if stage != self._stage:
                print(f"{stage} …", file=sys.stderr)
        else:
            filled = self.WIDTH * percent // 100
            bar = "█" * filled + "·" * (self.WIDTH - filled)
            sizes = f"{human_bytes(done)} of {human_bytes(total)}" if total else ""
            print(f"\r\x1b[K{stage:<12} {bar} {percent:3d} %  {sizes}", end="", file=sys.stderr)
        sys.stderr.flush()
        self._stage, self._percent = stage, percent

    def close(self) -> None:
        """Leave the line of the bar."""
        if self._tty and self._stage:
            print("\r\x1b[K", end="", file=sys.stderr)
