"""DECIDER: how the value of each setting is chosen and checked.

A flag beats a variable, a variable beats the file, the file beats the default. Every mistake is
told with its source, its value and what is needed, and all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from roost.config.setting import Setting, Value
from roost.config.settings import Settings
from roost.config.table import BY_NAME, TABLE

FILE = "roost.toml"
MODELS = "models."
OPTIONS = "model_options"
MODEL_OPTIONS = {
    name: BY_NAME[name]
    for name in (
        *("ctx", "slots", "batch", "threads", "threads_batch", "ubatch", "cache_type_k"),
        *("cache_type_v", "flash_attn", "gpu_layers", "main_gpu", "kv_offload", "mmap", "mlock"),
        *("step_budget_ms", "projector", "adapters", "llama_args", "device", "dtype", "mode"),
        *("pooling", "vector_sizes"),
    )
}
"""What may differ from model to model; each is a setting for all models, too."""
WITH_TABLES = ("keys",)
"""Lists of texts each of which may be a table in the file."""

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


class Fault(NamedTuple):
    """One mistake: the path of a setting, "" for the whole file, and what is wrong with it."""

    setting: str
    message: str


class Examined(NamedTuple):
    """What is in force where wrong values count as not given, and everything that is wrong."""

    loaded: Loaded
    faults: tuple[Fault, ...]


class _WrongError(Exception):
    """One mistake on its way up; `errors` is heavy, and not needed while nothing is wrong."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(setting, message)


def load(
    environ: Mapping[str, str], flags: Mapping[str, object], toml_text: str, machine: Machine
) -> Loaded:
    """Choose and check every setting.

    `flags` maps attributes of `Settings` to what a command line gave, None where it gave nothing.
    An empty variable counts as not set. Raises `bad_request`, which names the source and the value
    of everything that is wrong.
    """
    loaded, faults = examine(environ, flags, toml_text, machine)
    if faults:
        from roost.errors import fail

        raise fail("bad_request", told(faults), param=faults[0].setting or None)
    return loaded


def told(faults: Sequence[Fault]) -> str:
    """Write all that is wrong for people: a sentence, or one a line."""
    if len(faults) == 1:
        return faults[0].message
    lines = "".join(f"\n  {fault.message}" for fault in faults)
    return f"{len(faults)} settings are wrong:{lines}"


def examine(
    environ: Mapping[str, str], flags: Mapping[str, object], toml_text: str, machine: Machine
) -> Examined:
    """Choose and check every setting, and go on where one is wrong."""
    faults: list[Fault] = []
    file = _read(toml_text, faults)
    given = {row.name: _given(row, environ, flags, file, faults) for row in TABLE}
    chosen = {row.name: _chosen(row, given) for row in TABLE}
    settings = _worked_out(Settings._make(value for _, value in chosen.values()), machine)
    wrong = {fault.setting for fault in faults}
    # What is wrong by itself is no measure for others.
    faults += [fault for fault in _together(settings) if not _MEASURED[fault.setting] & wrong]
    names = {v for row in TABLE for v in (row.variable, *row.aliases)}
    unknown = tuple(sorted(v for v in environ if v.startswith("ROOST_") and v not in names))
    origins = {name: origin for name, (origin, _) in chosen.items()}
    return Examined(Loaded(settings, origins, unknown), tuple(faults))


def home_of(environ: Mapping[str, str], flags: Mapping[str, object], machine: Machine) -> str:
    """Say where the settings file is looked for; only the file itself cannot say."""
    given = _given(BY_NAME["home"], environ, flags, {}, [])
    return str(given[1]) if given else machine.home


def _parse_toml(text: str, faults: list[Fault]) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        faults.append(Fault("", f"the settings file is not TOML: {error}"))
        return {}


def _read(text: str, faults: list[Fault]) -> dict[str, object]:
    """Read a settings file as values by the names of settings."""
    options: list[str] = []
    flat = dict(_flatten(_parse_toml(text, faults), options, faults))
    listed = flat.get(OPTIONS, [])
    if options and isinstance(listed, list):
        flat[OPTIONS] = [*listed, *options]
    return flat


def _flatten(
    table: Mapping[str, object], options: list[str], faults: list[Fault], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Turn `[queue] length = 1` into `queue.length`, noting keys that no row has."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and prefix == MODELS:
            options += _of_model(key, value, faults)
        elif isinstance(value, dict):
            yield from _flatten(value, options, faults, f"{name}.")
        elif name in WITH_TABLES and isinstance(value, list):
            yield name, [_in_one_text(one) for one in value]
        elif name in BY_NAME and name != "home":
            yield name, value
        else:
            faults.append(Fault(name, f"{name} in the settings file {_no_setting(name)}"))


def _in_one_text(value: object) -> object:
    """Write a table of a list, as `[[keys]]`, as the text that it may also be given as."""
    return _as_json(value) if isinstance(value, dict) else value


def _as_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def _of_model(model: str, table: Mapping[str, object], faults: list[Fault]) -> Iterator[str]:
    """Turn `[models.MODEL.options] ctx = 1` into `MODEL.ctx=1`, noting what is wrong in it."""
    for key, value in table.items():
        path = f"{MODELS}{model}.{key}"
        if key != "options" or not isinstance(value, dict):
            faults.append(Fault(path, f"{path} in the settings file is no setting: remove it"))
            continue
        for option, wanted in value.items():
            row, where = MODEL_OPTIONS.get(option), f"{path}.{option}"
            if row is None:
                near = ", ".join(MODEL_OPTIONS)
                message = f"{where} in the settings file is no option of a model; there are {near}"
                faults.append(Fault(where, message))
            elif not _FITS[type(row.default)](row, wanted):
                origin = f"{where} in the settings file"
                faults.append(Fault(where, _complaint(row, origin, wanted)))
            else:
                yield f"{model}.{option}={_as_json(wanted) if isinstance(wanted, list) else wanted}"


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
    faults: list[Fault],
) -> tuple[str, Value] | None:
    """Find the strongest source that has the setting; None where nobody gave it, or a wrong one."""
    try:
        if (value := flags.get(row.attribute)) is not None:
            return row.flag, _parsed(row, row.flag, value)
        for variable in (row.variable, *row.aliases):
            if text := environ.get(variable):
                return variable, _parsed(row, variable, text)
        if row.name in file:
            origin = f"{row.name} in the settings file"
            return origin, _checked(row, origin, file[row.name])
    except _WrongError as wrong:
        faults.append(wrong.fault)
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
    read = kind(value)
    if row.name == OPTIONS and isinstance(read, tuple):
        for text in read:
            _check_option(origin, text)
    return read


def _check_option(origin: str, text: str) -> None:
    """Refuse what is not `MODEL.option=number` with an option that models have."""
    model, option, said = _split(text)
    row = MODEL_OPTIONS.get(option)
    if not model or row is None:
        near = ", ".join(MODEL_OPTIONS)
        message = f"{origin} has {text[:80]!r}: write MODEL.OPTION=VALUE, with one of {near}"
        raise _WrongError(OPTIONS, message)
    value = _option_value(row, said)
    if value is None or not _FITS[type(row.default)](row, value):
        where = f"{MODELS}{model}.options.{option}"
        raise _WrongError(where, _complaint(row, f"{where} in {origin}", said))


def read_option(text: str) -> tuple[str, str, Value]:
    """Read an option of a model that has been checked: the model, the option, its value."""
    model, option, said = _split(text)
    value = _option_value(MODEL_OPTIONS[option], said)
    assert value is not None, "it has been checked"
    return model, option, value


def _split(text: str) -> tuple[str, str, str]:
    """Split `MODEL.option=value`; parts that are not there are empty."""
    for at in (at for at, char in enumerate(text) if char == "="):
        # What is said may hold "=" and dots, and so may the model's name.
        model, _, option = text[:at].rpartition(".")
        if option.strip() in MODEL_OPTIONS:
            return model.strip(), option.strip(), text[at + 1 :].strip()
    path, _, said = text.rpartition("=")
    model, _, option = path.rpartition(".")
    return model.strip(), option.strip(), said.strip()


def _option_value(row: Setting, said: str) -> Value | None:
    """Read what is said of an option, None for nonsense; a list is JSON, or its only text."""
    try:
        if not isinstance(row.default, tuple):
            return _READ[type(row.default)](said)
        if not said.startswith("["):
            return (said,)
        import json

        found = json.loads(said)
    except ValueError:
        return None
    good = isinstance(found, list) and all(isinstance(one, str) for one in found)
    return tuple(found) if good else None


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


def _wrong(row: Setting, origin: str, value: object) -> _WrongError:
    return _WrongError(row.name, _complaint(row, origin, value))


def _complaint(row: Setting, origin: str, value: object) -> str:
    shown = MASK if row.secret else repr(value)[:80]
    return f"{origin} is {shown}: {_wanted(row)} is needed"


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


_MEASURED: dict[str, set[str]] = {
    "link.suspect_s": {"link.ping_s", "link.suspect_s", "link.stale_s", "link.dead_s"},
    "link.message_max_bytes": {"link.message_max_bytes", "body_max_bytes"},
    "tls_cert": {"tls_cert", "tls_key"},
    "base_path": {"base_path"},
}
"""Which settings each check of several looks at, by the one that it complains about."""


def _together(settings: Settings) -> Iterator[Fault]:
    """Find settings that are fine alone and make no sense together."""
    s = settings
    if not s.link_ping_s < s.link_suspect_s < s.link_stale_s < s.link_dead_s:
        order = "link.ping_s < link.suspect_s < link.stale_s < link.dead_s"
        yield Fault("link.suspect_s", f"the order must be {order}")
    if s.link_message_max_bytes < 2 * s.body_max_bytes:
        # The rest of a request's message, and one client's choice of what to escape, fit as well.
        text = "link.message_max_bytes must be at least twice body_max_bytes"
        yield Fault("link.message_max_bytes", text)
    if bool(s.tls_cert) != bool(s.tls_key):
        yield Fault("tls_cert", "tls_cert and tls_key only work together")
    if s.base_path and (not s.base_path.startswith("/") or s.base_path.endswith("/")):
        text = f"base_path is {s.base_path!r}: it must begin with / and not end with one"
        yield Fault("base_path", text)
