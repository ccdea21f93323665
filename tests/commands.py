"""What the commands of roost take, read from their own help: for documents that name them."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from roost.cli.main import VERBS, run
from roost.cli.verbs.bench import KINDS

_ENTRY = re.compile(r"^  (?P<word>\S.*?)(?:  +(?P<told>\S.*))?$")
_FLAG = re.compile(r"--[a-z0-9][a-z0-9-]*")
_CHOICES = re.compile(r"\{([\w,-]+)\}")


class Entry(NamedTuple):
    """A line of a command's help: a word or a flag as it is written, and what it does."""

    word: str
    told: str

    @property
    def flags(self) -> frozenset[str]:
        """The flags that it is about; none for a word."""
        return frozenset(_FLAG.findall(self.word)) if self.word.startswith("-") else frozenset()


class Command(NamedTuple):
    """A command: `name` is `keys` or `bench load`, `entries` are its words and flags."""

    name: str
    description: str
    entries: tuple[Entry, ...]

    @property
    def flags(self) -> frozenset[str]:
        """Every flag that it takes."""
        return frozenset(flag for entry in self.entries for flag in entry.flags)

    @property
    def words(self) -> frozenset[str]:
        """What its first word has to be; empty where that may be anything."""
        first = next((entry.word for entry in self.entries if not entry.word.startswith("-")), "")
        choices = _CHOICES.fullmatch(first)
        return frozenset(choices[1].split(",")) if choices else frozenset()


@cache
def commands() -> dict[str, Command]:
    """Read every verb, and every kind of `roost bench`, by its name."""
    names = [*VERBS, *(f"bench {kind}" for kind in KINDS)]
    return {name: _read(name, _help(name)) for name in names}


def _help(name: str) -> str:
    """Have a command print its help, in lines that no terminal cuts."""
    printed = io.StringIO()
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "10000"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            run([*name.split(), "--help"])
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return printed.getvalue()


def _read(name: str, text: str) -> Command:
    usage, description, *sections = text.split("\n\n")
    assert usage.startswith(f"usage: roost {name}"), usage[:60]
    entries = (entry for section in sections for entry in _entries(section.splitlines()[1:]))
    return Command(name, description.strip(), tuple(entries))


def _entries(lines: list[str]) -> Iterator[Entry]:
    """Put the help of long flags, which begins a line of its own, behind them."""
    whole: list[str] = []
    for line in lines:
        if line.startswith("   "):
            whole[-1] += f"  {line.strip()}"
        elif line:
            whole.append(line)
    for line in whole:
        if found := _ENTRY.match(line):
            yield Entry(found["word"], found["told"] or "")


def described(name: str) -> str:
    """Say in one line what a command is for."""
    verb, _, kind = name.partition(" ")
    return KINDS[kind] if kind else VERBS[verb]
