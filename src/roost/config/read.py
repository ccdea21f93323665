"""SHELL: reads this process's flags, environment and settings file; nothing else in roost does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from roost.config.load import FILE, Examined, Loaded, Machine, examine, home_of, load
from roost.errors import fail


def read(flags: Mapping[str, object]) -> Loaded:
    """Load the settings of this process from its flags, its environment and its file.

    `flags` may also hold `config`, the path of a file that then has to exist. Raises `bad_request`
    for everything that is wrong.
    """
    environ, machine = read_environment(), _read_machine()
    home, text = _found(flags, environ, machine)
    loaded = load(environ, flags, text, machine)
    return _at(home, loaded)


def read_all(flags: Mapping[str, object]) -> Examined:
    """Do the same, and give what is wrong beside what is in force without it.

    Raises `bad_request` only for a file that cannot be read.
    """
    environ, machine = read_environment(), _read_machine()
    home, text = _found(flags, environ, machine)
    examined = examine(environ, flags, text, machine)
    return examined._replace(loaded=_at(home, examined.loaded))


def _found(
    flags: Mapping[str, object], environ: Mapping[str, str], machine: Machine
) -> tuple[Path, str]:
    """Find the home folder, and the text of the settings file."""
    home = of_user(home_of(environ, flags, machine)).absolute()
    named = str(flags.get("config") or "")
    return home, _read_file(Path(named) if named else home / FILE, must_exist=bool(named))


def _at(home: Path, loaded: Loaded) -> Loaded:
    return loaded._replace(settings=loaded.settings._replace(home=str(home)))


def of_user(text: str) -> Path:
    """Return a path as a person writes it, with ~ for a user's folder; raises `bad_request`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise fail("bad_request", f"{text}: there is no such user, or none with a folder") from None


def read_environment() -> dict[str, str]:
    """Copy the environment, for children that need it."""
    return dict(os.environ)


def read_user_folder() -> Path:
    """Say where this user's programs keep what configures them."""
    import platformdirs

    return Path(platformdirs.user_config_dir())


def read_usual_home() -> str:
    """Say where ROOST_HOME is when nothing names another folder."""
    import platformdirs

    return platformdirs.user_data_dir("roost", appauthor=False)


def _read_machine() -> Machine:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return Machine(cores, read_usual_home())


def _read_file(path: Path, *, must_exist: bool) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        if must_exist:
            raise fail("bad_request", "--config names a file that does not exist") from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = type(error).__name__
        raise fail("bad_request", f"{path.name} cannot be read ({why}): check the file") from None
