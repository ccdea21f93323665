"""DECIDER: how the value of each setting is chosen and checked.

A flag beats a variable, a variable beats the file, the file beats the default. Every mistake is a
`bad_request` that names its source, its value and what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from roost.config.setting import Setting, Value
from roost.config.settings import Settings
from roost.config.table import BY_NAME, TABLE

if TYPE_CHECKING:
    from roost.errors import RoostError

FILE = "roost.toml"
MASK = "********"


class Machine(NamedTuple):
    """What defaults depend on: usable CPU cores, and the user's data folder for roost."""

    cores: int
    home: str


class Loaded(NamedTuple):
    """Settings with where each came from, and `ROOST_*` variables that no setting has.

    `origins` maps the name of a setting to a flag, a variable, the file or `default`.
    """

    settings: Settings
    origins: dict[str, str]
    unknown: tuple[str, ...] = ()


def load(
    environ: Mapping[str, str], flags: Mapping[str, object], toml_text: str, machine: Machine
) -> Loaded:
    """Choose and check every setting.

    `flags` maps attributes of `Settings` to what a command line gave, None where it gave nothing.
    An empty variable counts as not set. Raises `bad_request`, which names the source and the value.
    """
    file = _flatten(_parse_toml(toml_text))
    given = {row.name: _given(row, environ, flags, file) for row in TABLE}
    chosen = {row.name: _chosen(row, given) for row in TABLE}
    settings = _worked_out(Settings._make(value for _, value in chosen.values()), machine)
    _check_together(settings)
    names = {v for row in TABLE for v in (row.variable, *row.aliases)}
    unknown = tuple(sorted(v for v in environ if v.startswith("ROOST_") and v not in names))
    return Loaded(settings, {name: origin for name, (origin, _) in chosen.items()}, unknown)


def home_of(environ: Mapping[str, str], flags: Mapping[str, object], machine: Machine) -> str:
    """Say where the settings file is looked for; only the file itself cannot say."""
    given = _given(BY_NAME["home"], environ, flags, {})
    return str(given[1]) if given else machine.home


def _parse_toml(text: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(f"the settings file is not TOML: {error}") from None


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Turn `[queue] length = 1` into `queue.length`, refusing keys that no row has."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flatten(value, f"{name}.")
        elif name in BY_NAME and name != "home":
            flat[name] = value
        else:
            raise _bad(f"{name} in the settings file {_no_setting(name)}", name)
    return flat


def _no_setting(name: str) -> str:
    import difflib

    if name == "home":
        return "has no effect, as the file is looked for there: use --home or ROOST_HOME"
    near = difflib.get_close_matches(name, BY_NAME, 1)
    return f"is no setting: did you mean {near[0]}?" if near else "is no setting: remove it"


def _given(
    row: Setting,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    file: Mapping[str, object],
) -> tuple[str, Value] | None:
    """Find the strongest source that has the setting; None where nobody gave it."""
    if (value := flags.get(row.attribute)) is not None:
        return row.flag, _parsed(row, row.flag, value)
    for variable in (row.variable, *row.aliases):
        if text := environ.get(variable):
            return variable, _parsed(row, variable, text)
    if row.name in file:
        origin = f"{row.name} in the settings file"
        return origin, _checked(row, origin, file[row.name])
    return None


def _chosen(row: Setting, given: Mapping[str, tuple[str, Value] | None]) -> tuple[str, Value]:
    return given[row.name] or given.get(row.inherits) or ("default", row.default)


def _parsed(row: Setting, origin: str, value: object) -> Value:
    """Read what came as text; what did not is only checked."""
    if not isinstance(value, str):
        return _checked(row, origin, value)
    try:
        read = _READ[type(row.default)](value.strip())
    except ValueError:
        raise _wrong(row, origin, value) from None
    return _checked(row, origin, read, shown=value)


def _checked(row: Setting, origin: str, value: object, shown: object = None) -> Value:
    """Return a value that has the type of the row's default and lies within its bounds."""
    if not _FITS[type(row.default)](row, value):
        raise _wrong(row, origin, value if shown is None else shown)
    # A list becomes a tuple, and a whole number of seconds a float.
    kind = cast("Callable[[object], Value]", type(row.default))
    return kind(value)


def _read_switch(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True}
    words |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _within(row: Setting, value: float) -> bool:
    # A comparison with NaN is false, so NaN is never within.
    return not isinstance(value, bool) and row.least <= value <= row.most


_READ: dict[type, Callable[[str], Value]] = {
    bool: _read_switch,
    int: int,
    float: float,
    str: str,
    tuple: _read_list,
}
_FITS: dict[type, Callable[[Setting, object], bool]] = {
    bool: lambda _, value: isinstance(value, bool),
    int: lambda row, value: isinstance(value, int) and _within(row, value),
    float: lambda row, value: isinstance(value, (int, float)) and _within(row, value),
    str: lambda row, value: isinstance(value, str) and (not row.choices or value in row.choices),
    tuple: lambda _, value: isinstance(value, list | tuple) and all(type(x) is str for x in value),
}
_WANTED: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
}


def _bad(message: str, setting: str | None = None) -> RoostError:
    """Build the failure; its room is heavy, so it is imported when something has gone wrong."""
    from roost.errors import fail

    return fail("bad_request", message, param=setting)


def _wrong(row: Setting, origin: str, value: object) -> RoostError:
    shown = MASK if row.secret else repr(value)[:80]
    return _bad(f"{origin} is {shown}: {_wanted(row)} is needed", row.name)


def _wanted(row: Setting) -> str:
    """Say what a row takes, in words."""
    if row.choices:
        return "one of " + ", ".join(row.choices)
    words = _WANTED[type(row.default)]
    if type(row.default) not in {int, float}:
        return words
    unit = {"": "", "s": " of seconds, without a unit,"}.get(row.unit, f" of {row.unit}")
    return f"{words}{unit} from {row.least:.15g} to {row.most:.15g}"


def _worked_out(settings: Settings, machine: Machine) -> Settings:
    slots = settings.slots or (4 if machine.cores >= 4 else 2)
    return settings._replace(
        slots=slots,
        max_in_flight=settings.max_in_flight or slots,
        upstream_max_in_flight=settings.upstream_max_in_flight or slots,
        home=settings.home or machine.home,
    )


def _check_together(settings: Settings) -> None:
    """Refuse settings that are fine alone and make no sense together."""
    s = settings
    if not s.link_ping_s < s.link_suspect_s < s.link_stale_s < s.link_dead_s:
        order = "link.ping_s < link.suspect_s < link.stale_s < link.dead_s"
        raise _bad(f"the order must be {order}", "link.suspect_s")
    if s.link_message_max_bytes < 2 * s.body_max_bytes:
        # The rest of a request's message, and one client's choice of what to escape, fit as well.
        text = "link.message_max_bytes must be at least twice body_max_bytes"
        raise _bad(text, "link.message_max_bytes")
    if bool(s.tls_cert) != bool(s.tls_key):
        raise _bad("tls_cert and tls_key only work together", "tls_cert")
    if s.base_path and (not s.base_path.startswith("/") or s.base_path.endswith("/")):
        text = f"base_path is {s.base_path!r}: it must begin with / and not end with one"
        raise _bad(text, "base_path")
