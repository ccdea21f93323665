"""DECIDER: the table of settings as flags, as `config show` and as reference documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from roost.config.load import FILE, MASK, MODEL_OPTIONS, Loaded
from roost.config.setting import Setting, Value
from roost.config.table import TABLE

if TYPE_CHECKING:
    import argparse


class Shown(NamedTuple):
    """One line of `roost config show`; a secret's value is masked."""

    name: str
    value: Value
    unit: str
    origin: str


def add_flags(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Give a verb the flags of the settings it uses, and `--config`.

    A name that ends in a dot stands for all settings that begin with it. Values stay text: `load`
    checks them, so that a wrong flag and a wrong variable read alike.
    """
    parser.add_argument("--config", metavar="FILE", help=f"settings file (default: home/{FILE})")
    for name in names:
        rows = [row for row in TABLE if row.name == name or _is_part(row.name, name)]
        assert rows, f"{name} is no setting"
        for row in rows:
            if isinstance(row.default, bool):
                # A switch may stand without its value.
                parser.add_argument(row.flag, nargs="?", const="true", help=row.help)
            else:
                parser.add_argument(row.flag, metavar=_metavar(row), help=_helped(row))


def _helped(row: Setting) -> str:
    """Add the default, where it says something by itself."""
    default = row.default
    if not default or isinstance(default, bool) or not isinstance(default, (int, float)):
        return row.help
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{row.help} (default: {shown})"


def _is_part(name: str, prefix: str) -> bool:
    return prefix.endswith(".") and name.startswith(prefix)


def _metavar(row: Setting) -> str:
    if row.choices:
        return "{" + ",".join(row.choices) + "}"
    words = {str: "TEXT", tuple: "A,B", int: "N", float: "N"}
    return row.unit.upper() or words[type(row.default)]


def describe(loaded: Loaded) -> list[Shown]:
    """List every setting in force with its unit and where it came from, secrets masked."""
    values = {row.name: getattr(loaded.settings, row.attribute) for row in TABLE}
    return [
        Shown(r.name, _masked(r, values[r.name]), r.unit, loaded.origins[r.name]) for r in TABLE
    ]


def _masked(row: Setting, value: Value) -> Value:
    return MASK if row.secret and value else value


def reference_markdown() -> str:
    """Render `TABLE` as docs/settings.md."""
    return _INTRODUCTION + "".join(_markdown_row(row) for row in TABLE)


def _markdown_row(row: Setting) -> str:
    default = f"{row.default:g}" if isinstance(row.default, float) else str(row.default).lower()
    shown = f"`{default}`" if row.default not in ("", ()) else ""
    named = f"`{row.variable}`" + "".join(f", `{alias}`" for alias in row.aliases)
    notes = [row.help]
    if row.choices:
        notes.append("One of " + ", ".join(f"`{c}`" for c in row.choices) + ".")
    if row.inherits:
        notes.append(f"A `{row.inherits}` that is set counts here too.")
    if row.reloadable:
        notes.append("HUP reads it again.")
    cells = (f"`{row.name}`", f"`{row.flag}`", named, shown, row.unit, " ".join(notes))
    return "| " + " | ".join(cells) + " |\n"


_INTRODUCTION = f"""\
# Settings

Written by `make docs` from the table in `src/roost/config/table.py`.

A flag beats a variable, a variable beats the file, the file beats the default.
The file is `{FILE}` in the home folder, or what `--config` names.
`queue.length` is written there as

```toml
[queue]
length = 64
```

and `model_options = ["smol.ctx=8192"]` as

```toml
[models.smol.options]
ctx = 8192
```

What may differ from model to model: {", ".join(f"`{name}`" for name in MODEL_OPTIONS)}.

`roost config check FILE` names everything that is wrong in a file, with its path.
An empty variable counts as not set.
Lists are written with commas in flags and variables, and as lists of texts in the file.
Keys may be tables:

```toml
[[keys]]
name = "me"
sha256 = "…"       # of the key: printf %s KEY | sha256sum; or key = "sk-…", in a file of mode 0600
role = "admin"     # or user; also tenant, weight, class, as `roost keys add` takes them
at_once = 4        # and requests_per_minute, tokens_per_minute, tokens_per_day, tokens_per_month
models = ["smol"]  # which it may use; all without this line
cache_salt = "us"  # all keys of one salt share what is computed of prompts; others do not
```

`roost config show` prints what is in force and where it comes from, with secrets masked.

| setting | flag | variable | default | unit | meaning |
|---|---|---|---|---|---|
"""
