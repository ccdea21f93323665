"""VALUE: what a setting is, and short ways to say the usual kinds.

This room imports no heavy library, msgspec included: what `--help` needs has to load at once.
"""

from __future__ import annotations

from typing import NamedTuple

Value = bool | int | float | str | tuple[str, ...]
"""What a setting can be; its default says which. A tuple is a list of texts."""

COUNT_MAX = 2**31 - 1
BYTES_MAX = 2**60
DAY_S = 86_400.0


class Setting(NamedTuple):
    """One row: `least` and `most` bound numbers; `aliases` are older names of the variable.

    `inherits` names a setting whose value, where somebody gave one, stands in for this default.
    """

    name: str
    default: Value
    unit: str
    help: str
    least: float = 0
    most: float = COUNT_MAX
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    inherits: str = ""
    secret: bool = False
    reloadable: bool = False

    @property
    def attribute(self) -> str:
        """The name in `Settings` and in an argparse namespace."""
        return self.name.replace(".", "_")

    @property
    def flag(self) -> str:
        """The name on a command line."""
        return "--" + self.attribute.replace("_", "-")

    @property
    def variable(self) -> str:
        """The name in the environment."""
        return f"ROOST_{self.attribute.upper()}"


def seconds(name: str, default: float, help_: str, least: float = 0.05) -> Setting:
    """Measure a time in seconds, at most a day."""
    return Setting(name, float(default), "s", help_, least=least, most=DAY_S)


def size(name: str, default: int, help_: str, least: int = 1) -> Setting:
    """Measure a size in bytes."""
    return Setting(name, default, "bytes", help_, least=least, most=BYTES_MAX)


def choice(name: str, choices: str, help_: str) -> Setting:
    """Offer words, the default first."""
    words = tuple(choices.split())
    return Setting(name, words[0], "", help_, choices=words)


def switch(name: str, help_: str) -> Setting:
    """Turn something on that is off."""
    return Setting(name, default=False, unit="", help=help_)
